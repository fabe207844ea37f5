"""Make texts of the parts that a format's answers have, and account for every character of them."""

import random
import re
from collections.abc import Iterable, Iterator
from functools import cache

from appliance.chat.request import Tool
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat
from appliance.parsing.parsed import CallClosed, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox

TOOLBOX = Toolbox(
    [
        Tool("look", parameters={"type": "object", "properties": {"q": {"type": "string"}}}),
        Tool("now"),
        Tool("set", parameters={"type": "object", "properties": {"n": {"type": "integer"}}}),
    ]
)

_FRAMING = ("harmony", "functionary", "muse")
"""Formats that put a header before all that is said; it is dropped, even a malformed one."""

_PARTS = (
    *("look", "now", "set", "functions.look:0", "name", "\n", "\n\n", " ", "", "q", "n", "all\n"),
    *('{"name": "look", "arguments": {"q": "x"}}', '{"name": "now"}', '"name"', '{"q": "a\\n<b"}'),
    *('{"q": "x', "}", "{", "[", "]", '"', "'", ":", ",", "(", ")", "\\", "<", ">", "=", "|"),
    *('look(q="x")', "now()", "[set(n=3)]", "```json", "```", "Action:", "json", "3", "null"),
    *("<function=look>", "<parameter=q>", "</parameter>", "</function>", "<arg_key>q</arg_key>"),
    *("<arg_value>x</arg_value>", '<invoke name="look">', '<parameter name="q">', "</invoke>"),
    *('name="look">', "{q:", "call:look{q:", "to=functions.look", "to=look", "json", "assistant"),
    *("I will look.", "Zürich ☃ 😀", "a < b [1] {x}", "<think>", "</think>"),
)  # fmt: skip


def formats() -> list[AnswerFormat]:
    """Return a format for each way of writing calls, and one for each of writing thoughts.

    Names that mean the same marks are one way of writing thoughts.
    """
    named = [AnswerFormat(name if name in THOUGHTS else "none", name) for name in CALLS]
    ways = {thought: name for name, thought in THOUGHTS.items() if name not in CALLS}
    return named + [AnswerFormat(name, "hermes") for name in ways.values()]


def draw_texts(form: AnswerFormat, count: int) -> Iterator[tuple[str, list[str]]]:
    """Yield so many texts, and each of them in pieces; the same for the same format."""
    parts = (*_PARTS, *_marks(form))
    for number in range(count):
        dice = random.Random(f"{form.reasoning} {form.tools} {number}")
        text = "".join(_part(dice, parts, _marks(form)) for _ in range(dice.randrange(1, 12)))
        cuts = sorted(dice.randrange(len(text) + 1) for _ in range(3))
        edges = zip([0, *cuts], [*cuts, len(text)], strict=True)
        yield text, [text[start:end] for start, end in edges]


def read_letters(form: AnswerFormat, text: str) -> list[tuple[Parsed, int]]:
    """Return what comes of a text read by characters, each with how many were read by then."""
    parser = AnswerParser(form, TOOLBOX)
    read = [(piece, end) for end, it in enumerate(text, start=1) for piece in parser.feed(it)]
    return read + [(piece, len(text)) for piece in parser.end()]


def lost_text(form: AnswerFormat, text: str, read: Iterable[tuple[Parsed, int]]) -> str:
    """Return what of a text came neither as text or thought nor belonged to a call or a mark.

    What came has to stand in the raw text where it says, but for white space at its start, which
    may stand before a mark that was dropped. Between two parts of it may be calls: from an opening
    on, with their names, and to where the last was closed, or to the mark that ends the junk
    behind its arguments; or else only marks, with the white space next to them.
    """
    at, closed, names = 0, 0, list[str]()
    for piece, end in read:
        if isinstance(piece, CallOpened):
            names.append(piece.name)
        closed = end if isinstance(piece, CallClosed) else closed
        if not isinstance(piece, Text | Thought):
            continue
        solid = piece.text.lstrip()
        space = piece.text.removesuffix(solid)
        start = piece.at + len(space)
        assert text[start : start + len(solid)] == solid, (text, piece)
        assert start >= at, (text, piece)
        gap = text[at:start]
        if gap != space and not _is_accounted(form, gap, names, closed - at):
            return gap
        at, names = start + len(solid), []
    gap = text[at:]
    is_accounted = not (gap or names) or _is_accounted(form, gap, names, closed - at)
    return "" if is_accounted else gap or str(names)


def _is_accounted(form: AnswerFormat, gap: str, names: list[str], closed: int) -> bool:
    """Say whether a gap is calls of these names, the last closed at `closed`, or else marks."""
    marks = _gap_pattern(form)
    if not names:
        return marks.fullmatch(gap) is not None
    written = ".*".join(map(re.escape, names))
    opened = marks.match(gap)
    starts = {0, opened.end() if opened else 0}
    is_opened = any(_opening_pattern(form).match(gap, start) for start in starts)
    rest = gap[closed:].lstrip("}]) \t\r\n")
    is_closed = not rest or _ends(form, rest) or marks.fullmatch(rest) is not None
    return is_opened and is_closed and re.search(written, gap, re.DOTALL) is not None


def _ends(form: AnswerFormat, rest: str) -> bool:
    """Say whether junk behind a call's arguments ends with a mark, or has none."""
    marks = [mark.strip() for mark in (*_marks(form), "```") if mark.strip()]
    found = tuple(mark for mark in marks if mark in rest)
    return not found or rest.rstrip().endswith(found)


@cache
def _opening_pattern(form: AnswerFormat) -> re.Pattern[str]:
    syntaxes = form.syntaxes(has_tools=True)
    marks = {mark for it in syntaxes for mark in (*it.openings(TOOLBOX), *it.starts(TOOLBOX))}
    return re.compile(rf"\s*(?:{'|'.join(map(re.escape, marks))})")


@cache
def _gap_pattern(form: AnswerFormat) -> re.Pattern[str]:
    thought = form.thought
    marks = {mark for syntax in form.syntaxes(has_tools=True) for mark in syntax.closings}
    if thought is not None:
        marks |= {thought.opening, thought.closing, *thought.frames, *(thought.wrapper or ())}
        marks |= {*thought.answer_opening}
    if form.tools in _FRAMING:
        marks |= set(_marks(form))
    parts = [re.escape(mark) for mark in sorted(marks, key=len, reverse=True)]
    if form.tools == "functionary":
        parts.insert(0, r">>>all\n")
    if form.tools in ("harmony", "muse"):
        parts.insert(0, r"(?:<\|start\|>assistant|<\|channel\|>)[^\n]{0,160}?<\|message\|>")
    return re.compile(rf"\s*(?:(?:{'|'.join(parts)})\s*)+") if parts else re.compile("(?!)")


@cache
def _marks(form: AnswerFormat) -> tuple[str, ...]:
    return form.marks()


def _part(dice: random.Random, parts: tuple[str, ...], marks: tuple[str, ...]) -> str:
    part = dice.choice(marks) if marks and dice.random() < 0.4 else dice.choice(parts)
    if dice.random() < 0.15:
        cut = dice.randrange(len(part) + 1)
        return part[:cut] if dice.random() < 0.5 else part[cut:]
    return part
