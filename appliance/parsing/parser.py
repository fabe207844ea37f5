"""Tell thoughts, calls and text of an answer apart, however its text is split into pieces."""

from appliance.parsing.format import CALL_MARKS, THOUGHT_MARKS, AnswerFormat
from appliance.parsing.hermes import HermesCall, Stage
from appliance.parsing.mark import mark_finder
from appliance.parsing.parsed import Parsed, Text, Thought

_LINE_ENDS = "\r\n"
_SPACE = " \t\r\n"


class AnswerParser:
    """Read one answer. One instance per request; pure, in time linear in the text.

    Line ends next to a thought's marks, on its side and behind it, belong to the marks, as does
    white space round a call's. A thought begins where nothing but white space precedes it in its
    line; calls are those of declared names, and not looked for in thoughts nor after a broken call.
    All else comes out as it went in: text that may belong to a mark is held until it is known.
    """

    def __init__(
        self, form: AnswerFormat, tool_names: frozenset[str], *, is_in_thought: bool
    ) -> None:
        """Without `tool_names` there are no calls. `is_in_thought`: the prompt began a thought."""
        self._thought = THOUGHT_MARKS[form.reasoning]
        self._calls = CALL_MARKS[form.tools] if tool_names else None
        self._tool_names = tool_names
        self._pieces: list[Parsed] = []
        self._total = 0
        self._base = 0
        self._held = ""
        self._is_last = False
        self._call: HermesCall | None = None
        self._reads_calls = True
        self._skipped = ""
        self._begin_text("")
        if is_in_thought:
            self._begin_thought()

    def feed(self, text: str) -> list[Parsed]:
        """Take more text and return what is certain now."""
        at = self._total
        return [self._kind(text, at)] if self._passes(text) else self._read(text)

    def passes_text(self, text: str) -> bool:
        """Take `text` if all of it is at once more of the answer's text; else it is to be fed."""
        return self._kind is Text and self._passes(text)

    def end(self) -> list[Parsed]:
        """Return what was held, once the text has ended."""
        self._is_last = True
        return self._read("")

    def _passes(self, text: str) -> bool:
        """Take text in which nothing can be a mark, after text with nothing held: most of all."""
        is_plain = (
            self._is_flowing
            and self._call is None
            and not self._held
            and not self._space
            and "<" not in text
            and text != ""
            and text[-1] not in self._soft
        )
        if is_plain:
            self._total += len(text)
        return is_plain

    def _read(self, text: str) -> list[Parsed]:
        self._base = self._total - len(self._held)
        self._total += len(text)
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) or (self._is_last and self._call is not None):
            at = self._read_flow(text, at) if self._call is None else self._read_call(text, at)
        if self._is_last and self._space:
            self._emit("", self._total)
        pieces = self._pieces.copy()
        self._pieces.clear()
        return pieces

    def _read_flow(self, text: str, at: int) -> int:
        found = self._finder.search(text, at)
        start = found.start() if found else len(text)
        self._flow(text[at:start], self._base + at)
        if found is None:
            return start
        if found[0] in self._marks:
            self._mark(found[0], self._base + start)
        elif self._is_last:
            self._emit(found[0], self._base + start)
        else:
            self._held = found[0]
        return found.end()

    def _flow(self, text: str, at: int) -> None:
        """Give away what has no meaning but its own, save for white space at its end."""
        kept = text.lstrip(self._skipped)
        solid = kept.rstrip(self._soft)
        if solid:
            self._emit(solid, at + len(text) - len(kept))
        if len(solid) < len(kept):
            self._skipped = ""
            self._space.append(kept[len(solid) :])

    def _emit(self, solid: str, at: int) -> None:
        text = "".join(self._space) + solid
        self._space.clear()
        self._pieces.append(self._kind(text, at + len(solid) - len(text)))
        self._skipped = ""
        self._is_flowing = True

    def _mark(self, mark: str, at: int) -> None:
        """Take a mark for what it is here; what means nothing here stands for itself."""
        thought, calls = self._thought, self._calls
        if thought and mark == thought.closing:
            self._begin_text(_LINE_ENDS)
        elif thought and mark == thought.opening and self._may_open_thought():
            if self._is_flowing and self._space:
                self._emit("", at)
            self._begin_thought()
        elif calls and mark == calls.opening and self._reads_calls:
            self._call = HermesCall(calls, self._tool_names, self._pieces)
        elif not (calls and mark == calls.closing and self._skipped == _SPACE):
            self._emit(mark, at)

    def _may_open_thought(self) -> bool:
        """Say so at the start of a line; a second opening counts only right behind the first."""
        if self._kind is Thought:
            return not self._is_flowing
        return not self._is_flowing or any("\n" in space for space in self._space)

    def _read_call(self, text: str, at: int) -> int:
        call, calls = self._call, self._calls
        assert call is not None and calls is not None
        start, at = at, call.read(text, at, is_last=self._is_last)
        if call.stage is Stage.TEXT:
            self._call = None
            self._emit(calls.opening, self._base + start - len(calls.opening))
        elif call.stage is Stage.OVER:
            self._call = None
            self._reads_calls = not call.is_broken
            self._begin_text(_SPACE)
        else:
            self._held = text[at:]
            at = len(text)
        return at

    def _begin_text(self, skipped: str) -> None:
        thought, calls = self._thought, self._calls
        marks = ((thought.opening,) if thought else ()) + (
            (calls.opening, calls.closing) if calls else ()
        )
        self._begin(Text, _SPACE, skipped, marks)

    def _begin_thought(self) -> None:
        assert self._thought is not None
        marks = (self._thought.opening, self._thought.closing)
        self._begin(Thought, _LINE_ENDS, _LINE_ENDS, marks)

    def _begin(
        self, kind: type[Text] | type[Thought], soft: str, skipped: str, marks: tuple[str, ...]
    ) -> None:
        """Begin a stretch: `skipped` is dropped at its start, `soft` held at its end."""
        self._kind = kind
        self._soft = soft
        self._skipped = skipped
        self._space: list[str] = []
        self._marks = marks
        self._finder = mark_finder(*marks)
        self._is_flowing = False
