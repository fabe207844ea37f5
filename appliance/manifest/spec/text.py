"""Give the texts of the manifest that follow a rule of their own their types."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from appliance.manifest.source import expand_home, parse_source
from appliance.manifest.spec.section import Name

_HOST = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
_PORT = r"(:[0-9]{1,5})?"
_ORIGIN = rf"^(\*|https?://({_HOST}|\[[0-9A-Fa-f:]+\]){_PORT})$"
_URL = rf"^https?://({_HOST}|\[[0-9A-Fa-f:]+\]){_PORT}(/[!-~]*)?$"


def _rule(pattern: str, wanted: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"should be {wanted}")
        return text

    return check


def _parse_path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("should be the path of a file")
    return expand_home(value)


def _check_source(text: str) -> str:
    parse_source(text)
    return text


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        # What it says of the pattern may be an expanded value.
        raise ValueError("should be a regular expression") from error
    return text


class _AllOrNames:
    """The rule of `AllOrNames`: pydantic's own union would say what is wrong twice."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        names = handler.generate_schema(tuple[Name, ...])
        as_is = core_schema.plain_serializer_function_ser_schema(lambda value: value)
        return core_schema.no_info_wrap_validator_function(
            cls._validate, names, serialization=as_is
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"const": "*", "type": "string"}, handler(schema)]}

    @staticmethod
    def _validate(value: object, names: ValidatorFunctionWrapHandler) -> object:
        if isinstance(value, str) and value != "*":
            raise ValueError("should be '*' or a list of names")
        return value if value == "*" else names(value)


AllOrNames = Annotated[Literal["*"] | tuple[Name, ...], _AllOrNames]
Host = Annotated[
    str,
    AfterValidator(_rule(f"^{_HOST}$", "the name of a machine")),
    Field(json_schema_extra={"pattern": f"^{_HOST}$"}),
]
HttpUrl = Annotated[
    str,
    AfterValidator(_rule(_URL, "an address such as http://nas.local/")),
    Field(json_schema_extra={"pattern": _URL}),
]
Origin = Annotated[
    str,
    AfterValidator(_rule(_ORIGIN, "'*' or an origin such as https://chat.lan:3000")),
    Field(json_schema_extra={"pattern": _ORIGIN}),
]
HomePath = Annotated[
    Path, BeforeValidator(_parse_path), WithJsonSchema({"type": "string", "minLength": 1})
]
Pattern = Annotated[
    str, AfterValidator(_check_pattern), Field(json_schema_extra={"format": "regex"})
]
SourceText = Annotated[
    str,
    AfterValidator(_check_source),
    Field(json_schema_extra={"pattern": "^(hf|path|wheel|scripted):."}),
]


def resolve_path(folder: Path, path: Path) -> Path:
    """Return `path` against the manifest's folder, unless it is absolute already."""
    return path if path.is_absolute() else folder / path
