"""Make up JSON Schemas, as callers write them and as no caller should."""

import json
import random
from typing import Any

_NAMES = ("id", "name", "größe", "unit price", 'a"b', "kind", "tags", "next", "x/y", "$ref")
_WORDS = ("red", "green", "", "blau", 'say "hi"', "a\nb", "null", "1", "日本", "🙂")
_PATTERNS = (r"^[a-z]{2,5}$", r"^\d{3}-\d{4}$", r"^(?:a|b)+$", r"^[\w.-]{1,9}$", r"^\S+$", "^é?$")
_BAD_PATTERNS = (r"(?=a)b", r"(a)\1", "[", r"\bword\b", "a{2,1}", "[a--z]")
_FORMATS = ("date", "date-time", "time", "email", "ipv4", "ipv6", "uuid", "duration", "hostname")
_UNENFORCEABLE: tuple[dict[str, Any], ...] = (
    *({"uniqueItems": True}, {"not": {"type": "null"}}, {"if": {}, "then": {"minLength": 1}}),
    *({"contains": {"const": 1}}, {"dependentRequired": {"a": ["b"]}}, {"multipleOf": 0.01}),
    *({"propertyNames": {"minLength": 3}}, {"$ref": "#/nowhere"}, {"maximum": 10**30}),
    *({"$dynamicRef": "#x"}, {"minProperties": 4}, {"type": "any"}, {"enum": []}, {"anyOf": {}}),
    *({"oneOf": [{"type": "number"}, {"minimum": 1}]}, {"maxLength": -1}, {"required": "id"}),
    *({"type": "string", "format": "uri-template"}, {"minLength": 5, "maxLength": 2}),
    *({"allOf": [{"type": "string"}, {"type": "null"}]}, {"minimum": 3, "maximum": 1}),
    *({"type": "string", "pattern": pattern} for pattern in _BAD_PATTERNS),
)


class SchemaDraw:
    """Draws schemas, always the same ones for a seed. One instance each."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def schema(self, *, is_sound: bool) -> dict[str, Any]:
        """Return a schema; one that is not sound holds something that cannot be enforced."""
        made = self._any(3)
        if not is_sound:
            self._spoil(made)
        if self._draw.random() < 0.3:
            made = {"$defs": {"part": made}, "type": "object", **self._with_part()}
        return made

    def _with_part(self) -> dict[str, Any]:
        draw = self._draw
        part = {"$ref": "#/$defs/part"}
        return {
            "properties": {
                "part": draw.choice([part, {"anyOf": [part, {"type": "null"}]}]),
                "parts": {"type": "array", "items": part, "maxItems": draw.randint(1, 3)},
                "self": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            },
            "required": draw.choice([["part"], ["part", "parts"]]),
        }

    def _spoil(self, made: dict[str, Any]) -> None:
        while made.get("properties") and self._draw.random() < 0.7:
            name = self._draw.choice(list(made["properties"]))
            made.setdefault("required", []).append(name)
            made = made["properties"][name]
        kept = json.loads(json.dumps(made))
        made.clear()
        made.update(kept, **self._draw.choice(_UNENFORCEABLE))

    def _any(self, depth: int) -> dict[str, Any]:
        kinds = [self._text, self._number, self._value, self._flag]
        if depth:
            kinds += [lambda: self._object(depth), lambda: self._array(depth)]
            kinds += [lambda: self._options(depth), lambda: self._object(depth)]
        made = self._draw.choice(kinds)()
        if self._draw.random() < 0.2:
            made |= {"title": "T", "description": "D", "default": None, "x-note": {"not": {}}}
        return made

    def _text(self) -> dict[str, Any]:
        draw = self._draw
        return draw.choice(
            [
                {"type": "string", "maxLength": draw.randint(0, 12)},
                {"type": "string", "minLength": 1, "maxLength": 8},
                {"type": "string", "pattern": draw.choice(_PATTERNS)},
                {"type": "string", "format": draw.choice(_FORMATS)},
                {"type": ["string", "null"], "maxLength": 5},
            ]
        )

    def _number(self) -> dict[str, Any]:
        draw = self._draw
        low = draw.choice([-100, -1.5, 0, 3])
        return draw.choice(
            [
                {"type": draw.choice(["integer", "number"])},
                {"type": "integer", "minimum": low, "maximum": low + draw.randint(1, 50)},
                {"type": "number", "exclusiveMinimum": low, "maximum": low + 7.25},
                {"type": "integer", "multipleOf": draw.choice([2, 5, 12])},
                {"type": "number", "multipleOf": draw.choice([0.5, 0.25]), "minimum": low},
            ]
        )

    def _value(self) -> dict[str, Any]:
        draw = self._draw
        values = [*draw.sample(_WORDS, 3), 1, -2.5, None, True, [1, "a"], {"b": [None]}]
        return draw.choice(
            [
                {"enum": draw.sample(values, draw.randint(1, 5))},
                {"const": draw.choice(values)},
                {"type": "string", "enum": draw.sample(_WORDS, 4)},
            ]
        )

    def _flag(self) -> dict[str, Any]:
        return {"type": self._draw.choice(["boolean", "null"])}

    def _object(self, depth: int) -> dict[str, Any]:
        draw = self._draw
        names = draw.sample(_NAMES, draw.randint(0, 4))
        made: dict[str, Any] = {
            "type": "object",
            "properties": {name: self._any(depth - 1) for name in names},
        }
        if draw.random() < 0.8:
            made["required"] = names[: draw.randint(0, len(names))]
        if draw.random() < 0.5:
            made["additionalProperties"] = draw.choice([False, False, {"type": "integer"}])
        if draw.random() < 0.1:
            made["patternProperties"] = {"^z[0-9]$": self._any(0)}
        return made

    def _array(self, depth: int) -> dict[str, Any]:
        draw = self._draw
        least = draw.randint(0, 2)
        made = {"type": "array", "items": self._any(depth - 1), "minItems": least}
        made["maxItems"] = least + draw.randint(0, 3)
        if draw.random() < 0.2:
            made["prefixItems"] = [self._any(0), self._any(0)]
        return made

    def _options(self, depth: int) -> dict[str, Any]:
        draw = self._draw
        kinds = [
            {"type": "object", "properties": {"kind": {"const": word}, "of": self._any(depth - 1)}}
            for word in draw.sample(_WORDS, 2)
        ]
        tagged = [{**kind, "required": ["kind"]} for kind in kinds]
        return draw.choice(
            [
                {"anyOf": [self._any(depth - 1), self._any(depth - 1)]},
                {"oneOf": tagged},
                {"oneOf": [{"type": "null"}, self._text() | {"type": "string"}]},
                {"allOf": [{"type": "object"}, tagged[0]]},
            ]
        )
