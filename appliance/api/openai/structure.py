"""Read what form OpenAI's dialects want an answer's text to have. Pure.

Source: OpenAI's API reference (`response_format`), vLLM's (`structured_outputs`, and `guided_…`
as it was called before), llama.cpp's (`grammar`, `json_schema`, a schema beside `json_object`) and
SGLang's (`json_schema`, `regex`, `ebnf`).
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from appliance.api.openai.refusal import Refusable, neutral
from appliance.api.structure import agreed_structure
from appliance.chat.request import Structure
from appliance.errors import InvalidRequest

JsonSchema = dict[str, Any]
Choices = Annotated[tuple[str, ...], Meta(min_length=1, max_length=5_000)]

_Kinds = dict[str, Literal["schema", "regex", "choice", "grammar"]]

_OUTPUTS: _Kinds = {"json": "schema", "regex": "regex", "choice": "choice", "grammar": "grammar"}
_FIELDS: _Kinds = {
    **{f"guided_{name}": kind for name, kind in _OUTPUTS.items()},
    "json_schema": "schema",
    "regex": "regex",
    "grammar": "grammar",
    "ebnf": "grammar",
}


class PlainFormat(msgspec.Struct, tag_field="type", tag="text"):
    """The answer may be any text."""


class ObjectFormat(msgspec.Struct, tag_field="type", tag="json_object"):
    """The answer shall be a JSON object, of a schema if there is one."""

    schema: JsonSchema | None = None


class NamedSchema(msgspec.Struct):
    """A schema; not `strict` leaves out what of it cannot be enforced."""

    schema: JsonSchema
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema"):
    """The answer shall be JSON of a schema."""

    json_schema: NamedSchema


class StructuredOutputs(msgspec.Struct):
    """What the answer shall be: exactly one of the first five."""

    json: JsonSchema | str | None = None
    regex: str | None = None
    choice: Choices | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Annotated[Refusable, neutral()] = UNSET
    whitespace_pattern: Annotated[Refusable, neutral()] = UNSET
    disable_any_whitespace: Annotated[Refusable, neutral(False)] = UNSET
    disable_additional_properties: Annotated[Refusable, neutral(False)] = UNSET


class StructureFields(msgspec.Struct, kw_only=True):
    """The fields of a body that bound the answer's text; an empty text says nothing."""

    response_format: PlainFormat | ObjectFormat | SchemaFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonSchema | str | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: Annotated[Refusable, neutral()] = UNSET
    json_schema: JsonSchema | str | None = None
    regex: str | None = None
    grammar: str | None = None
    ebnf: str | None = None
    structural_tag: Annotated[Refusable, neutral()] = UNSET


def to_structure(fields: StructureFields, further: Structure | None = None) -> Structure | None:
    """Return what the answer must be; `further` is what the dialect's own field says.

    Raises InvalidRequest for a schema that is none, and for fields that contradict each other.
    """
    return agreed_structure(further, *_structures(fields))


def schema_structure(schema: JsonSchema, param: str, *, strict: bool | None = None) -> Structure:
    """Return the wish for JSON of a schema; one that is not refused by `strict` is enforced."""
    return Structure("schema", schema, param, is_strict=strict is not False)


def _structures(fields: StructureFields) -> Iterator[Structure]:
    wish = fields.response_format
    if isinstance(wish, SchemaFormat):
        named, place = wish.json_schema, "response_format.json_schema.schema"
        yield schema_structure(named.schema, place, strict=named.strict)
    elif isinstance(wish, ObjectFormat):
        if wish.schema is None:
            yield Structure("object")
        else:
            yield schema_structure(wish.schema, "response_format.schema")
    yield from _outputs(fields.structured_outputs)
    yield from _spelled(fields, _FIELDS)


def _outputs(wish: StructuredOutputs | None) -> Iterator[Structure]:
    if wish is None:
        return
    asked = list(_spelled(wish, _OUTPUTS, "structured_outputs."))
    if wish.json_object:
        asked.append(Structure("object", param="structured_outputs.json_object"))
    if len(asked) != 1:
        reason = "structured_outputs: exactly one of json, regex, choice, grammar and json_object."
        raise InvalidRequest(reason, param="structured_outputs")
    yield asked[0]


def _spelled(fields: msgspec.Struct, kinds: _Kinds, place: str = "") -> Iterator[Structure]:
    """Yield what the fields `kinds` say; `place` is what stands before their names in a path.

    An empty text is what a client sends from a box that nobody has filled.
    """
    for name, kind in kinds.items():
        value, param = getattr(fields, name), place + name
        if value is not None and value != "":
            yield Structure(kind, _schema(value, param) if kind == "schema" else value, param)


def _schema(schema: JsonSchema | str, place: str) -> JsonSchema:
    if not isinstance(schema, str):
        return schema
    try:
        return msgspec.json.decode(schema, type=JsonSchema)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        reason = f"{place}: should be a JSON Schema, as an object or as its JSON text."
        raise InvalidRequest(reason, param=place) from error
