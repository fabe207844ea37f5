"""Keep secrets out of the manifest: where a key comes from, and `${ENV}` in its text values."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from appliance.manifest.source import expand_home

# The manifest's keys whose values, whatever a person wrote there, are never shown.
SECRET_KEYS = frozenset({"key", "env"})

MAX_SECRET_BYTES = 64 * 2**10

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_SHA256 = r"[0-9a-fA-F]{64}"
_FORMS = {"env": _VARIABLE, "file": r"(?s).+", "sha256": _SHA256}
_DOLLAR = re.compile(rf"\$(?:\$|\{{({_VARIABLE})(?::-([^}}]*))?\}}|(?=\{{))")


class KeySecret(BaseModel):
    """Where an API key comes from: an environment variable, a file, or its sha256 in hex."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, title="KeySecret"
    )

    env: str | None = None
    file: str | None = None
    sha256: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, value: object) -> object:
        if isinstance(value, cls):
            return value
        # One sentence for every mistake: a person may have written the key itself anywhere here.
        if isinstance(value, dict) and len(value) == 1:
            ((form, text),) = value.items()
            pattern = _FORMS.get(form)
            if pattern is not None and isinstance(text, str) and re.fullmatch(pattern, text):
                return value
        raise ValueError("should be {env: NAME}, {file: path} or {sha256: 64 hex digits}")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the three forms, since pydantic cannot see the validator's rule."""
        return {
            "title": "KeySecret",
            "description": cls.__doc__,
            "oneOf": [
                _form_schema("env", "Name of a variable.", pattern=f"^{_VARIABLE}$"),
                _form_schema("file", "File with the key; relative to the manifest.", minLength=1),
                _form_schema("sha256", "The key's sha256.", pattern=f"^{_SHA256}$"),
            ],
        }

    def __repr__(self) -> str:
        if self.sha256 is not None:
            return "KeySecret(sha256=…)"
        return f"KeySecret(env={self.env!r})" if self.env else f"KeySecret(file={self.file!r})"

    __str__ = __repr__


def resolve_digest(secret: KeySecret, folder: Path, environ: Mapping[str, str]) -> bytes:
    """Return the sha256 of the key that `secret` leads to; a relative file is under `folder`.

    Raises ValueError whose text names neither variable nor file: both may hold expanded values,
    and the loader knows what the file says. Reads the disk.
    """
    if secret.sha256 is not None:
        return bytes.fromhex(secret.sha256)
    if secret.env is not None:
        key = environ.get(secret.env, "").encode(errors="surrogateescape")
        missing = "the environment variable is not set"
    else:
        key = _read_secret(folder / expand_home(secret.file or ""))
        missing = "the file is empty"
    key = key.rstrip(b"\r\n")
    if not key:
        raise ValueError(missing)
    return hashlib.sha256(key).digest()


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with `${NAME}` and `${NAME:-default}` replaced; `$$` gives one `$`.

    As in a shell, the default also stands in for an empty value. Values are not expanded again.
    Raises ValueError, which never holds a value.
    """

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        if match[0] == "$$":
            return "$"
        if name is None:
            raise ValueError("'${' should open ${NAME} or ${NAME:-default}; $${ is a plain '${'")
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            raise ValueError(f"the environment variable {name} is not set")
        return environ[name]

    return _DOLLAR.sub(value_of, text)


def _form_schema(key: str, description: str, **rule: object) -> JsonSchemaValue:
    text = {"type": "string", "description": description} | rule
    return {
        "type": "object",
        "properties": {key: text},
        "required": [key],
        "additionalProperties": False,
    }


def _read_secret(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ValueError("the file does not exist")
        with path.open("rb") as source:
            key = source.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None
    if len(key) > MAX_SECRET_BYTES:
        raise ValueError("the file is too large for a key")
    return key
