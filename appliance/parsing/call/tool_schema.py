"""Read the schema of a function's arguments for rules that cannot say all that it may say. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from appliance.chat.request import Tool
from appliance.errors import InvalidRequest
from appliance.parsing.coercion import value_types
from appliance.parsing.grammar.kind import Schema, type_of_value
from appliance.parsing.grammar.reference import find_target

_OF_OBJECTS = frozenset(
    ("anyOf", "oneOf", "allOf", "patternProperties", "minProperties", "maxProperties")
)
_BESIDE_VALUES = frozenset(("const", "enum", "type", "$defs"))


class ToolSchema:
    """The schema of one function, in the form of `appliance.parsing.grammar.schema`.

    What no rule can say is left out, but refused for a strict function: its methods raise
    InvalidRequest, with the keyword.
    """

    def __init__(self, tool: Tool) -> None:
        self.root: dict[str, Any] = tool.parameters or {}
        self.name = tool.name
        self.is_strict = bool(tool.strict)

    def refuse(self, *keywords: str) -> None:
        """Refuse what is demanded by keywords that no rule can say; without any do nothing."""
        if keywords and self.is_strict:
            raise InvalidRequest(
                f"The strict tool {self.name!r} uses {min(keywords)!r:.80} in its parameters,"
                " which this model's way of writing calls cannot be bound by.",
                param="tools",
            )

    def resolve(self, schema: Schema) -> dict[str, Any]:
        """Return what a schema refers to, with what stands beside the reference."""
        whole, seen = schema if isinstance(schema, dict) else {}, set()
        while (target := whole.get("$ref")) is not None and target not in seen:
            seen.add(target)
            found = find_target(self.root, target)
            part = found[1] if found and isinstance(found[1], dict) else {}
            beside = {key: value for key, value in whole.items() if key != "$ref"}
            if beside.keys() - {"$defs"}:
                self.refuse("$ref")
            whole = {**part, **beside}
        return whole

    def members(self, schema: Schema) -> tuple[dict[str, Schema], frozenset[str], Schema]:
        """Return an object's properties that have names, those that must be there, and what the
        others may be."""
        whole = self.resolve(schema)
        self.refuse(*_OF_OBJECTS & whole.keys())
        properties = whole.get("properties") or {}
        required = whole.get("required") or []
        others = whole.get("additionalProperties", "properties" not in whole)
        unnamed = others if isinstance(others, dict) else True
        members = {key: properties.get(key, unnamed) for key in (*properties, *required)}
        members = {key: each for key, each in members.items() if not self.is_never(each)}
        return members, frozenset(required), others

    def is_never(self, schema: Schema) -> bool:
        """Say whether it is plain that no value is valid."""
        whole = self.resolve(schema)
        return schema is False or self.values(whole) == [] or self.options(whole) == []

    def values(self, schema: dict[str, Any]) -> list[Any] | None:
        """Return the only values that are valid; None if a schema does not list them."""
        if not {"const", "enum"} & schema.keys():
            return None
        self.refuse(*schema.keys() - _BESIDE_VALUES)
        types = value_types({"type": schema.get("type")}, self.root)
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return [each for each in values if type_of_value(each) in types]

    def options(self, schema: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return the schemas of which one must be valid, with none such in them; None if it is not
        of such."""
        return list(self._options(schema, set())) if "anyOf" in schema else None

    def _options(self, schema: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
        if "anyOf" not in schema:
            yield from [schema] if self.values(schema) != [] else []
            return
        beside = {key: schema[key] for key in schema.keys() - {"anyOf"}}
        if beside.keys() - {"type", "$defs"}:
            self.refuse("anyOf")
        for option in schema["anyOf"]:
            whole = self._with_type(self.resolve(option), beside)
            key = json.dumps(whole, sort_keys=True)
            # One that leads back to itself has nothing new.
            if option is not False and whole.get("type") != [] and key not in seen:
                seen.add(key)
                yield from self._options(whole, seen)

    def _with_type(self, schema: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with what stands beside it, which may be no more than a type."""
        whole = {**beside, **schema}
        if "type" in beside and "type" in schema:
            sides = (value_types({"type": each["type"]}, self.root) for each in (beside, schema))
            types = sorted(frozenset.intersection(*sides))
            whole["type"] = types[0] if len(types) == 1 else types
        return whole
