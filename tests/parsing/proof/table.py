"""Say how far each format is supported, by trying: a table for people.

`python -m tests.parsing.proof.table` writes `ops/docs/formats.md` anew.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat, ThoughtFormat
from appliance.parsing.grammar.answer import answer_grammar
from appliance.parsing.parsed import CallArguments, CallOpened
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.grammar.trial import judge, random_text
from tests.parsing.proof.call_set import NAMES, CallSet, draw_call_sets
from tests.parsing.proof.family import DETECTED, REFERENCES, Family, family
from tests.parsing.proof.reading import Heard, hear, meant

DOCUMENT = Path(__file__).parents[3] / "ops" / "docs" / "formats.md"
_COUNT = 30
_QUERY = {"type": "object", "properties": {"q": {"type": "string", "enum": ["this"]}},
          "required": ["q"]}  # fmt: skip
_TOOLS = tuple(Tool(name, "d", _QUERY, strict=True) for name in ("look", "gone", "walk"))
_CALLS_OF_ALL = CallSet(_TOOLS, tuple((tool.name, {"q": "this"}) for tool in _TOOLS))
_CALL = replace(_CALLS_OF_ALL, tools=_TOOLS[:1], calls=_CALLS_OF_ALL.calls[:1])
_HEADERS = {"harmony": "<|start|>assistant", "muse": "<|start|>assistant"}
"""What the prompt begins before all that is said, thoughts too."""
_YES, _NO, _NONE = "yes", "NO", "-"

_INTRODUCTION = """# Formats

How models write calls and thoughts, by the names of `tool_parser` and `reasoning_parser`.
`auto` tries what the model's chat template writes itself, so that none has to be named.
Every cell was tried by the tests (`python -m tests.parsing.proof.table` writes this file).
"""

_CALLS = """
## Calls

- templates: of how many real chat templates it was found out; - if none at hand writes it.
- complete, streamed: answers are read back as they were meant, at once, and letter by letter
  with arguments given away before their end.
- parallel: several calls in an answer; - where the template allows one.
- none: a call without arguments.
- thought: a call in a thought stays a thought, or is a call in formats that put calls there.
- malformed: a call of an unknown function is text, and the calls before and behind it are calls,
  but a list that begins with one is all text; a call that is cut off is never a sound one.
- strict: where a call is demanded of a strict function the grammar allows what is then read as one,
  and not the same with an argument that is not valid.
"""

_THOUGHTS = """
## Thoughts

- templates: of how many real chat templates the format was found out.
- complete, streamed: thought and answer are told apart, at once and letter by letter.
- begun: the prompt has begun the thought.
- open: a thought that is never closed is all thought.
- literal: marks within the answer are text; - where every message has a header.
"""


def print_document() -> str:
    """Return the text of the document."""
    calls = _table(("templates", *CALL_TRIALS), map(call_row, _names(CALLS)))
    thoughts = _table(("templates", *THOUGHT_TRIALS), map(thought_row, _names(THOUGHTS)))
    return f"{_INTRODUCTION}{_CALLS}\n{calls}{_THOUGHTS}\n{thoughts}"


def _names(table: Iterable[str]) -> list[str]:
    return [name for name in table if name != "none"]


def call_row(name: str) -> list[str]:
    """Return a row of the calls' table."""
    each = _families().get(name)
    if each is None or each.form.tools != name:
        return [name, _num_templates(2, name), *[_NO] * len(CALL_TRIALS)]
    return [name, _num_templates(2, name), *(trial(each) for trial in CALL_TRIALS.values())]


def thought_row(name: str) -> list[str]:
    """Return a row of the thoughts' table."""
    thought = THOUGHTS[name]
    assert thought is not None
    tried = [trial(name, thought) for trial in THOUGHT_TRIALS.values()]
    return [name, _num_templates(1, name), *tried]


def _families() -> dict[str, Family]:
    """Return a family for each name: of a real template, of a reference, or of its own kind."""
    found = {tools: name for name, _, tools, how in _detected() if how == "sample"}
    found |= {tools: name for name, (tools, _, _) in REFERENCES.items() if tools not in found}
    return {tools: family(name) for tools, name in found.items()}


def _detected() -> Iterator[list[str]]:
    return (line.split() for line in reversed(DETECTED.read_text().splitlines()))


def _num_templates(column: int, name: str) -> str:
    return str(sum(line[column] == name for line in _detected()) or _NONE)


def _read(each: Family, it: CallSet, pieces: Iterable[str], text: str) -> Heard:
    begun = each.begun(it, text)
    return hear(AnswerParser(each.form, Toolbox(it.tools), begun=begun), pieces)


def _call_sets(each: Family) -> list[CallSet]:
    return list(draw_call_sets(each.name, _COUNT, each.reach))


def _is_read(each: Family, sets: Iterable[CallSet]) -> str:
    for it in sets:
        text = each.write(it)
        if _read(each, it, [text], text).meaning() != meant(it):
            return _NO
    return _YES


def _complete(each: Family) -> str:
    return _is_read(each, _call_sets(each))


def _streamed(each: Family) -> str:
    for it in _call_sets(each):
        text = each.write(it)
        if _read(each, it, text, text).meaning() != meant(it):
            return _NO
        parser = AnswerParser(each.form, Toolbox(it.tools), begun=each.begun(it, text))
        early = [piece for letter in text[:-1] for piece in parser.feed(letter)]
        if it.calls[0][1] and not any(isinstance(piece, CallArguments) for piece in early):
            return _NO
    return _YES


