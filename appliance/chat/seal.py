"""Say how a thought travels through a client that keeps what it cannot read: packed, not secret."""

import base64
import binascii
import zlib

MAX_THOUGHT_BYTES = 4 * 1024 * 1024

_MARK = b"1"


def seal(thought: str) -> str:
    """Return a thought as short printable text (base64url of zlib); `unseal` gives it back.

    Never empty, so that a client that only keeps what is there keeps this too. Pure.
    """
    packed = _MARK + zlib.compress(thought.encode())
    return base64.urlsafe_b64encode(packed).decode()


def unseal(text: str) -> str | None:
    """Return the thought that `seal` packed, or None if `text` is not from there.

    Texts of other services are None too, and so is a thought of more than `MAX_THOUGHT_BYTES`,
    of which no more than that is ever unpacked. Pure.
    """
    try:
        packed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        if not packed.startswith(_MARK):
            return None
        inflater = zlib.decompressobj()
        thought = inflater.decompress(packed[len(_MARK) :], MAX_THOUGHT_BYTES)
        is_whole = inflater.eof and not inflater.unused_data
        return thought.decode() if is_whole else None
    except (UnicodeError, binascii.Error, zlib.error):
        return None
