"""Make texts of models, with what a client must make of each, and cut them into pieces."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.dialect.answer import TOOLS, Call

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

# Pieces of text of which no two in a row make a marker that counts.
_FRAGMENTS = [
    *("word", "é", "👋", "\u2028", "data: x", " ", "\n", "\r\n", "\n\n", "`", "{", '"}', "\\"),
    *("<", ">", "</", "<tool", "<tool_call", "</tool_call", "_call>", "<thin", "</think", "nk>"),
    *('{"name": "f"', '"arguments": {}}', "[TOOL_CALLS]", "<|im_end", "event: stop"),
]


@dataclass(frozen=True)
class Case:
    """What a model says, and what that means; `text` None: it is only told alike everywhere."""

    raw: str
    text: str | None
    thought: str = ""
    calls: tuple[Call, ...] = ()
    cuts: tuple[int, ...] = (3, 9, 14, 31, 60, 99)

    @property
    def finish(self) -> str:
        return "tool_calls" if self.calls else "stop"

    def splits(self) -> list[list[str]]:
        """Return the raw text whole, by characters, and cut in some places."""
        places = [0, *sorted({cut % (len(self.raw) + 1) for cut in self.cuts}), len(self.raw)]
        cut = [self.raw[begin:end] for begin, end in pairwise(places)]
        return [[self.raw], list(self.raw), cut]


def call_text(name: str, arguments: object, indent: int | None = None) -> str:
    """Return a call as a model of Hermes' kind writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, indent=indent, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _call(*arguments: object) -> tuple[Call, ...]:
    return tuple(Call("f", each) for each in arguments)


_F = call_text("f", {"text": "a"})
_LONG = {"text": "long " * 60}
_HARD = {"text": '} "\\ \u2028 👋 {', "deep": [{"a": [1.5, None, True]}], "": {}}

EXAMPLES = {
    "plain": Case("Hello.", "Hello."),
    "white space": Case("  hi \n", "  hi \n"),
    "unicode": Case(
        "naïve 社会 👋🏽 \u2028 \r\n é\n\ndata: x", "naïve 社会 👋🏽 \u2028 \r\n é\n\ndata: x"
    ),
    "thought": Case("<think>\nplan\n</think>\n\nAnswer", "Answer", "plan"),
    "endless thought": Case("<think>and on and on", "", "and on and on"),
    "only a thought": Case("<think>\nplan\n</think>\n\n", "", "plan"),
    "literal thought": Case(
        "<think>t</think>Write `<think>` first and `</think>` last.",
        "Write `<think>` first and `</think>` last.",
        "t",
    ),
    "call": Case(_F, "", calls=_call({"text": "a"})),
    "call without arguments": Case(call_text("f", {}), "", calls=_call({})),
    "text and call": Case(f"I look.\n\n{_F}\n", "I look.", calls=_call({"text": "a"})),
    "two calls": Case(f"{_F}\n{call_text('f', {})}", "", calls=_call({"text": "a"}, {})),
    "thought, text, call": Case(
        f"<think>\nhm\n</think>\n\nI look.\n{_F}", "I look.", "hm", _call({"text": "a"})
    ),
    "call in a thought": Case(f"<think>maybe {_F}</think>No.", "No.", f"maybe {_F}"),
    "long call": Case(call_text("f", _LONG), "", calls=_call(_LONG)),
    "hard call": Case(call_text("f", _HARD, indent=2), "", calls=_call(_HARD)),
    "marker in an argument": Case(
        call_text("f", {"text": "</tool_call><think>"}),
        "",
        calls=_call({"text": "</tool_call><think>"}),
    ),
    "marker in prose": Case(
        "A `<tool_call>` opens it, `</tool_call>` ends it.",
        "A `<tool_call>` opens it, `</tool_call>` ends it.",
    ),
    "unknown function": Case(call_text("nobody", {}), call_text("nobody", {})),
    "call without its marks": Case('{"name": "f", "arguments": {}}', "", calls=_call({})),
    "bare JSON": Case('So: {"name": "f", "arguments": {}}', 'So: {"name": "f", "arguments": {}}'),
    "half a marker": Case("The end is <tool_ca", "The end is <tool_ca"),
    "lonely marker": Case("The end is <tool_call>", "The end is <tool_call>"),
    "lonely closer": Case("a </tool_call> b", "a </tool_call> b"),
    "broken call": Case('<tool_call>\n{"name": "f", "arguments": {"text": "a', None),
    "broken, then more": Case(
        f'<tool_call>\n{{"name": "f", "arguments": {{"text": oh}}}}\n</tool_call>\nHm.\n{_F}', None
    ),
    "closer first": Case("so\n</think>\n\nAnswer", None),
}
"""Texts by what is special about them."""


def drawn_cases(num_cases: int) -> list[Case]:
    """Return cases out of all mixtures of thoughts, texts and calls; the same ones every time."""
    cases: dict[str, Case] = {}

    # On a busy machine drawing is slow, which is no fault of the cases.
    @settings(
        max_examples=num_cases,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(_case())
    def collect(case: Case) -> None:
        cases[case.raw] = case

    collect()
    return list(cases.values())


def _text() -> st.SearchStrategy[str]:
    """Return texts without a marker and without white space at either end."""
    joined = st.lists(st.sampled_from(_FRAGMENTS), min_size=1, max_size=8).map("".join)
    return joined.map(str.strip).filter(lambda text: text and not any(m in text for m in MARKERS))


def _json() -> st.SearchStrategy[Any]:
    leaf = st.none() | st.booleans() | st.integers(-9, 9) | _text()
    return st.recursive(leaf, lambda inner: st.lists(inner, max_size=2), max_leaves=3)


@st.composite
def _case(draw: st.DrawFn) -> Case:
    """Return a mixture; white space by its calls, and line ends by its thought, are nobody's."""
    raw = text = thought = ""
    calls: list[Call] = []
    if draw(st.booleans()):
        thought = draw(_text())
        ends = st.sampled_from(["", "\n", "\n\n"])
        raw = f"<think>{draw(ends)}{thought}{draw(ends)}</think>{draw(ends)}"
    for kind in draw(st.sampled_from(["t", "c", "tc", "ct", "tct", "cc", "tcc", "tctc"])):
        if kind == "t":
            piece = draw(_text())
            raw, text = raw + piece, text + piece
            continue
        arguments = draw(st.dictionaries(st.sampled_from(["a", "text", "é"]), _json(), max_size=2))
        calls.append(Call(draw(st.sampled_from(TOOLS)), arguments))
        space = st.sampled_from(["", " ", "\n", "\n\n"])
        indent = draw(st.sampled_from([None, 2]))
        raw += draw(space) + call_text(*calls[-1], indent=indent) + draw(space)
    cuts = draw(st.lists(st.integers(0, 400), max_size=6))
    return Case(raw, text, thought, tuple(calls), tuple(cuts))
