"""Read the small JSON files of a model's folder."""

import json
from pathlib import Path
from typing import Any

from appliance.errors import SourceError


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`, or {} if there is no such file.

    Raises SourceError, naming the file, if it cannot be read or holds something else.
    """
    text = read_text(path)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(str(path), f"is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise SourceError(str(path), "should hold a JSON object")
    return value


def read_text(path: Path) -> str | None:
    """Return the text of `path`, or None if there is no such file; raises SourceError naming it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(path), f"cannot be read: {error}") from error
