"""Count the examples of a property test: all in a whole run, a share in the fast part."""

from hypothesis import settings

_USUAL = 100


def examples(count: int) -> int:
    """Return how many of `count` examples this run draws, as the profile in force says."""
    profile = settings.default
    assert profile is not None
    return -(-count * profile.max_examples // _USUAL)
