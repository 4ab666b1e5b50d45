"""torch's uniform numbers, compiled: those of ``uniform_`` under a seed, in a quarter of the time.

torch draws one number per call. Here all 624 words of the generator's state (MT19937: Matsumoto and Nishimura 1998) are
renewed and turned into numbers at once, in loops that become vector instructions.

These numbers are the same on every processor: rounded once, as torch rounds where the processor multiplies and adds in
one instruction. Elsewhere torch rounds the product too, and its last bit may be another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled

_WORDS, _AHEAD = 624, 397
_ONE, _TOP, _REST, _TWIST = (np.uint32(word) for word in (1, 0x80000000, 0x7FFFFFFF, 0x9908B0DF))
# How a word of the state becomes a random one: shifts and masks.
_FIRST, _SECOND, _THIRD, _FOURTH = (np.uint32(shift) for shift in (11, 7, 15, 18))
_SECOND_MASK, _THIRD_MASK = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
# The bits of a word that make a number of single precision.
_BITS = np.uint32(0xFFFFFF)


@compiled("float32[1], int64, float64, float64")
def fill_uniform(out: Any, seed: int, low: float, high: float) -> None:
    """Fill an array of float32 as ``uniform_(low, high)`` would under ``manual_seed(seed)``; seeds are of 32 bits."""
    state = np.empty(_WORDS, np.uint32)
    word = seed
    for place in range(_WORDS):
        state[place] = word
        word = (1812433253 * (word ^ (word >> 30)) + place + 1) & 0xFFFFFFFF
    first, span = np.float64(np.float32(low)), np.float64(np.float32(high) - np.float32(low))
    # numba widens whole numbers: the casts keep them in 32 bits, as wide as the vectors are to be.
    for start in range(0, out.shape[0], _WORDS):
        _renew(state)
        for place in range(min(_WORDS, out.shape[0] - start)):
            random = state[place]
            random = np.uint32(random ^ (random >> _FIRST))
            random = np.uint32(random ^ ((random << _SECOND) & _SECOND_MASK))
            random = np.uint32(random ^ ((random << _THIRD) & _THIRD_MASK))
            random = np.uint32(random ^ (random >> _FOURTH))
            out[start + place] = np.float64(np.int32(random & _BITS)) * 2.0**-24 * span + first


@compiled()
def _renew(state: Any) -> None:
    """The next state: loops end where a word would read one that is new."""
    for place in range(_WORDS - _AHEAD):
        state[place] = state[place + _AHEAD] ^ _mixed(state[place], state[place + 1])
    for place in range(_WORDS - _AHEAD, _WORDS - 1):
        state[place] = state[place + _AHEAD - _WORDS] ^ _mixed(state[place], state[place + 1])
    state[_WORDS - 1] = state[_AHEAD - 1] ^ _mixed(state[_WORDS - 1], state[0])


@compiled()
def _mixed(word: Any, after: Any) -> Any:
    odd = np.uint32(0) - (after & _ONE)  # all bits, or none
    return (((word & _TOP) | (after & _REST)) >> _ONE) ^ (odd & _TWIST)
