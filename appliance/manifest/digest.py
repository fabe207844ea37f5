"""Reduce values to short digests that are equal where the values mean the same."""

import hashlib
import json


def short_digest(value: object) -> str:
    """Return 16 hex digits of a value of JSON; the order of keys in mappings changes nothing."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text_digest(text)


def text_digest(text: str) -> str:
    """Return 16 hex digits of the text's UTF-8 bytes."""
    return bytes_digest(text.encode(errors="surrogatepass"))


def bytes_digest(content: bytes) -> str:
    """Return 16 hex digits of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]
