"""Fill the masks of a step for all rows at once."""

import os
from collections.abc import Sequence

import numpy as np
from llguidance import LLExecutor
from llguidance.numpy import fill_next_token_bitmask_par

from appliance.constraints.guide import Guide
from appliance.constraints.words import Words

# More of them wake too late to be of use to masks that take a tenth of a millisecond each.
_MOST_THREADS = 2
_ALL = np.uint32(0xFFFFFFFF)


class MaskFiller:
    """Fills masks on threads of its own while the caller waits. One caller at a time."""

    def __init__(self, vocab_size: int) -> None:
        self._num_words = (vocab_size + 31) // 32
        self._executor = LLExecutor(min(_MOST_THREADS, os.cpu_count() or 1))

    def fill(self, guides: Sequence[Guide | None]) -> Words:
        """Return the masks (B, V / 32) of the next tokens; a row without a guide is all ones.

        A row of zeros allows nothing: its guide's `error` may say why.
        """
        words = np.full((len(guides), self._num_words), _ALL)
        asked = [(row, guide.matcher()) for row, guide in enumerate(guides) if guide is not None]
        matchers = [(matcher, row) for row, matcher in asked if matcher is not None]
        if matchers:
            fill_next_token_bitmask_par(self._executor, matchers, words.view(np.int32))
        for row, guide in enumerate(guides):
            if guide is not None and guide.error:
                words[row] = 0
            elif guide is not None:
                guide.amend(words[row])
        return words
