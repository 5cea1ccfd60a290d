"""Products of two thin matrices, summed over rows in the registers of the processor.

LLVM vectorises a loop, but does not keep a block of sums in registers over another loop. So the
innermost block is written as vector instructions, which LLVM fits to whatever processor there is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fires.core.types import Floats
from fires.kernels.compiling import inner

# The block: so many columns of one matrix, times so many of the other.
LINES, LANES = 4, 8
_AT_ONCE = 128  # rows that stay in the fastest memory for all blocks
_FUSED = ("contract",)
_build: Any = cgutils  # they have no types


def _block(
    typing: Any, left: Any, right: Any, start: Any, stop: Any, i: Any, j: Any, out: Any
) -> Any:
    """Add ``left[start:stop, i:i+4]' right[start:stop, j:j+8]`` to the same place of ``out``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, lanes = signature.args, ir.VectorType(ir.DoubleType(), LANES)
        one, two, three = (
            context.make_array(kinds[k])(context, builder, args[k]) for k in (0, 1, 6)
        )
        start, stop, i, j = args[2:6]
        first = ir.Constant(ir.IntType(32), 0)
        nothing = ir.Constant(lanes, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)

        def place(array: Any, row: Any, column: Any) -> Any:
            width = _build.unpack_tuple(builder, array.shape)[1]
            return builder.gep(array.data, [builder.add(builder.mul(row, width), column)])

        def several(array: Any, row: Any, column: Any) -> Any:
            return builder.bitcast(place(array, row, column), lanes.as_pointer())

        lines = [builder.add(i, ir.Constant(ir.IntType(64), k)) for k in range(LINES)]
        ends = [several(three, line, j) for line in lines]
        sums = [_build.alloca_once_value(builder, builder.load(end, align=8)) for end in ends]
        with _build.for_range(builder, stop, start=start) as loop:
            x = builder.load(several(two, loop.index, j), align=8)
            for line, total in zip(lines, sums, strict=True):
                w = builder.load(place(one, loop.index, line))
                w = builder.insert_element(nothing, w, first)
                more = builder.fmul(builder.shuffle_vector(w, nothing, everywhere), x, flags=_FUSED)
                builder.store(builder.fadd(builder.load(total), more, flags=_FUSED), total)
        for end, total in zip(ends, sums, strict=True):
            builder.store(builder.load(total), end, align=8)
        return context.get_dummy_value()

    places = (types.int64,) * 4
    return types.void(left, right, *places, out), generate


_add_block: Any = intrinsic(_block)


@inner
def add_products(left: Floats, right: Floats, out: Floats) -> None:
    """Add ``left' right`` to ``out``, on and below the diagonal; what is above it may be anything.

    All are C-ordered; ``left`` has a multiple of 4 columns, ``right`` one of 8.
    """
    for start in range(0, len(left), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(left))
        for i in range(0, left.shape[1], LINES):
            for j in range(0, min(i + LINES, right.shape[1]), LANES):
                _add_block(left, right, start, stop, i, j, out)
