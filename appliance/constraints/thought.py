"""Follow an answer's thought by the bytes of its tokens. Pure."""

from dataclasses import dataclass, field
from enum import Enum


class Phase(Enum):
    """Where an answer stands."""

    OPENING = "opening"  # it has begun, and may still turn out to begin with a thought
    THOUGHT = "thought"
    CLOSING = "closing"  # the thought is over its budget; the closing mark is being written
    ANSWER = "answer"


@dataclass(frozen=True)
class Marks:
    """How thoughts begin and end, as bytes and as the tokens that write them."""

    opening: bytes
    closing: bytes
    closing_ids: tuple[int, ...]


@dataclass
class ThoughtWatch:
    """One answer's way into and out of the thought before it. Belongs to whoever drives it.

    A thought may begin after white space, and only at the start of the answer. `budget` counts the
    tokens inside, those of a closing mark that the model writes by itself too; with 0 a thought is
    closed as soon as it is open.
    """

    marks: Marks
    phase: Phase
    budget: int | None = None
    num_thought: int = 0
    forced: list[int] = field(default_factory=list)
    _text: bytes = b""

    @classmethod
    def begin(cls, marks: Marks, *, is_open: bool, budget: int | None) -> "ThoughtWatch":
        """Return the watch of an answer of which nothing is there yet."""
        watch = cls(marks, Phase.THOUGHT if is_open else Phase.OPENING, budget)
        watch._spend(0)
        return watch

    @property
    def tail(self) -> bytes:
        """What has come of an opening mark, or the last bytes of the thought."""
        return self._text

    @property
    def rest_of_opening(self) -> bytes:
        """What is missing of an opening mark; only while there may be one."""
        opening = self.marks.opening
        return opening.lstrip()[len(self._text) :] if self._text else opening

    def push(self, token: bytes) -> bytes:
        """Take the next token; return what of it stands behind a thought that it ended."""
        match self.phase:
            case Phase.OPENING:
                self._begin(token)
            case Phase.THOUGHT:
                return self._think(token, spent=1)
            case Phase.CLOSING:
                self.forced.pop(0)
                return self._close(token)
        return b""

    def _begin(self, token: bytes) -> None:
        opening = self.marks.opening.lstrip()
        text = (self._text + token).lstrip()
        if text.startswith(opening):
            self.phase, self._text = Phase.THOUGHT, b""
            self._think(text[len(opening) :], spent=0)
        elif opening.startswith(text):
            self._text = text
        else:
            self.phase = Phase.ANSWER

    def _think(self, token: bytes, spent: int) -> bytes:
        behind = self._find_end(token)
        if self.phase is Phase.THOUGHT:
            self._spend(spent)
        return behind

    def _close(self, token: bytes) -> bytes:
        behind = self._find_end(token)
        if not self.forced:
            self.phase = Phase.ANSWER
        return behind

    def _find_end(self, token: bytes) -> bytes:
        closing = self.marks.closing
        text = self._text + token
        _, found, behind = text.partition(closing)
        if found:
            self.phase, self._text, self.forced = Phase.ANSWER, b"", []
            return behind
        self._text = text[-(len(closing) - 1) :] if len(closing) > 1 else b""
        return b""

    def _spend(self, tokens: int) -> None:
        self.num_thought += tokens
        is_bound = self.phase is Phase.THOUGHT and self.budget is not None
        if is_bound and self.num_thought >= (self.budget or 0):
            self.phase, self.forced = Phase.CLOSING, list(self.marks.closing_ids)
