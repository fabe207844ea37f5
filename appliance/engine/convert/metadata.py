"""Answer what a GGUF file says about its model: typed look-ups that fail with the key's name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from appliance.errors import SourceError

MetadataValue = bool | int | float | str | list[str] | npt.NDArray[np.generic]

_MAX_INTEGER = 2**31


@dataclass(frozen=True)
class Metadata:
    """The key-value pairs of one file; every look-up raises SourceError on a wrong type or value.

    A look-up with a default returns it where the key is absent; one without raises SourceError.
    """

    source: str
    values: Mapping[str, MetadataValue]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: None) -> str | None: ...
    def text(self, key: str, default: str | None = "") -> str | None:
        """Return a string."""
        value = self.values.get(key)
        if value is None and default is None:
            return None
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def integer(self, key: str, default: int | None = None, *, maximum: int = _MAX_INTEGER) -> int:
        """Return a whole number from 1 to `maximum`."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= maximum:
            raise self._wrong(key, f"a whole number from 1 to {maximum}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number above zero."""
        value = self.values.get(key, default)
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self._wrong(key, "a number above zero")
        return float(value)

    def token_id(self, key: str, num_tokens: int) -> int | None:
        """Return a token's id, or None where the file names none that exists."""
        value = self.values.get(key)
        if not isinstance(value, int) or not 0 <= value < num_tokens:
            return None
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list of texts")
        return value

    def numbers(self, key: str, length: int) -> list[float]:
        """Return a list of `length` numbers."""
        value = self.values.get(key)
        if not isinstance(value, np.ndarray) or len(value) != length:
            raise self._wrong(key, f"a list of {length} numbers")
        return [float(number) for number in value.tolist()]

    def _wrong(self, key: str, expected: str) -> SourceError:
        if key not in self.values:
            return SourceError(self.source, f"the file does not say '{key}'")
        return SourceError(self.source, f"'{key}' should be {expected}")
