"""Rows of 64 numbers as one value, for compiled kernels: loads, products and updates that stay in vector registers.

The compiler of numba does not reliably turn loops over a row into vector instructions. Here a row *is* a vector: LLVM
cuts it into the registers of the processor at hand, eight of AVX2 or four of AVX-512, and holds a running sum in them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

#: Numbers in a row, and in what a product of two rows is folded to until all blocks have been added.
WIDTH, FOLD = 64, 8

#: For all loops on rows: without the interpreter's lock, so that they run on all cores. What is compiled is kept on
#: disk and made anew when its file changes: after a change of this file alone, touch the others.
compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


class RowType(types.Type):
    """The type of a row in numba's eyes."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Row{WIDTH}({dtype})")


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: RowType) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), WIDTH))


@intrinsic
def load(context: Any, array: Any, index: Any) -> Any:
    """Row ``index`` of an array of shape (rows, 64)."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(target, builder, signature, arguments), align=_size(signature.args[0]))

    return RowType(array.dtype)(array, index), generate


@intrinsic
def store(context: Any, array: Any, index: Any, row: Any) -> Any:
    """Write a row where ``load`` would read it."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments)
        builder.store(arguments[2], place, align=_size(signature.args[0]))
        return target.get_dummy_value()

    return types.void(array, index, row), generate


@intrinsic
def nothing(context: Any, array: Any) -> Any:
    """A row of zeros, in the precision of an array."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _constant(target.get_value_type(signature.return_type), 0.0)

    return RowType(array.dtype)(array), generate


@intrinsic
def plus_scaled(context: Any, row: Any, scale: Any, other: Any) -> Any:
    """``row + scale * other``, each element rounded once."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, scale, other = arguments
        return _fma(builder, _spread(builder, scale, row.type), other, row)

    return row(row, row.dtype, row), generate


@intrinsic
def positive(context: Any, row: Any) -> Any:
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
def kept(context: Any, row: Any, key: Any, counter: Any, least: Any) -> Any:
    """Dropout: the row where a random byte is ``least`` or more, zero elsewhere.

    The bytes are those of SplitMix64 at eight places that belong to ``counter``: the same for the same key and counter,
    so that nothing has to be remembered for the way back.
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
    """Add the products of two rows to the eight numbers ``sums[index]``, whose sum is then that of all products.

    Sums over many blocks are folded to one number once, at their end, where ``dot`` would do so for every block.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments, FOLD)
        total = builder.load(place, align=_size(signature.args[0]))
        for start in range(0, WIDTH, FOLD):
            left, right = (_part(builder, vector, start, FOLD) for vector in arguments[2:])
            total = _fma(builder, left, right, total)
        builder.store(total, place, align=_size(signature.args[0]))
        return target.get_dummy_value()

    return types.void(sums, index, row, other), generate


@intrinsic
def adam(context: Any, row: Any, gradient: Any, mean: Any, square: Any, rate: Any, root: Any, decay: Any) -> Any:
    """One step of Adam: the new row, mean and square; ``rate`` and ``root`` hold the corrections of the biases."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, gradient, mean, square, rate, root, decay = arguments
        gradient = _fma(builder, _spread(builder, decay, row.type), row, gradient)
        mean = _fma(builder, _constant(row.type, 0.1), builder.fsub(gradient, mean), mean)
        kept = builder.fmul(_constant(row.type, 0.999), square)
        square = _fma(builder, _constant(row.type, 0.001), builder.fmul(gradient, gradient), kept)
        size = builder.fmul(_call(builder, "sqrt", square), _spread(builder, root, row.type))
        step = builder.fdiv(mean, builder.fadd(size, _constant(row.type, 1e-8)))
        row = builder.fsub(row, builder.fmul(_spread(builder, rate, row.type), step))
        return target.make_tuple(builder, signature.return_type, [row, mean, square])

    number = row.dtype
    return types.UniTuple(row, 3)(row, row, row, row, number, number, number), generate


@compiled
def taken(sums: Any, index: int) -> Any:
    """The sum of ``sums[index]``, which begins anew."""
    total = sums[index, 0]
    sums[index, 0] = 0.0
    for part in range(1, FOLD):
        total += sums[index, part]
        sums[index, part] = 0.0
    return total


def _place(target: Any, builder: Any, signature: Any, arguments: Any, width: int = WIDTH) -> Any:
    kind, index = signature.args[0], signature.args[1]
    array = target.make_array(kind)(target, builder, arguments[0])
    row = target.cast(builder, arguments[1], index, types.intp)
    start = ir.Constant(row.type, 0)
    first = cgutils.get_item_pointer(target, builder, kind, array, [row, start], wraparound=False)
    vector = ir.VectorType(target.get_value_type(kind.dtype), width)
    return builder.bitcast(first, vector.as_pointer())


def _size(array: Any) -> int:
    """Bytes of one number: rows need no better alignment."""
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
