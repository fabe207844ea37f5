"""Measure what reading calls costs: microseconds of CPU a streamed piece, beside other programs.

usage: python ops/bench/parsing.py [--peer PYTHON] [--rounds 15] [--characters 1500] [--json FILE]

One answer per format, a sentence and two calls, comes in pieces of four characters. `ours` goes
through AnswerParser, whose arguments stream. mlx-lm's server collects the text of a call and reads
it once it has ended: here that, and nothing else of it, is measured. vllm-mlx is asked at every
piece, as its server does, by the Python of an environment that has it (`--peer`). Rounds of all
are interleaved; figures are medians; `right` is whether both calls came with their arguments.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from measure.table import Results, median, ratio

PIECE = 4
NAME = "edit_file"
SENTENCE = "I will change both files now, one after the other.\n"

Calls = list[tuple[str, dict[str, Any]]]


class Case(NamedTuple):
    """One format: its names here, at mlx-lm and at vllm-mlx, and how a call of it is written."""

    ours: str
    mlx_lm: str | None
    vllm_mlx: str
    write: Callable[[str, str], str]
    body: str
    before: str = ""
    after: str = ""


def _json(path: str, text: str) -> str:
    return json.dumps({"path": path, "text": text})


def _hermes(path: str, text: str) -> str:
    return f'<tool_call>\n{{"name": "{NAME}", "arguments": {_json(path, text)}}}\n</tool_call>\n'


def _coder(path: str, text: str) -> str:
    return (
        f"<tool_call>\n<function={NAME}>\n<parameter=path>\n{path}\n</parameter>\n"
        f"<parameter=text>\n{text}\n</parameter>\n</function>\n</tool_call>\n"
    )


def _glm(path: str, text: str) -> str:
    return (
        f"<tool_call>{NAME}\n<arg_key>path</arg_key>\n<arg_value>{path}</arg_value>\n"
        f"<arg_key>text</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>\n"
    )


def _mistral(path: str, text: str) -> str:
    return f"[TOOL_CALLS]{NAME}[ARGS]{_json(path, text)}"


def _minimax(path: str, text: str) -> str:
    return (
        f'<invoke name="{NAME}">\n<parameter name="path">{path}</parameter>\n'
        f'<parameter name="text">{text}</parameter>\n</invoke>\n'
    )


def _kimi(path: str, text: str) -> str:
    return (
        f"<|tool_call_begin|>functions.{NAME}:0<|tool_call_argument_begin|>"
        f"{_json(path, text)}<|tool_call_end|>"
    )


CASES = (
    Case("hermes", "json_tools", "hermes", _hermes, r"<tool_call>(.*?)</tool_call>"),
    Case("qwen3_coder", "qwen3_coder", "qwen3_coder", _coder, r"<tool_call>(.*?)</tool_call>"),
    Case("glm47", "glm47", "glm47", _glm, r"<tool_call>(.*?)</tool_call>"),
    Case("mistral", "mistral", "mistral", _mistral, r"\[TOOL_CALLS\]((?:(?!\[TOOL_CALLS\]).)*)"),
    Case(
        "minimax_m2",
        "minimax_m2",
        "minimax_m2",
        _minimax,
        r"<minimax:tool_call>(.*?)</minimax:tool_call>",
        "<minimax:tool_call>\n",
        "</minimax:tool_call>",
    ),
    Case(
        "kimi_k2",
        "kimi_k2",
        "kimi_k2",
        _kimi,
        r"<\|tool_calls_section_begin\|>(.*?)<\|tool_calls_section_end\|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
    ),
)

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
    "required": ["path", "text"],
}
TOOLS = [{"type": "function", "function": {"name": NAME, "parameters": PARAMETERS}}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="a Python that has vllm-mlx")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--characters", type=int, default=1500, help="of each call's text")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        serve_peer()
        return
    peer = Peer(options.peer) if options.peer else None
    results = Results("parsing", {"characters": options.characters}, options.json)
    for case in CASES:
        results.add(**measure(case, options.characters, options.rounds, peer))
    results.show()


def measure(case: Case, characters: int, rounds: int, peer: "Peer | None") -> dict[str, Any]:
    expected = expected_calls(characters)
    text = SENTENCE + case.before
    text += "".join(case.write(call["path"], call["text"]) for _, call in expected) + case.after
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    readers: dict[str, Callable[[], tuple[float, Calls]]] = {"ours": lambda: read(case, pieces)}
    if case.mlx_lm is not None:
        readers["mlx-lm"] = lambda: read_mlx_lm(case, pieces)
    if peer is not None:
        readers["vllm-mlx"] = lambda: peer.read(case.vllm_mlx, pieces)
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    is_right = dict.fromkeys(readers, True)
    for _ in range(rounds):
        for name, reader in readers.items():
            took, calls = reader()
            seconds[name].append(took / len(pieces))
            is_right[name] &= calls == expected
    row: dict[str, Any] = {"format": case.ours, "pieces": len(pieces)}
    for name, each in seconds.items():
        row[f"{name} us"] = round(median(each) * 1e6, 2)
        row[f"{name} right"] = "yes" if is_right[name] else "no"
    for name in list(seconds)[1:]:
        row[f"{name} / ours"] = ratio(median(seconds[name]), median(seconds["ours"]))
    return row


def expected_calls(characters: int) -> Calls:
    line = 'if (a < b && c > d) { say("it\'s \\"so\\"") }  # é 😀\n'
    text = (line * (characters // len(line) + 1))[:characters]
    return [(NAME, {"path": path, "text": text}) for path in ("src/one.c", "src/two.c")]


def read(case: Case, pieces: list[str]) -> tuple[float, Calls]:
    from appliance.chat.request import Tool
    from appliance.parsing.format import AnswerFormat
    from appliance.parsing.parsed import CallArguments, CallOpened
    from appliance.parsing.parser import AnswerParser
    from appliance.parsing.toolbox import Toolbox

    form = AnswerFormat("none", case.ours)
    toolbox = Toolbox([Tool(NAME, None, PARAMETERS)])
    begin = time.process_time()
    parser = AnswerParser(form, toolbox)
    found = [part for piece in pieces for part in parser.feed(piece)] + parser.end()
    seconds = time.process_time() - begin
    calls: list[tuple[str, str]] = []
    for part in found:
        if isinstance(part, CallOpened):
            calls.append((part.name, ""))
        elif isinstance(part, CallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + part.text)
    return seconds, [(name, json.loads(text)) for name, text in calls]


def read_mlx_lm(case: Case, pieces: list[str]) -> tuple[float, Calls]:
    module = importlib.import_module(f"mlx_lm.tool_parsers.{case.mlx_lm}")
    bodies = re.findall(case.body, "".join(pieces), re.DOTALL)
    begin = time.process_time()
    found: list[Any] = []
    try:
        for body in bodies:
            collected = ""
            for at in range(0, len(body), PIECE):
                collected += body[at : at + PIECE]
            parsed = module.parse_tool_call(collected, TOOLS)
            found += parsed if isinstance(parsed, list) else [parsed]
    except ValueError:
        found = []
    seconds = time.process_time() - begin
    return seconds, [(call["name"], _object(call["arguments"])) for call in found]


def _object(arguments: Any) -> dict[str, Any]:
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return value if isinstance(value, dict) else {}


class Peer:
    """Another environment's Python, which reads the same pieces on request."""

    def __init__(self, python: str) -> None:
        self._child = subprocess.Popen(
            [python, __file__, "--child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def read(self, name: str, pieces: list[str]) -> tuple[float, Calls]:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps([name, pieces]) + "\n")
        self._child.stdin.flush()
        seconds, calls = json.loads(self._child.stdout.readline())
        return seconds, [(each[0], each[1]) for each in calls]


def serve_peer() -> None:
    """Read each line's pieces as vllm-mlx's server does, and print what it took and found."""
    manager = importlib.import_module("vllm_mlx.tool_parsers").ToolParserManager
    for line in sys.stdin:
        name, pieces = json.loads(line)
        parser = manager.get_tool_parser(name)(None)
        request = {"tools": TOOLS}
        deltas, text = [], ""
        begin = time.process_time()
        for piece in pieces:
            longer = text + piece
            deltas.append(parser.extract_tool_calls_streaming(text, longer, piece, request=request))
            text = longer
        seconds = time.process_time() - begin
        print(json.dumps([seconds, _gathered(deltas)]), flush=True)


def _gathered(deltas: list[Any]) -> list[tuple[str, Any]]:
    """Put together what a client would: by index, names and arguments as they come."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for delta in deltas:
        for call in (delta or {}).get("tool_calls") or []:
            function, index = call.get("function") or {}, call["index"]
            names[index] = function.get("name") or names.get(index, "")
            arguments[index] = arguments.get(index, "") + (function.get("arguments") or "")
    try:
        return [(names[index], json.loads(arguments[index])) for index in sorted(names)]
    except ValueError:
        return []


if __name__ == "__main__":
    main()
