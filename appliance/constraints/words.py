"""Change masks: words of 32 tokens each, where bit n % 32 of word n // 32 allows token n."""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


def allow(words: Words, tokens: Iterable[int]) -> None:
    """Add tokens to a mask."""
    for token in tokens:
        words[token // 32] |= np.uint32(1 << token % 32)


def forbid(words: Words, tokens: Collection[int]) -> None:
    """Take tokens out of a mask, unless that leaves nothing."""
    if not tokens:
        return
    left = words.copy()
    for token in tokens:
        left[token // 32] &= ~np.uint32(1 << token % 32)
    if left.any():
        words[:] = left
