"""Turn the form that a caller wants an answer to have into grammar rules. Pure."""

import json
import re

import llguidance

from appliance.chat.request import Structure
from appliance.errors import InvalidRequest
from appliance.parsing.grammar.check import find_complaint
from appliance.parsing.grammar.rules import Rules, styled_schema
from appliance.parsing.grammar.schema import enforceable

_MOST_CHARACTERS = {"choice": 64_000, "regex": 8_000, "grammar": 32_000}
"""Longer ones take seconds: the time grows with the square of the parts in a row."""
_MOST_LEVELS = 600
"""Rules, groups and repetitions. Each within another takes up to 4 kB of the thread's stack, mostly
of 8 MB, and llguidance ends the process where there is no more."""
_MOST_OVERLAPS = 8
_MOST_SHOWN = 200
_LARK_PART = re.compile(
    r"""
    "(?:\\.|[^"\\\n])*" | /(?![/*])(?:\\.|[^/\\\n])+/[imslux]* | (?:\#|//)[^\n]*
    | (?P<json>%json\b) | (?P<token><[^<>\s]+>) | (?P<other>@[\w-]+)
    | (?P<option>\b(?:max_tokens|temperature|stop|stop_capture)\s*=)
    | (?P<level>[:(\[?*+]) | (?P<overlap>&)
    """,
    re.VERBOSE,
)


def structure_rule(rules: Rules, structure: Structure) -> str:
    """Add rules for a text that has the form; return what may stand for it in a rule's body.

    Raises InvalidRequest, which names `structure.param`, for a form that cannot be had.
    """
    if structure.kind == "schema":
        schema = enforceable(structure.value, param=structure.param, is_strict=structure.is_strict)
        return rules.json(schema)
    if structure.kind == "object":
        return rules.json({"type": "object"})
    if structure.kind == "choice":
        return _choice_rule(rules, structure)
    if not isinstance(structure.value, str) or not structure.value.strip():
        raise _refusal(structure, "it must be a text that is not empty")
    _check_size(structure, structure.value)
    if structure.kind == "regex":
        return _regex_rule(rules, structure)
    return _grammar_rule(rules, structure)


def _check_size(structure: Structure, *texts: str) -> None:
    most = _MOST_CHARACTERS[structure.kind]
    if sum(map(len, texts)) > most:
        raise _refusal(structure, f"it has more than {most} characters")


def _choice_rule(rules: Rules, structure: Structure) -> str:
    choices = structure.value
    if not isinstance(choices, list | tuple) or not choices:
        raise _refusal(structure, "it must be a list of at least one text")
    if not all(isinstance(choice, str) and choice for choice in choices):
        raise _refusal(structure, "each choice must be a text that is not empty")
    _check_size(structure, *choices)
    return rules.rule(" | ".join(map(rules.text, dict.fromkeys(choices))))


def _regex_rule(rules: Rules, structure: Structure) -> str:
    regex = rules.rule(rules.regex(structure.value))
    complaint = find_complaint(f"start: {rules.regex(structure.value)}")
    if complaint:
        raise _refusal(structure, complaint)
    return regex


def _grammar_rule(rules: Rules, structure: Structure) -> str:
    """Add a caller's grammar as one within ours, with names of its own.

    It is in llguidance's dialect of Lark, if it has a rule `start`, or in GBNF, with a rule `root`.
    Its texts are those of the answer: tokens by name or number, grammars beside it and what steers
    sampling have no place in it.
    """
    lark = _clean(structure, _to_lark(structure))
    complaint = find_complaint(lark, has_lines=True)
    if complaint:
        raise _refusal(structure, complaint)
    return rules.lark(lark)


def _to_lark(structure: Structure) -> str:
    text: str = structure.value
    if "::=" not in text:
        return text
    try:
        return llguidance.grammar_from("gbnf", text)
    except ValueError as error:
        if isinstance(error.__cause__ or error.__context__, RecursionError):
            raise _refusal(structure, "it is nested too deeply") from error
        reason = str(error).removeprefix("Failed to convert the grammar from GBNF to Lark: ")
        raise _refusal(structure, reason) from error


def _clean(structure: Structure, lark: str) -> str:
    """Return a grammar whose schemas can be enforced; raise where it has what it may not have."""
    parts: list[str] = []
    at, num_levels, num_overlaps = 0, 0, 0
    while found := _LARK_PART.search(lark, at):
        parts.append(lark[at : found.end()])
        at = found.end()
        line = lark.count("\n", 0, found.start()) + 1
        if found["token"] or found["other"] or found["option"]:
            raise _refusal(structure, f"line {line}: {found[0]!r:.60} cannot be used here")
        num_levels += bool(found["level"])
        num_overlaps += bool(found["overlap"])
        if found["json"]:
            schema, at = _read_schema(structure, lark, at)
            parts.append(f" {schema}")
    if num_levels > _MOST_LEVELS:
        raise _refusal(structure, f"it has more than {_MOST_LEVELS} rules, groups and repetitions")
    if num_overlaps > _MOST_OVERLAPS:
        raise _refusal(structure, f"it has more than {_MOST_OVERLAPS} '&'")
    return "".join([*parts, lark[at:]])


def _read_schema(structure: Structure, lark: str, at: int) -> tuple[str, int]:
    start = at + len(lark[at:]) - len(lark[at:].lstrip())
    line = lark.count("\n", 0, start) + 1
    try:
        schema, end = json.JSONDecoder().raw_decode(lark, start)
    except (ValueError, RecursionError) as error:
        raise _refusal(structure, f"line {line}: no JSON follows %json") from error
    ready = enforceable(schema, param=structure.param, is_strict=structure.is_strict)
    return styled_schema(ready), end


def _refusal(structure: Structure, reason: str) -> InvalidRequest:
    gist = " ".join(reason.split())[:_MOST_SHOWN].rstrip(".")
    return InvalidRequest(f"The {structure.kind} cannot be used: {gist}.", param=structure.param)
