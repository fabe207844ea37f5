"""Join the parts of a message into one text that knows where its media stand; bound thoughts."""

from appliance.chat.request import Media, MediaKind
from appliance.chat.seal import MAX_THOUGHT_BYTES
from appliance.errors import InvalidRequest


class Content:
    """A message's text, whose parts become lines, and its media. Made and read by one caller."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._media: list[Media] = []
        self._length = 0

    def add_text(self, text: str) -> None:
        """Add a part of text."""
        self._length += len(text) + (1 if self._texts else 0)
        self._texts.append(text)

    def add_media(self, kind: MediaKind, url: str, place: str) -> None:
        """Add a part that stands where the text is now; `place` is its path in the body."""
        self._media.append(Media(kind, url, self._length, place))

    @property
    def text(self) -> str | None:
        """The text; None if no part had any."""
        return "\n".join(self._texts) if self._texts else None

    @property
    def media(self) -> tuple[Media, ...]:
        """The media, in their order."""
        return tuple(self._media)


def check_thoughts(num_chars: int, place: str) -> None:
    """Refuse thoughts of more characters than one may have bytes: little text unpacks to much.

    Raises InvalidRequest naming `place`, a path in the body.
    """
    if num_chars > MAX_THOUGHT_BYTES:
        raise InvalidRequest(f"{place}: the thoughts are too long.", param=place)


def file_url(data: str) -> str:
    """Return a file's content as a data URL; base64 alone is one of no known type."""
    return data if data.startswith("data:") else f"data:application/octet-stream;base64,{data}"
