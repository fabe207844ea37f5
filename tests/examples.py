"""Say how much a test looks at: all in a whole run, a share in the fast part."""

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

_USUAL = 100


def examples(count: int) -> int:
    """Return how many of `count` examples this run looks at, as the profile in force says."""
    profile = settings.default
    assert profile is not None
    return -(-count * profile.max_examples // _USUAL)


def some(items: Sequence[T], seed: str) -> list[T]:
    """Return the items that this run looks at, in any order; the same for the same seed."""
    return random.Random(seed).sample(items, examples(len(items)))