def _parallel(each: Family) -> str:
    if each.reach.most_calls == 1:
        return _NONE
    return _is_read(each, (it for it in _call_sets(each) if len(it.calls) > 1))


def _zero(each: Family) -> str:
    sets = (replace(it, calls=((it.calls[0][0], {}),)) for it in _call_sets(each))
    return _is_read(each, sets)


def _in_thought(each: Family) -> str:
    """Try a call in a thought: of the format's own if it has one, else of the commonest."""
    form = each.form if each.form.thought else AnswerFormat("qwen3", each.form.tools)
    thought = form.thought
    assert thought is not None
    call = each.write(_CALL).rpartition(thought.closing)[2]
    begun = each.begun(_CALL, call)
    header = begun if begun != thought.opening else ""
    pieces = read_pieces([f"{thought.opening}So: {header}{call}"], form, Toolbox(_CALL.tools))
    is_called = any(isinstance(piece, CallOpened) for piece in pieces)
    return _verdict(is_called == form.has_calls_in_thoughts)


def _malformed(each: Family) -> str:
    for it in _call_sets(each):
        text = each.write(replace(it, thought="", after=""))
        called = {name for name, _ in it.calls}
        # The function "a" is called in some strings, which counts where what is round it is text.
        names = {*NAMES, *(f"{name}2" for name in called)} - called - {"a"}
        others = Toolbox(map(Tool, names))
        for toolbox in (Toolbox(), others):
            unknown = read_pieces([text], each.form, toolbox, begun=each.begun(it, text))
            if any(isinstance(piece, CallOpened) for piece in unknown):
                return _NO
        cut = text[: len(text) // 2]
        heard = _read(each, it, [cut], text)
        wanted = meant(it)["calls"]
        if heard.is_sound and heard.meaning()["calls"] != wanted[: len(heard.calls)]:
            return _NO
    is_spared = each.reach.most_calls == 1 or (_spares(each, "gone") and _spares(each, "walk"))
    return _verdict(is_spared)


def _spares(each: Family, unknown: str) -> bool:
    """Say whether of three calls the one of an unknown function is text, and the others calls."""
    it = _CALLS_OF_ALL
    text = each.write(it)
    known = replace(
        it,
        tools=tuple(tool for tool in it.tools if tool.name != unknown),
        calls=tuple(call for call in it.calls if call[0] != unknown),
    )
    heard = _read(each, known, [text], text)
    is_text = unknown in "".join(heard.texts)
    return is_text and heard.is_sound and heard.meaning()["calls"] == meant(known)["calls"]


def _strict(each: Family) -> str:
    choice = ToolChoice("required")
    request = ChatRequest("m", tools=_CALL.tools, tool_choice=choice, allows_parallel_calls=False)
    grammar = answer_grammar(request, each.form)
    assert grammar is not None
    text = next(filter(None, (random_text(grammar, seed, most_bytes=500) for seed in range(9))))
    is_read = _read(each, _CALL, [text], text).meaning()["calls"] == meant(_CALL)["calls"]
    return _verdict(is_read and judge(grammar, text.replace("this", "that")) == "refused")


CALL_TRIALS: dict[str, Callable[[Family], str]] = {
    "complete": _complete,
    "streamed": _streamed,
    "parallel": _parallel,
    "none": _zero,
    "thought": _in_thought,
    "malformed": _malformed,
    "strict": _strict,
}


def _parts(name: str, text: str, *, begun: str = "", letters: bool = False) -> list[Part]:
    form = AnswerFormat(name)
    begun = begun or _HEADERS.get(name, "")
    return fold(read_pieces(text if letters else [text], form, Toolbox(), begun=begun))


def _answer(thought: ThoughtFormat, *, begun: bool = False) -> str:
    opening = "" if begun else thought.opening
    between = thought.answer_opening[0] if thought.answer_opening else ""
    return f"{opening}hm [1] <2>{thought.closing}{between}Yes."


def _is_told(name: str, text: str, *, begun: str = "", letters: bool = False) -> str:
    parts = _parts(name, text, begun=begun, letters=letters)
    return _verdict(parts == [("thought", "hm [1] <2>"), ("text", "Yes.")])


def _open(name: str, thought: ThoughtFormat) -> str:
    return _verdict(_parts(name, f"{thought.opening}hm") == [("thought", "hm")])


def _literal(name: str, thought: ThoughtFormat) -> str:
    if name in _HEADERS:
        return _NONE
    words = f" A {thought.opening.strip()} here."
    return _verdict(_parts(name, _answer(thought) + words)[-1] == ("text", f"Yes.{words}"))


def _verdict(is_good: bool) -> str:
    return _YES if is_good else _NO


THOUGHT_TRIALS: dict[str, Callable[[str, ThoughtFormat], str]] = {
    "complete": lambda name, it: _is_told(name, _answer(it)),
    "streamed": lambda name, it: _is_told(name, _answer(it), letters=True),
    "begun": lambda name, it: _is_told(name, _answer(it, begun=True), begun=it.opening),
    "open": _open,
    "literal": _literal,
}


def _table(columns: Iterable[str], rows: Iterable[list[str]]) -> str:
    lines = [["", *columns]]
    lines += [["---"] * len(lines[0]), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    DOCUMENT.write_text(print_document())
