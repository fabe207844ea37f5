"""Bring a caller's JSON Schema into the form in which llguidance enforces all of it. Pure.

It ignores some keywords where they stand, and is wrong about others; those are told apart here,
so that what it is given it keeps, and a caller learns what cannot be kept, and where.
"""

import json
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from appliance.errors import InvalidRequest
from appliance.parsing.grammar.check import find_complaint
from appliance.parsing.grammar.kind import Schema
from appliance.parsing.grammar.overlap import are_disjoint, has_end, num_patterns
from appliance.parsing.grammar.part import Part, Place, Refusal, shorten_path
from appliance.parsing.grammar.reference import References
from appliance.parsing.grammar.rules import Rules

MOST_CHARACTERS = 200_000
"""The longest schema, as JSON text."""
_MOST_PARTS = 5_000
_DEEPEST = 40
_DEEPEST_BY_REFERENCE = 150
_MOST_FAULTS = 8
_MOST_PATTERNS = 8
"""For one text: the time to find out whether there is one doubles with each."""
_MOST_REASON = 250
_MOST_SECONDS = 2.0
"""Of the thread's own time, so that a busy machine refuses nothing that an idle one takes."""


def enforceable(schema: object, *, param: str, is_strict: bool) -> dict[str, Any]:
    """Return a schema of which llguidance enforces all, whose answers are valid for `schema` too.

    Its references are to its own `$defs`. An object that names its `properties`, and says nothing
    of others, has no others, and a schema without `type` that speaks of objects is for objects;
    so models do not write what nobody asked for. Not `is_strict`: what cannot be enforced is left
    out. Else InvalidRequest names `param`, the keyword and its place. The result may be shared:
    change nothing in it.
    """
    if not isinstance(schema, dict | bool):
        raise InvalidRequest("A schema is an object, or true or false.", param=param)
    try:
        return _enforceable(_text_of(schema), is_strict)
    except RecursionError as error:
        raise InvalidRequest("The schema is nested too deeply.", param=param) from error
    except Refusal as error:
        reason = str(error)[:_MOST_REASON]
        raise InvalidRequest(f"The schema cannot be enforced: {reason}.", param=param) from error


def _text_of(schema: Schema) -> str:
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        text.encode()  # half a pair of surrogates can be neither written nor spoken of
    except ValueError as error:
        raise Refusal("it is no JSON value") from error
    return text


@lru_cache(64)
def _enforceable(text: str, is_strict: bool) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise Refusal(f"it has more than {MOST_CHARACTERS} characters")
    try:
        return _Walk(json.loads(text), is_strict=is_strict).run()
    except Refusal:
        if is_strict:
            raise
        return {}


