"""Tell thoughts, calls and text of an answer apart, however its text is split into pieces."""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

from appliance.parsing.format import AnswerFormat
from appliance.parsing.lexis import SOFT, find_lexis
from appliance.parsing.parsed import CallArguments, Parsed, Place, Text, Thought
from appliance.parsing.syntax import CallReader, CallSyntax, Stage
from appliance.parsing.toolbox import Toolbox

_NO_TOOLS = Toolbox()


@lru_cache(maxsize=16)
def _unclosed(opening: str, closing: str) -> re.Pattern[str]:
    """Return what finds a thought that is open where a text ends, behind its first line."""
    opening, closing = re.escape(opening), re.escape(closing)
    return re.compile(rf"(?:\n|{closing})\s*+{opening}(?![\s\S]*{closing})")


class AnswerParser:
    """Read one answer. One instance per request; pure, in time linear in the text.

    Line ends next to a thought's marks, on its side and behind it, belong to the marks, as does
    white space round a call's. A thought begins where nothing but white space precedes it in its
    line; calls are those of declared functions, and not looked for in thoughts, unless the format
    has them there, nor after a broken call.
    All else comes out as it went in: text that may belong to a mark is held until it is known.
    Where the answer has a structure all this is so only up to its text, which comes out whole.
    """

    def __init__(self, form: AnswerFormat, toolbox: Toolbox, *, begun: str = "") -> None:
        """`begun` is the mark with which the prompt ended; see `AnswerFormat.begun`."""
        self._form = form
        # A dropped mark in the white space before a structure would be its text if one follows.
        self._is_shown: Callable[[str], bool] = bool if form.has_structure else str.isspace
        self._toolbox = toolbox
        self._lexis = find_lexis(form, toolbox)
        self._pieces: list[Parsed] = []
        self._total = 0
        self._held = ""
        self._is_last = False
        self._call: CallReader | None = None
        self._opening = ""
        self._untried: tuple[CallSyntax, ...] = ()
        self._literal = self._skipped = self._wrapper_end = ""
        self._begin(Text)
        if begun and form.thought is not None and begun == form.thought.opening:
            self._begin(Thought)
        elif syntaxes := self._lexis.syntaxes(begun, is_start=True):
            self._open_call("", syntaxes, begun)

    def feed(self, text: str) -> list[Parsed]:
        """Take more text and return what is certain now."""
        at = self._total
        if self._passes(text):
            return [self._kind(text, at)]
        if self._call is not None and text and not self._held and self._call.passes(text):
            self._total += len(text)
            return [CallArguments(text)]
        return self._read(text)

    def passes_text(self, text: str) -> bool:
        """Take `text` if all of it is at once more of the answer's text; else it is to be fed."""
        return self._kind is Text and self._passes(text)

    def end(self) -> list[Parsed]:
        """Return what was held, once the text has ended."""
        self._is_last = True
        return self._read("")

    @property
    def place(self) -> Place:
        """Where what comes next stands to the answer's thoughts."""
        if self._call is not None and self._call.stage is not Stage.HEAD:
            return Place.APART
        if self._kind is Thought:
            has_some = self._is_flowing or self._held or self._space or self._call is not None
            return Place.WITHIN if has_some else Place.OPENED
        opening, closing = self._lexis.thought_opening, self._lexis.thought_closing
        if opening is None or closing is None:
            is_near = self._call is not None or self._held != ""
        elif self._call is not None and _unclosed(opening, closing).search(self._held):
            return Place.WITHIN
        else:
            is_near = self._call is not None or self._may_open_thought() or "\n" in self._held
        return Place.NEAR if is_near else Place.APART

    def _passes(self, text: str) -> bool:
        """Take text in which nothing can be a mark, after text with nothing held: most of all."""
        is_plain = (
            self._is_flowing
            and self._call is None
            and not self._held
            and not self._space
            and self._lexis.plain[self._kind].match(text) is not None
        )
        if is_plain:
            self._total += len(text)
        return is_plain

    def _read(self, text: str) -> list[Parsed]:
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
        base = self._total - len(text)
        is_start = not self._is_flowing
        found = self._lexis.find(self._kind, text, at, is_start=is_start, is_last=self._is_last)
        start = found.start if found else len(text)
        self._flow(text[at:start], base + at)
        if found is None:
            return start
        if found.is_whole:
            self._take_mark(found.mark, base + start)
        else:
            self._held = found.mark
        return start + len(found.mark)

    def _flow(self, text: str, at: int) -> None:
        """Give away what has no meaning but its own, save for white space at its end."""
        kept = text.lstrip(self._skipped)
        solid = kept.rstrip(SOFT[self._kind])
        if solid:
            self._emit(solid, at + len(text) - len(kept))
        if len(solid) < len(kept):
            self._skipped = ""
            self._space.append(kept[len(solid) :])

    def _emit(self, solid: str, at: int) -> None:
        """Give away the white space that was held, each where it stands, and what follows it."""
        # They take turns: white space, marks that were dropped behind it, white space, and so on.
        runs = ["".join(run) for _, run in groupby(self._space, self._is_shown)]
        at -= sum(map(len, runs))
        solid = runs.pop() + solid if len(runs) % 2 else solid
        for number, text in enumerate((*runs, solid)):
            if text and number % 2 == 0:
                self._pieces.append(self._kind(text, at))
            at += len(text)
        self._space.clear()
        self._skipped = ""
        self._is_behind_call = False
        self._is_flowing = True

    def _take_mark(self, mark: str, at: int) -> None:
        """Take a mark for what it is here; what means nothing here stands for itself."""
        lexis, is_start = self._lexis, not self._is_flowing
        if self._kind is Thought and mark == lexis.thought_closing:
            self._begin(Text, SOFT[Thought])
        elif mark == lexis.thought_opening and self._may_open_thought():
            if self._is_flowing and self._space:
                self._emit("", at)
            self._begin(Thought)
        elif syntaxes := lexis.syntaxes(mark, is_start=is_start):
            self._open_call(mark, syntaxes, mark)
        elif not self._is_meaningless(mark):
            self._emit(mark, at)
        elif self._space or (self._form.has_structure and not self._is_behind_call):
            self._skipped = ""
            self._space.append(mark)

    def _is_meaningless(self, mark: str) -> bool:
        """Say whether a mark is dropped: one round the answer, or one more behind a call."""
        wrapper = self._lexis.wrapper
        if wrapper is not None and mark == wrapper[0] and not self._is_flowing:
            self._wrapper_end = wrapper[1]
            return True
        if mark in self._lexis.frames or mark == self._wrapper_end:
            return True
        return self._is_behind_call and mark in self._lexis.closings

    def _may_open_thought(self) -> bool:
        """Say so at the start of a line; a second opening counts only right behind the first."""
        if self._kind is Thought:
            return not self._is_flowing
        return not self._is_flowing or any("\n" in space for space in self._space)

    def _open_call(self, literal: str, syntaxes: tuple[CallSyntax, ...], mark: str) -> None:
        """Read what follows `mark` as a call; it is the text `literal` if it is none."""
        self._literal, self._opening = literal, mark
        self._untried = syntaxes[1:]
        self._call = syntaxes[0].reader(mark, self._toolbox, self._pieces)

    def _read_call(self, text: str, at: int) -> int:
        call = self._call
        assert call is not None
        is_aside = call.stage is Stage.ASIDE
        start, at = at, call.read(text, at, is_last=self._is_last)
        if is_aside and at > start:
            self._pieces.append(Text(text[start:at], self._total - len(text) + start))
        if call.stage is Stage.TEXT and self._untried:
            self._open_call(self._literal, self._untried, self._opening)
        elif call.stage is Stage.TEXT:
            self._call = None
            self._emit(self._literal, self._total - len(text) + start - len(self._literal))
        elif call.stage is Stage.OVER:
            self._close_call(call)
        elif (call.stage is Stage.ASIDE) == is_aside:
            self._held = text[at:]
            at = len(text)
        return at

    def _close_call(self, call: CallReader) -> None:
        self._call = None
        if call.is_broken:
            self._toolbox = _NO_TOOLS
            self._lexis = find_lexis(self._form, self._toolbox)
        if call.opens is None:
            self._begin(Text, SOFT[Text])
            self._is_behind_call = True
        else:
            self._begin(call.opens)

    def _begin(self, kind: type[Text] | type[Thought], skipped: str = "") -> None:
        """Begin a stretch: `skipped` is dropped at its start, the soft held at its end."""
        self._kind = kind
        self._skipped = SOFT[Thought] if kind is Thought else skipped
        self._space: list[str] = []
        """White space that is held, with the marks that were dropped behind it."""
        self._is_flowing = False
        self._is_behind_call = False
