"""Say what every section of the manifest shares, and which type stands below which key."""

import re
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

NOT_YET = "is not available in this build"
LATER_MARK = "x-later"

_EXTRAS = "*"  # no field has this name
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$"


def _check_name(text: str) -> str:
    if re.fullmatch(_NAME, text) is None:
        raise ValueError(
            "should be 1 to 128 letters, digits or . _ : / @ - and begin with a letter or digit"
        )
    return text


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]


class Section(BaseModel):
    """What every section shares: unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Later:
    """Mark a key of the contract that this build checks like any other and does not serve.

    `served` are the values, as the file has them, that ask for nothing; a mapping among them stands
    for every mapping with these items. `names` says what the complaint is of.
    """

    def __init__(self, *served: object, names: Literal["key", "value"] = "key") -> None:
        self.served = served
        self.names = names

    def serves(self, value: object) -> bool:
        """Say whether `value`, as the file has it, asks for nothing that is not there yet."""
        return any(value == one or _holds(value, one) for one in self.served)

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Mark the key in the schema too, for `schema` to tell its readers."""
        return handler(core_schema) | {LATER_MARK: True}


def _holds(value: object, items: object) -> bool:
    if not isinstance(value, dict) or not isinstance(items, dict):
        return False
    return all(value.get(key) == item for key, item in items.items())


def below(kind: object, step: str | int) -> object:
    """Return what stands at `step` in a value of this kind.

    A kind is a Section, a tuple[…] or dict[…] that may hold some, or None for everything else.
    """
    if is_section(kind):
        kinds = _kinds(kind)
        return kinds.get(str(step), kinds[_EXTRAS])
    if get_origin(kind) in (dict, tuple):
        return _kind(get_args(kind)[-1 if get_origin(kind) is dict else 0])
    return None


def is_section(kind: object) -> TypeGuard[type[Section]]:
    """Say whether the kind is a section."""
    return isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, Section)


@cache
def _kinds(section: type[Section]) -> Mapping[str, object]:
    kinds = {name: _kind(field.annotation) for name, field in section.model_fields.items()}
    extras = section.__annotations__.get("__pydantic_extra__")
    return kinds | {_EXTRAS: below(extras, "")}


def _kind(annotation: object) -> object:
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next((kind for part in get_args(annotation) if (kind := _kind(part))), None)
    if get_origin(annotation) in (dict, tuple) or is_section(annotation):
        return annotation
    return None
