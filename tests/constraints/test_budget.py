"""No answer has more thought than its budget, and none in its text, as the gateway reads it."""

import random
from collections import defaultdict

import pytest

from appliance.parsing.format import AnswerFormat
from tests.constraints.walk import FORMATS, HEADER, VOCABULARIES, WORD, Vocabulary, Walk


class Thinker:
    """A model that wants to think, whatever happens, and says a word where it cannot."""

    def __init__(self, walk: Walk, seed: str) -> None:
        self._walk, self._rng = walk, random.Random(seed)
        self._texts: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for number, token in enumerate(walk.vocabulary.tokens):
            if text := token.decode("latin-1"):
                self._texts[text[0]].append((number, text))
        self._wanted = ""
        self._num_before = 0
        self._header = HEADER if walk.begun == HEADER else ""
        # What may stand before an opening here; in a line that has text, none is one.
        self._here = ["", "\n"]

    def go_on(self) -> None:
        """Write one token."""
        allowed = self._walk.allowed()
        if allowed.sum() == 1:
            # Whoever is made to end a thought begins the next.
            self._walk.take(int(allowed.argmax()))
            self._wanted, self._here = "", [self._header]
            return
        if not self._wanted:
            self._want()
        options = self._texts[self._wanted[0]]
        fitting = [
            each for each in options if allowed[each[0]] and self._wanted.startswith(each[1])
        ]
        if not fitting:
            # It was kept from a thought. If its opening has begun, it thinks all the same.
            self._wanted = "a" if self._num_before > 0 else 9 * WORD
            fitting = [self._texts[self._wanted[0]][0]]
        token, text = self._rng.choice(fitting)
        self._walk.take(token)
        self._wanted = self._wanted.removeprefix(text)
        self._num_before -= len(text)

    def _want(self) -> None:
        marks = self._walk.marks
        before = self._rng.choice([*self._here, f"\n{self._header}", f"a\n{self._header}"])
        words = WORD * self._rng.randint(0, 9)
        after = self._rng.choice(["", "", f"{marks.closing}a", f"{marks.closing}\n"])
        self._wanted = f"{before}{marks.opening}{words}{after}"
        self._num_before, self._here = len(before) + 1, []


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.reasoning)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("budget", [0, 4])
def test_whoever_keeps_thinking_comes_to_the_answer(
    form: AnswerFormat, vocabulary: Vocabulary, budget: int
) -> None:
    walk = Walk(form, vocabulary, budget)
    thinker = Thinker(walk, f"{form}{budget}")

    while len(walk.tokens) < 180 or walk.counter.is_open:
        thinker.go_on()

    answer = walk.read()
    assert WORD not in answer.content
    assert answer.num_thought <= budget
    assert "a" in answer.content
