"""Say in plain words what pydantic found wrong, and what was probably meant."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from appliance.manifest.secret import SECRET_KEYS
from appliance.manifest.spec.manifest import Manifest
from appliance.manifest.spec.section import Section, below, is_section
from appliance.manifest.tree import Flaw, Loc, Tree

_RULES = {
    "model_type": "should be a mapping of keys",
    "dict_type": "should be a mapping of keys",
    "tuple_type": "should be a list",
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "string_too_short": "should be at least one character",
    "literal_error": "should be {expected}",
    "greater_than": "should be more than {gt:g}",
    "greater_than_equal": "should be at least {ge:g}",
    "less_than": "should be less than {lt:g}",
    "less_than_equal": "should be at most {le:g}",
}


def flaw_of(error: ErrorDetails, tree: Tree) -> Flaw:
    """Return what pydantic found in the values of `tree`, in one sentence without jargon.

    What the file says is repeated as written, never expanded; below a secret's key it is not.
    """
    loc = error["loc"]
    if loc not in tree.places and loc[-1:] == ("[key]",):
        loc = loc[:-1]  # pydantic's mark for the key of a mapping
    return Flaw(loc, _reason(error, loc, tree))


def path_text(loc: Loc) -> str:
    """Return `loc` as a dotted path on one line."""
    return ".".join(str(step) if re.fullmatch(r"[\w-]+", str(step)) else repr(step) for step in loc)


def value_at(value: object, loc: Iterable[str | int]) -> object:
    """Return what stands at `loc` in plain values, or None."""
    for step in loc:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, tuple) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value


def shown(tree: Tree, loc: Loc) -> str | None:
    """Return what the file says at `loc`, short and quoted; None if it may be a secret."""
    if SECRET_KEYS.intersection(loc):
        return None
    value = value_at(tree.value, loc)
    if isinstance(value, dict | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    written = tree.places[loc].written or ""
    short = written if len(written) <= 60 else f"{written[:59]}…"
    if isinstance(value, str):
        return repr(short)
    return "empty" if value is None else short


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean '…'?` for the nearest of `known`, or nothing."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _reason(error: ErrorDetails, loc: Loc, tree: Tree) -> str:
    rule = error["type"]
    if rule == "extra_forbidden":
        return _unknown_key(loc)
    if rule == "missing":
        return "is missing"
    context = error.get("ctx", {})
    wanted = _RULES.get(rule, "{error}").format(**{"error": error["msg"]} | context)
    given = shown(tree, loc)
    if given is None or (rule == "value_error" and _section_at(loc)):
        return wanted  # of a section, the rule is about its name or about how its keys fit
    joint = ", not " if wanted.startswith("should") else ": "
    return f"{wanted}{joint}{given}{_hint(rule, wanted, value_at(tree.value, loc))}"


def _hint(rule: str, wanted: str, value: object) -> str:
    if rule == "string_type" and isinstance(value, int | float):
        return "; put it in quotes"
    if rule == "literal_error" and isinstance(value, str):
        return suggestion(value, re.findall(r"'([^']*)'", wanted))
    return ""


def _unknown_key(loc: Loc) -> str:
    key = str(loc[-1])
    section = _section_at(loc[:-1])
    if section is None:
        return f"unknown key {key!r}"
    fields = section.model_fields
    hint = suggestion(key, fields)
    for name in fields:
        inner = _section_at((*loc[:-1], name))
        if inner and key in inner.model_fields:
            hint = hint or f"; did you mean '{name}.{key}'?"
    return f"unknown key {key!r}{hint}"


def _section_at(loc: Loc) -> type[Section] | None:
    kind: object = Manifest
    for step in loc:
        kind = below(kind, step)
    return kind if is_section(kind) else None
