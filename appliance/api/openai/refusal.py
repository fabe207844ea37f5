"""Say which known fields nothing but a scripted model honours yet, so that they are never ignored.

A body declares such a field with `Annotated[Refusable, neutral(…)] = UNSET`: the values (beside
null) that mean the same as leaving it out. Anything else goes to `ChatRequest.unserved`.
"""

from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

Refusable: TypeAlias = Any | UnsetType


def neutral(*values: Any) -> Meta:  # noqa: ANN401 - any JSON value
    """Return the mark of a field that is refused unless it has one of these values."""
    said = ", ".join(msgspec.json.encode(value).decode() for value in (None, *values))
    return Meta(description=f"Not supported yet; only: {said}.", extra={"neutral": values})


@cache
def refused_fields(kind: type[msgspec.Struct]) -> dict[str, tuple[Any, ...]]:
    """Return the fields of a kind of body that are refused, each with its neutral values."""
    hints = ((each.name, _marks(each.type)) for each in msgspec.structs.fields(kind))
    return {name: marks[0] for name, marks in hints if marks}


def unserved_fields(body: msgspec.Struct) -> tuple[str, ...]:
    """Return the fields of a body set to something that only a scripted model accepts.

    Those of the objects in its fields are among them, as `field.inner`.
    """
    own = tuple(
        name
        for name, values in refused_fields(type(body)).items()
        if (value := getattr(body, name)) is not UNSET
        and value is not None
        and not any(_is_same(value, each) for each in values)
    )
    objects = ((name, getattr(body, name)) for name in body.__struct_fields__)
    inner = (
        f"{name}.{field}"
        for name, value in objects
        if isinstance(value, msgspec.Struct)
        for field in unserved_fields(value)
    )
    return (*own, *inner)


def _marks(hint: object) -> list[tuple[Any, ...]]:
    metas = getattr(hint, "__metadata__", ())
    extras = [each.extra or {} for each in metas if isinstance(each, Meta)]
    return [extra["neutral"] for extra in extras if "neutral" in extra]


def _is_same(value: object, neutral_value: object) -> bool:
    """Compare as JSON does: 0 and 0.0 are the same, 0 and false are not."""
    return value == neutral_value and isinstance(value, bool) == isinstance(neutral_value, bool)
