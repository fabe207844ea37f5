"""Read one schema within a caller's JSON Schema, so that llguidance enforces all of it. Pure."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from appliance.parsing.grammar.keyword import (
    MOST_PROPERTIES,
    Unenforceable,
    find_fault,
    read_keyword,
    rust_pattern,
)
from appliance.parsing.grammar.kind import KEYWORDS, Schema
from appliance.parsing.grammar.reference import References

_MOST_OPTIONAL = 400
_MOST_PATH = 80
_APPLICATORS = ("$ref", "allOf", "anyOf", "oneOf")


class Refusal(Exception):
    """Says which keyword, where, and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part stands, how deep, and whether its objects may be bound to what they name."""

    path: str
    depth: int = 0
    inline_depth: int = 0
    may_close: bool = True

    def at(self, *keys: str | int, may_close: bool = True) -> "Place":
        """Return the place of a part of this one."""
        names = [str(key).replace("~", "~0").replace("/", "~1") for key in keys]
        return Place(
            "/".join([self.path, *names]),
            self.depth + 1,
            self.inline_depth + 1,
            self.may_close and may_close,
        )


def shorten_path(path: str) -> str:
    """Return a path as it is shown: of a long one its ends."""
    return path if len(path) <= _MOST_PATH else f"{path[:30]} … {path[35 - _MOST_PATH :]}"


class Walk(Protocol):
    """The way through the whole that a part belongs to."""

    root: Schema
    references: References

    def read(self, schema: object, place: Place) -> Schema:
        """Return a part of the schema in its new form."""

    def define(self, path: str, schema: object, place: Place) -> str:
        """Return a reference to the definition that what stands at `path` has become."""

    def choose_one(self, options: list[Schema], place: Place) -> None:
        """Demand that no value is valid for two of the options, once all is read."""

    def refuse(self, keywords: Iterable[str], place: Place, reason: str) -> None:
        """Raise Refusal, or do nothing where the keywords are to be left out."""


class Part:
    """The reading of one schema within the whole. One instance each."""

    def __init__(self, walk: Walk, schema: dict[str, Any], place: Place) -> None:
        self._walk = walk
        self._schema = schema
        self._place = place
        self._out: dict[str, Any] = {}
        applicators = [key for key in _APPLICATORS if key in schema]
        self._is_mixed = bool(applicators)
        others = {"const", "enum"}.union(*KEYWORDS.values())
        parts = schema.get("allOf")
        self._is_wrapper = (
            len(applicators) == 1
            and not others & schema.keys()
            and not (isinstance(parts, list) and len(parts) > 1)
        )

    def read(self) -> dict[str, Any]:
        """Return the part in its new form."""
        for key in self._schema:
            try:
                reader = self._READERS.get(key)
                if reader is None:
                    self._out.update(read_keyword(key, self._schema) or {})
                else:
                    reader(self, key)
            except Unenforceable as error:
                self._walk.refuse([key], self._place, error.reason)
        self._narrow()
        self._close()
        self._check_counts()
        self._check_values()
        return self._out

    def _child(self, *keys: str | int, may_close: bool = True) -> Schema:
        schema: Any = self._schema
        for key in keys:
            schema = schema[key]
        return self._walk.read(schema, self._place.at(*keys, may_close=may_close))

    def _read_reference(self, key: str) -> None:
        reference = self._schema[key]
        is_text = isinstance(reference, str)
        found = self._walk.references.find(reference) if is_text else None
        if found is None:
            raise Unenforceable(f"names {str(reference)[:60]!r}, which is not in the schema")
        place = self._place.at(key, may_close=self._is_wrapper)
        self._out[key] = self._walk.define(*found, place)

    def _read_options(self, key: str) -> None:
        if not isinstance(self._schema[key], list) or not self._schema[key]:
            raise Unenforceable("must be a list of at least one schema")
        size = len(self._schema[key])
        options = [self._child(key, at, may_close=self._is_wrapper) for at in range(size)]
        if key == "oneOf":
            self._walk.choose_one(options, self._place)
        if key == "allOf":
            self._out.setdefault("allOf", []).extend(options)
        elif "anyOf" in self._out:
            self._out.setdefault("allOf", []).append({"anyOf": options})
        else:
            self._out["anyOf"] = options

    def _read_items(self, key: str) -> None:
        if not isinstance(self._schema[key], list):
            self._out[key] = self._child(key)
            return
        # Before Draft 2020-12 a list was what prefixItems is now.
        self._read_first_items(key)
        if "additionalItems" in self._schema:
            self._out["items"] = self._child("additionalItems")

    def _read_first_items(self, key: str) -> None:
        if not isinstance(self._schema[key], list):
            raise Unenforceable("must be a list of schemas")
        size = len(self._schema[key])
        self._out["prefixItems"] = [self._child(key, at) for at in range(size)]

    def _read_rest(self, key: str) -> None:
        """Read what holds for what no other keyword speaks of."""
        plain = {"unevaluatedItems": "items", "unevaluatedProperties": "additionalProperties"}[key]
        if plain in self._schema or self._schema[key] in (True, {}):
            return
        if self._is_mixed:
            raise Unenforceable(f"is not supported beside {', '.join(_APPLICATORS)}")
        self._out[plain] = self._child(key)

    def _read_properties(self, key: str) -> None:
        properties = self._schema[key]
        if not isinstance(properties, dict):
            raise Unenforceable("must be an object of schemas")
        if len(properties) > MOST_PROPERTIES:
            raise Unenforceable(f"has more than {MOST_PROPERTIES} names")
        may_close = "patternProperties" not in self._schema
        self._out[key] = {name: self._child(key, name, may_close=may_close) for name in properties}

    def _read_patterns(self, key: str) -> None:
        patterns = self._schema[key]
        if not isinstance(patterns, dict):
            raise Unenforceable("must be an object of schemas")
        read = {}
        for pattern in patterns:
            names = {"type": "string", "pattern": rust_pattern(pattern)}
            if fault := find_fault(json.dumps(names)):
                raise Unenforceable(f"has {pattern[:40]!r}: {fault}")
            read[names["pattern"]] = self._child(key, pattern, may_close=False)
        self._out[key] = read

    def _read_additional(self, key: str) -> None:
        self._out[key] = self._child(key)

    def _read_identity(self, key: str) -> None:
        if self._schema is not self._walk.root and not str(self._schema[key]).startswith("#"):
            raise Unenforceable("is supported only at the root")

    def _narrow(self) -> None:
        """Say which type is meant where that is plain from what is said about values of it."""
        if self._is_mixed or not self._place.may_close or not self._out:
            return
        if not {"type", "const", "enum"} & self._out.keys():
            self._out["type"] = next(
                name
                for name, keywords in KEYWORDS.items()
                if not self._out.keys().isdisjoint(keywords)
            )

    def _close(self) -> None:
        """Allow no other properties than those that are named, where nothing is said of others."""
        out = self._out
        names = out.get("properties")
        is_free = self._place.may_close and not self._is_mixed
        says_nothing = (
            not {"additionalProperties", "patternProperties", "const", "enum"} & out.keys()
        )
        if is_free and says_nothing and names is not None:
            needed = set(out.get("required", ()))
            if needed <= names.keys() and out.get("minProperties", 0) <= len(names):
                out["additionalProperties"] = False

    def _check_counts(self) -> None:
        """Refuse numbers of properties that cannot be kept: a model may repeat a key."""
        out, needed = self._out, self._out.get("required", ())
        num_optional = len(set(out.get("properties", ())) - set(needed))
        if num_optional > _MOST_OPTIONAL:
            where = shorten_path(self._place.path)
            raise Refusal(f"'properties' at {where} has over {_MOST_OPTIONAL} that may be missing")
        is_closed = out.get("additionalProperties") is False and not out.get("patternProperties")
        if out.get("minProperties", 0) <= len(needed):
            out.pop("minProperties", None)
        if is_closed and out.get("maxProperties", 0) >= num_optional + len(needed):
            out.pop("maxProperties", None)
        least = out.get("minProperties", len(needed)) - len(needed)
        most = out.get("maxProperties", len(needed) + 1) - len(needed)
        if num_optional and not (is_closed and least <= 1 and most == 1):
            self._drop(
                ("minProperties", "maxProperties"), "needs all 'properties' to be 'required'"
            )
        elif least > 1:
            self._drop(("minProperties",), "is more than one over the number of 'required' ones")

    def _check_values(self) -> None:
        number = "integer" if self._out.get("type") == "integer" else "number"
        for kind, name in (("string", "string"), ("number", number)):
            demands = {key: self._out[key] for key in KEYWORDS[kind] if key in self._out}
            while demands and (fault := find_fault(json.dumps({"type": name, **demands}))):
                self._walk.refuse(demands, self._place, f"cannot be kept: {fault}")
                first = next(iter(demands))
                del self._out[first], demands[first]

    def _drop(self, keywords: tuple[str, ...], reason: str) -> None:
        found = [key for key in keywords if key in self._out]
        if found:
            self._walk.refuse(found, self._place, reason)
        for key in found:
            del self._out[key]

    _READERS: ClassVar[dict[str, Callable[["Part", str], None]]] = {
        "$id": _read_identity,
        "$ref": _read_reference,
        "allOf": _read_options,
        "anyOf": _read_options,
        "oneOf": _read_options,
        "items": _read_items,
        "prefixItems": _read_first_items,
        "unevaluatedItems": _read_rest,
        "unevaluatedProperties": _read_rest,
        "properties": _read_properties,
        "patternProperties": _read_patterns,
        "additionalProperties": _read_additional,
    }
