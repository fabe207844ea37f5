"""Say in plain words what pydantic found wrong, and what was probably meant."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from appliance.manifest.secret import SECRET_KEYS
from appliance.manifest.spec import Manifest, Section
from appliance.manifest.tree import Loc, Tree

_RULES = {
    "model_type": "should be a mapping of keys",
    "dict_type": "should be a mapping of keys",
    "tuple_type": "should be a list",
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "literal_error": "should be {expected}",
    "greater_than": "should be more than {gt:g}",
    "greater_than_equal": "should be at least {ge:g}",
    "less_than": "should be less than {lt:g}",
    "less_than_equal": "should be at most {le:g}",
}
_LATER = "is not available in this build"


def reason_of(error: ErrorDetails, tree: Tree) -> str:
    """Return one sentence without jargon, for an error in the values of `tree`.

    What the file says is repeated as written, never expanded; below a secret's key it is not.
    """
    loc = error["loc"]
    rule = error["type"]
    if rule == "extra_forbidden":
        return _unknown_key(loc)
    if rule == "missing":
        return "is missing"
    context = error.get("ctx", {})
    wanted = _RULES.get(rule, "{error}").format(**{"error": error["msg"]} | context)
    given = shown(tree, loc)
    if given is None:
        return wanted
    if rule == "literal_error" and _is_later(loc, tree):
        return f"{given} {_LATER}"
    joint = ", not " if wanted.startswith("should") else ": "
    return f"{wanted}{joint}{given}{_hint(rule, wanted, value_at(tree.value, loc))}"


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
    if key in section.later_keys:
        return f"'{key}' {_LATER}"
    fields = section.model_fields
    hint = suggestion(key, fields)
    for name in fields:
        below = _section_at((*loc[:-1], name))
        if below and key in below.model_fields:
            hint = hint or f"; did you mean '{name}.{key}'?"
    return f"unknown key {key!r}{hint}"


def _is_later(loc: Loc, tree: Tree) -> bool:
    section = _section_at(loc[:-1])
    later = section.later_values.get(str(loc[-1]), ()) if section else ()
    return value_at(tree.value, loc) in later


def _section_at(loc: Loc) -> type[Section] | None:
    section: type[Section] | None = Manifest
    for step in loc:
        if isinstance(step, int):
            continue
        field = section.model_fields.get(step) if section else None
        section = _section_in(field.annotation) if field else None
    return section


def _section_in(annotation: object) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation if issubclass(annotation, Section) else None
    return next((found for part in get_args(annotation) if (found := _section_in(part))), None)
