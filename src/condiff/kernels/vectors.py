"""Vectors of numbers as one value, for compiled loops: loads, products and updates that stay in registers.

The compiler of numba does not reliably turn loops over a row into vector instructions. Here a row of 64 numbers, or a
lane of 16, *is* a vector: LLVM cuts it into the registers of the processor at hand (64 numbers of single precision are
eight of AVX2 or four of AVX-512; 16 are one cache line) and holds a running sum in them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from condiff.kernels.compilation import compiled
from condiff.kernels.constants import EPSILON, FIRST_MOMENT, SECOND_MOMENT

#: Numbers in a row, in a lane, and in what a product of two rows is folded to until all blocks have been added.
WIDTH, LANE, FOLD = 64, 16, 8


class VectorType(types.Type):
    """The type of a vector in numba's eyes."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(f"Vector{width}({dtype})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.width))


@intrinsic
def load(context: Any, array: Any, row: Any) -> Any:
    """A row of an array of shape (rows, 64)."""
    return VectorType(array.dtype, WIDTH)(array, row), _load


@intrinsic
def load_lane(context: Any, array: Any, row: Any, lane: Any) -> Any:
    """A lane of a row of an array of shape (rows, 16 * lanes)."""
    return VectorType(array.dtype, LANE)(array, row, lane), _load


@intrinsic
def store(context: Any, array: Any, row: Any, vector: Any) -> Any:
    """Write a vector where :func:`load` would read it."""
    return types.void(array, row, vector), _store


@intrinsic
def store_lane(context: Any, array: Any, row: Any, lane: Any, vector: Any) -> Any:
    """Write a vector where :func:`load_lane` would read it."""
    return types.void(array, row, lane, vector), _store


@intrinsic
def prefetch_lane(context: Any, array: Any, row: Any, lane: Any) -> Any:
    """Ask the memory for a lane that will be loaded soon."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(_place(target, builder, signature, arguments, LANE), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # To read, into all caches, as data.
        builder.call(function, [place, whole(0), whole(3), whole(1)])
        return target.get_dummy_value()

    return types.void(array, row, lane), generate


@intrinsic
def zeros(context: Any, array: Any) -> Any:
    """A row of zeros, in the precision of an array."""
    return VectorType(array.dtype, WIDTH)(array), _zeros


@intrinsic
def zeros_lane(context: Any, array: Any) -> Any:
    """A lane of zeros, in the precision of an array."""
    return VectorType(array.dtype, LANE)(array), _zeros


@intrinsic
def scaled(context: Any, vector: Any, scale: Any) -> Any:
    """``scale * vector``."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(_spread(builder, arguments[1], arguments[0].type), arguments[0])

    return vector(vector, vector.dtype), generate


@intrinsic
def times(context: Any, left: Any, right: Any) -> Any:
    """``left * right``, number by number."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return left(left, right), generate


@intrinsic
def plus(context: Any, vector: Any, other: Any) -> Any:
    """``vector + other``."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return vector(vector, other), generate


@intrinsic
def plus_scaled(context: Any, vector: Any, scale: Any, other: Any) -> Any:
    """``vector + scale * other``, each number rounded once."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, scale, other = arguments
        return _fma(builder, _spread(builder, scale, vector.type), other, vector)

    return vector(vector, vector.dtype, vector), generate


@intrinsic
def plus_product(context: Any, vector: Any, left: Any, right: Any) -> Any:
    """``vector + left * right``, number by number, each rounded once."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, left, right = arguments
        return _fma(builder, left, right, vector)

    return vector(vector, vector, vector), generate


@intrinsic
def apart(context: Any, vector: Any, other: Any, least: Any) -> Any:
    """How far the numbers of two vectors are apart, ``least`` at least."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, other, least = arguments
        far, bound = _call(builder, "fabs", builder.fsub(vector, other)), _spread(builder, least, vector.type)
        return builder.select(builder.fcmp_ordered(">", far, bound), far, bound)

    return vector(vector, vector, vector.dtype), generate


@intrinsic
def relu(context: Any, row: Any) -> Any:
    """The row where it is positive, zero elsewhere."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _where_positive(builder, arguments[0], arguments[0])

    return row(row), generate


