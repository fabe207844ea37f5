"""Write calls as documents say that those families do whose templates do not show it."""

import json
from collections.abc import Callable, Iterable

from tests.parsing.proof.call_set import CallSet, Value


def said(write_calls: Callable[[CallSet], str]) -> Callable[[CallSet], str]:
    """Return a writer that puts a line of text before and behind the calls, where there is any."""

    def write(each: CallSet) -> str:
        return "\n".join(filter(None, (each.before, write_calls(each), each.after)))

    return write


def listed(before: str, after: str, arguments: str = "arguments") -> Callable[[CallSet], str]:
    """Return a writer of one JSON list of calls."""
    return said(lambda each: f"{before}{json_list(each, arguments)}{after}")


def repeated(
    before: str, after: str, between: str, arguments: str = "arguments"
) -> Callable[[CallSet], str]:
    """Return a writer of JSON objects, each between marks."""
    return said(
        lambda each: between.join(f"{before}{it}{after}" for it in _objects(each, arguments))
    )


def python_list(before: str, after: str) -> Callable[[CallSet], str]:
    """Return a writer of one Python list of calls."""
    return said(lambda each: f"{before}[{', '.join(_python(each))}]{after}")


def gemma3(each: CallSet) -> str:
    """Write calls as Gemma 3 was taught: Python in a fence."""
    return "```tool_code\n" + "\n".join(_python(each)) + "\n```"


def function_gemma(each: CallSet) -> str:
    """Write calls as FunctionGemma was taught: texts between marks, and keys bare."""
    return "".join(
        f"<start_function_call>call:{name}{_escaped(arguments)}<end_function_call>"
        for name, arguments in each.calls
    )


def _escaped(value: Value) -> str:
    if isinstance(value, str):
        return f"<escape>{value}<escape>"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_escaped(it)}" for key, it in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_escaped, value)) + "]"
    return json.dumps(value)


def json_list(each: CallSet, arguments: str) -> str:
    """Return one JSON list of calls."""
    return f"[{', '.join(_objects(each, arguments))}]"


def _objects(each: CallSet, key: str) -> Iterable[str]:
    for name, arguments in each.calls:
        yield json.dumps({"name": name, key: arguments}, ensure_ascii=False)


def _python(each: CallSet) -> Iterable[str]:
    for name, arguments in each.calls:
        pairs = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        yield f"{name}({pairs})"
