"""Read the small JSON files of a model's folder, and how long its config says a context is."""

import json
from pathlib import Path
from typing import Any

from appliance.errors import SourceError

_CONTEXT_KEYS = (
    "max_position_embeddings",
    "max_sequence_length",
    "max_seq_len",
    "model_max_length",
    "n_positions",
    "n_ctx",
    "seq_length",
)
_LANGUAGE_PARTS = ("text", "llm", "language")
_OTHER_PARTS = ("vision", "audio", "quantization")
_MOST_LEVELS = 4


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


def context_tokens(config: dict[str, Any]) -> int | None:
    """Return the most tokens that a config.json allows in one sequence; None if it is silent. Pure.

    A model of several parts keeps them in sections such as `text_config`: the language part's
    bound comes first, then the top level's, then any other part's but a vision or audio tower's.
    """
    return _find_context(config, _MOST_LEVELS)


def _find_context(section: dict[str, Any], levels: int) -> int | None:
    language, other = [], []
    for key, part in section.items() if levels else ():
        if not key.endswith("_config") or not isinstance(part, dict):
            continue
        if any(word in key for word in _LANGUAGE_PARTS):
            language.append(part)
        elif not any(word in key for word in _OTHER_PARTS):
            other.append(part)
    found = (
        *(_find_context(part, levels - 1) for part in language),
        *(section[key] for key in _CONTEXT_KEYS if _is_length(section.get(key))),
        *(_find_context(part, levels - 1) for part in other),
    )
    return next((length for length in found if length is not None), None)


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