@intrinsic
def where_positive(context: Any, row: Any, other: Any) -> Any:
    """The row where the other one is positive, zero elsewhere."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _where_positive(builder, *arguments)

    return row(row, other), generate


@intrinsic
def dropout(context: Any, row: Any, key: Any, counter: Any, least: Any) -> Any:
    """The row where a random byte is ``least`` or more, zero elsewhere.

    The bytes are those of SplitMix64 at eight places that belong to ``counter``: the same for the same key and counter,
    so that no mask has to be stored for the backward pass.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, key, counter, least = arguments
        words = ir.VectorType(ir.IntType(64), WIDTH // 8)
        places = ir.Constant(words, list(range(words.count)))
        places = builder.add(_spread(builder, builder.mul(counter, ir.Constant(key.type, words.count)), words), places)
        random = builder.add(_spread(builder, key, words), builder.mul(places, _constant(words, 0x9E3779B97F4A7C15)))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            random = builder.xor(random, builder.lshr(random, _constant(words, shift)))
            random = builder.mul(random, _constant(words, factor))
        random = builder.xor(random, builder.lshr(random, _constant(words, 31)))
        bytes_ = ir.VectorType(ir.IntType(8), WIDTH)
        bound = _spread(builder, builder.trunc(least, bytes_.element), bytes_)
        stays = builder.icmp_unsigned(">=", builder.bitcast(random, bytes_), bound)
        return builder.select(stays, row, _constant(row.type, 0.0))

    return row(row, types.uint64, types.uint64, types.int64), generate


@intrinsic
def dot(context: Any, row: Any, other: Any) -> Any:
    """The sum of the products of two rows, halves added to halves."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, width = builder.fmul(*arguments), WIDTH
        while width > 1:
            width //= 2
            halves = [_part(builder, total, start, width) for start in (0, width)]
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return row.dtype(row, other), generate


@intrinsic
def add_products(context: Any, sums: Any, index: Any, row: Any, other: Any) -> Any:
    """Add the products of two rows to the eight partial sums ``sums[index]``.

    Sums over many blocks are folded to one number once, by :func:`pop_sum`, where :func:`dot` would do so for every
    block.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments[:2], FOLD)
        total = builder.load(place, align=_size(signature.args[0]))
        for start in range(0, WIDTH, FOLD):
            left, right = (_part(builder, vector, start, FOLD) for vector in arguments[2:])
            total = _fma(builder, left, right, total)
        builder.store(total, place, align=_size(signature.args[0]))
        return target.get_dummy_value()

    return types.void(sums, index, row, other), generate


@intrinsic
def adam(context: Any, row: Any, gradient: Any, mean: Any, square: Any, rate: Any, root: Any, decay: Any) -> Any:
    """One step of Adam: the new row, mean and square; ``rate`` and ``root`` include the bias corrections."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, gradient, mean, square, rate, root, decay = arguments
        gradient = _fma(builder, _spread(builder, decay, row.type), row, gradient)
        mean = _fma(builder, _constant(row.type, 1 - FIRST_MOMENT), builder.fsub(gradient, mean), mean)
        kept = builder.fmul(_constant(row.type, SECOND_MOMENT), square)
        square = _fma(builder, _constant(row.type, 1 - SECOND_MOMENT), builder.fmul(gradient, gradient), kept)
        size = builder.fmul(_call(builder, "sqrt", square), _spread(builder, root, row.type))
        step = builder.fdiv(mean, builder.fadd(size, _constant(row.type, EPSILON)))
        row = builder.fsub(row, builder.fmul(_spread(builder, rate, row.type), step))
        return target.make_tuple(builder, signature.return_type, [row, mean, square])

    number = row.dtype
    return types.UniTuple(row, 3)(row, row, row, row, number, number, number), generate


@compiled()
def pop_sum(sums: Any, index: int) -> Any:
    """The sum of ``sums[index]``, which is set to zero."""
    total = sums[index, 0]
    sums[index, 0] = 0.0
    for part in range(1, FOLD):
        total += sums[index, part]
        sums[index, part] = 0.0
    return total


def _zeros(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _constant(target.get_value_type(signature.return_type), 0.0)


def _load(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    place = _place(target, builder, signature, arguments, signature.return_type.width)
    return builder.load(place, align=_size(signature.args[0]))


def _store(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    place = _place(target, builder, signature, arguments[:-1], signature.args[-1].width)
    builder.store(arguments[-1], place, align=_size(signature.args[0]))
    return target.get_dummy_value()


def _place(target: Any, builder: Any, signature: Any, arguments: Any, width: int) -> Any:
    """Where a vector begins, given an array, a row and perhaps which vector of the row."""
    kind = signature.args[0]
    array = target.make_array(kind)(target, builder, arguments[0])
    indices = [
        target.cast(builder, value, given, types.intp)
        for value, given in zip(arguments[1:], signature.args[1:], strict=False)
    ]
    row, part = indices if len(indices) == 2 else (indices[0], ir.Constant(indices[0].type, 0))
    column = builder.mul(part, ir.Constant(part.type, width))
    first = cgutils.get_item_pointer(target, builder, kind, array, [row, column], wraparound=False)
    return builder.bitcast(first, ir.VectorType(target.get_value_type(kind.dtype), width).as_pointer())


def _size(array: Any) -> int:
    """Bytes of one number: vectors need no better alignment."""
    return int(array.dtype.bitwidth // 8)


def _constant(vector: Any, value: float | int) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """One number in every place."""
    undefined, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(undefined, number, zero)
    return builder.shuffle_vector(
        first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    )


def _part(builder: Any, vector: Any, start: int, width: int) -> Any:
    places = ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(start, start + width)))
    return builder.shuffle_vector(vector, vector, places)


def _where_positive(builder: Any, row: Any, other: Any) -> Any:
    zero = _constant(row.type, 0.0)
    return builder.select(builder.fcmp_ordered(">", other, zero), row, zero)


def _fma(builder: Any, left: Any, right: Any, added: Any) -> Any:
    return _call(builder, "fma", left, right, added)


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    vector = arguments[0].type
    kind = "f32" if isinstance(vector.element, ir.FloatType) else "f64"
    function = ir.FunctionType(vector, [vector] * len(arguments))
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.v{vector.count}{kind}"), arguments
    )