class _Walk:
    """The way through one schema. One instance each."""

    def __init__(self, root: Schema, *, is_strict: bool) -> None:
        self.root = root
        self.references = References(root if isinstance(root, dict) else {})
        self._is_strict = is_strict
        self._defs: dict[str, Schema] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._choices: list[tuple[list[Schema], Place]] = []
        self._num_parts = 0
        self._end_seconds = time.thread_time() + _MOST_SECONDS

    def run(self) -> dict[str, Any]:
        """Return the whole schema in its new form."""
        part = self.read(self.root, Place("#"))
        if part is False:
            raise Refusal("no value is valid for it")
        whole = {} if part is True else part
        if self._defs:
            whole = {**whole, "$defs": self._defs}
        self._check_patterns(whole)
        for options, place in self._choices:
            self._check_choice(options, place, whole)
        self._check_whole(whole)
        if not has_end(whole):
            raise Refusal("its '$ref' lead back to themselves, so that no value has an end")
        return whole

    def read(self, schema: object, place: Place) -> Schema:
        """Return a part of the schema in its new form."""
        self._num_parts += 1
        self._check_time()
        if self._num_parts > _MOST_PARTS:
            raise Refusal(f"it has more than {_MOST_PARTS} parts")
        if place.depth > _DEEPEST_BY_REFERENCE or place.inline_depth > _DEEPEST:
            raise Refusal(f"it is nested too deeply at {shorten_path(place.path)}")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise Refusal(f"what stands at {shorten_path(place.path)} is no schema")
        return Part(self, schema, place).read()

    def define(self, path: str, schema: object, place: Place) -> str:
        """Return a reference to the definition that what stands at `path` has become."""
        key = (path, place.may_close)
        if key not in self._names:
            name = self._names[key] = f"d{len(self._names)}"
            self._defs[name] = True
            self._defs[name] = self.read(schema, Place(path, place.depth + 1, 0, place.may_close))
        return f"#/$defs/{self._names[key]}"

    def choose_one(self, options: list[Schema], place: Place) -> None:
        """Demand that no value is valid for two of the options, once all is read."""
        self._choices.append((options, place))

    def refuse(self, keywords: Iterable[str], place: Place, reason: str) -> None:
        """Raise, or do nothing where the keywords are to be left out."""
        if self._is_strict:
            names = ", ".join(f"'{keyword}'" for keyword in keywords)
            raise Refusal(f"{names} at {shorten_path(place.path)} {reason}")

    def _check_time(self) -> None:
        if time.thread_time() > self._end_seconds:
            raise Refusal("it takes too long to check")

    def _check_patterns(self, whole: dict[str, Any]) -> None:
        known: dict[str, int] = {}
        paths = {name: path for (path, _), name in self._names.items()}
        waiting = [
            (paths[name], part) for name, part in self._defs.items() if isinstance(part, dict)
        ]
        waiting.append(("#", whole))
        while waiting:
            path, part = waiting.pop()
            if num_patterns(part, whole, known) > _MOST_PATTERNS:
                raise Refusal(
                    f"it holds the text at {shorten_path(path)} to over {_MOST_PATTERNS} patterns"
                )
            waiting += [("/".join([path, *keys]), child) for keys, child in _children(part)]

    def _check_choice(self, options: list[Schema], place: Place, whole: dict[str, Any]) -> None:
        for number, option in enumerate(options):
            self._check_time()
            if not all(are_disjoint(option, other, whole) for other in options[:number]):
                self.refuse(["oneOf"], place, "has options for two of which a value may be valid")
                return

    def _check_whole(self, whole: dict[str, Any]) -> None:
        """Refuse, or leave out, what llguidance refuses for the sake of several keywords."""
        complaint = _complaint_of(whole, {})
        for _ in range(_MOST_FAULTS):
            if not complaint:
                return
            self._check_time()
            path, part = self._find_fault(whole)
            chosen = {place.path for _, place in self._choices}
            names = {"anyOf": "oneOf"} if path in chosen else {}
            keywords = [names.get(key, key) for key in part if key not in ("type", "$defs")]
            self.refuse(keywords, Place(path), f"cannot be kept: {complaint}")
            kept = {key: value for key, value in part.items() if key in ("type", "$defs")}
            part.clear()
            part.update(kept)
            complaint = _complaint_of(whole, {})
        raise Refusal(complaint)

    def _find_fault(self, whole: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the smallest part that llguidance refuses by itself, and its place."""
        paths = {name: path for (path, _), name in self._names.items()}
        for name, part in self._defs.items():
            if isinstance(part, dict) and _complaint_of(part, self._defs):
                return _find_fault(part, paths[name], self._defs)
        return _find_fault(whole, "#", self._defs)


def _find_fault(
    part: dict[str, Any], path: str, defs: dict[str, Schema]
) -> tuple[str, dict[str, Any]]:
    for keys, child in _children(part):
        if _complaint_of(child, defs):
            return _find_fault(child, "/".join([path, *keys]), defs)
    return path, part


def _children(part: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for key, value in part.items():
        named: dict[tuple[str, ...], Any] = {}
        if key in ("properties", "patternProperties"):
            named = {(key, name): child for name, child in value.items()}
        elif key in ("allOf", "anyOf", "prefixItems"):
            named = {(key, str(number)): child for number, child in enumerate(value)}
        elif key in ("items", "additionalProperties"):
            named = {(key,): value}
        yield from ((keys, child) for keys, child in named.items() if isinstance(child, dict))


def _complaint_of(part: dict[str, Any], defs: dict[str, Schema]) -> str:
    rules = Rules()
    whole = {"$defs": defs, **part} if defs else part
    return find_complaint(rules.build(rules.json(whole)).lark)
