"""Lanes of 16 numbers as one value, for the compiled products of a graph: loads and sums that stay in registers.

numba does not reliably turn a loop over a row into vector instructions. Here 16 columns of a row *are* a vector, which
LLVM cuts into the registers of the processor at hand; in single precision they are one line of the cache.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

#: Numbers in a lane.
LANE = 16


class LaneType(types.Type):
    """The type of a lane in numba's eyes."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lane{LANE}({dtype})")


@register_model(LaneType)
class _LaneModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: LaneType) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), LANE))


@intrinsic
def load(context: Any, array: Any, row: Any, lane: Any) -> Any:
    """Lane ``lane`` of a row of an array of shape (rows, 16 times lanes)."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(target, builder, signature, arguments), align=_size(signature.args[0]))

    return LaneType(array.dtype)(array, row, lane), generate


@intrinsic
def store(context: Any, array: Any, row: Any, lane: Any, value: Any) -> Any:
    """Write a lane where ``load`` would read it."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments)
        builder.store(arguments[3], place, align=_size(signature.args[0]))
        return target.get_dummy_value()

    return types.void(array, row, lane, value), generate


@intrinsic
def fetch(context: Any, array: Any, row: Any, lane: Any) -> Any:
    """Ask the memory for a lane that will be loaded soon."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(_place(target, builder, signature, arguments), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # To read, into all caches, as data.
        builder.call(function, [place, whole(0), whole(3), whole(1)])
        return target.get_dummy_value()

    return types.void(array, row, lane), generate


@intrinsic
def scaled(context: Any, value: Any, scale: Any) -> Any:
    """``scale * value``."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(_spread(builder, arguments[1], arguments[0].type), arguments[0])

    return value(value, value.dtype), generate


@intrinsic
def plus_scaled(context: Any, value: Any, scale: Any, other: Any) -> Any:
    """``value + scale * other``, each number rounded once."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, scale, other = arguments
        vector = value.type
        kind = "f32" if isinstance(vector.element, ir.FloatType) else "f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{LANE}{kind}"
        )
        return builder.call(function, [_spread(builder, scale, vector), other, value])

    return value(value, value.dtype, value), generate


def _place(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = target.make_array(kind)(target, builder, arguments[0])
    row, lane = (target.cast(builder, arguments[i], signature.args[i], types.intp) for i in (1, 2))
    column = builder.mul(lane, ir.Constant(lane.type, LANE))
    first = cgutils.get_item_pointer(target, builder, kind, array, [row, column], wraparound=False)
    return builder.bitcast(first, ir.VectorType(target.get_value_type(kind.dtype), LANE).as_pointer())


def _size(array: Any) -> int:
    """Bytes of one number: lanes need no better alignment."""
    return int(array.dtype.bitwidth // 8)


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """One number in every place."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANE), [0] * LANE)
    return builder.shuffle_vector(first, undefined, everywhere)
