"""Turn text into token ids and ids into text, as the model's tokenizer.json says.

The only files that import `tokenizers` are this one and what runs outside the gateway.
The file formats are those that transformers writes and documents under "Tokenizer".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from appliance.chat.folder import read_object
from appliance.chat.infill import Infill, find_infill
from appliance.errors import InvalidRequest, SourceError

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MOST_HELD = 16
_LARGEST_ID = 2**32 - 1
_PIECE_CHARACTERS = 2**16
# A cut may fall into a token, even one like `<|im_start|>`, and so make several of it.
_TOKENS_PER_CUT = 64
_NEIGHBOUR = "a"
_BYTE_LEVEL_SPACE = "Ġ"
_BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")


def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter of byte-level vocabularies stands for.

    Printable bytes stand for themselves in Latin-1, the others have the letters from U+0100 on in
    their order (GPT-2's encoder.py, "bytes_to_unicode").
    """
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    own = {letter: ord(letter) for letter in letters if ord(letter) < 256}
    others = sorted(set(range(256)) - set(own.values()))
    return own | dict(zip(letters[len(own) :], others, strict=True))


_BYTES = _byte_letters()


class Tokenizer:
    """A model's tokenizer. Never changes once loaded; every method may be called from any thread.

    `special_tokens` maps names such as `bos_token` to their text, as templates want them;
    `eos_token_ids` are the ids that end an answer. `added_tokens` maps the texts that are never
    split to their ids; those in `special_ids` are no part of an answer's text.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special_tokens: dict[str, str],
        eos_token_ids: frozenset[int],
    ) -> None:
        self._backend = backend
        self.special_tokens = special_tokens
        self.eos_token_ids = eos_token_ids
        added = backend.get_added_tokens_decoder()
        self.added_tokens = {token.content: number for number, token in added.items()}
        self.special_ids = frozenset(number for number, token in added.items() if token.special)
        self._token_bytes: dict[int, bytes] = {}
        self._is_byte_level = self._piece_text(_BYTE_LEVEL_SPACE) == " "
        self._has_byte_fallback = self._piece_text("<0x41>") == "A"

    @classmethod
    def load(cls, directory: Path) -> "Tokenizer":
        """Read the tokenizer in a model's folder; raises SourceError naming the file at fault.

        Holds the interpreter lock for as long as parsing takes: seconds for a large vocabulary.
        """
        path = directory / "tokenizer_config.json"
        config = read_object(path)
        legacy: dict[str, Any] = {}
        if "added_tokens_decoder" not in config:
            # Folders written before that key existed keep these two files beside the config.
            config |= read_object(directory / "special_tokens_map.json")
            legacy = read_object(directory / "added_tokens.json")
        special_tokens = _special_tokens(config)
        backend = _read_backend(directory / "tokenizer.json")
        try:
            backend.add_tokens(_added_tokens(config, legacy, special_tokens))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SourceError(str(path), f"its added tokens are malformed: {error!r}") from error
        backend.add_tokens(_missing_tokens(backend, config, special_tokens))
        return cls(backend, special_tokens, _eos_token_ids(directory, backend, special_tokens))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of `text`; releases the interpreter lock while it works.

        Raises InvalidRequest if `text` cannot be written as UTF-8.
        """
        try:
            # `encode` would hold the lock, `encode_batch_fast` does not.
            batch = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        except TypeError as error:
            raise InvalidRequest("The messages hold text that is not valid Unicode.") from error
        ids: list[int] = batch[0].ids
        return ids

    def lower_bounds(self, text: str) -> Iterator[int]:
        """Yield ever better lower bounds of how many ids `text` has, with bounded work for each.

        The first reads only the length of `text`. Assumes that the tokenizer drops no text.
        """
        yield -(-len(text) // self._longest)
        count = 0
        for start in range(0, len(text), _PIECE_CHARACTERS):
            ids = self.encode(text[start : start + _PIECE_CHARACTERS])
            count += len(ids) - _TOKENS_PER_CUT
            yield count

    @cached_property
    def _longest(self) -> int:
        """The most characters of text that one token stands for."""
        return max((len(token) for token in self._backend.get_vocab()), default=1) or 1

    @cached_property
    def infill(self) -> Infill | None:
        """How the model is asked for what stands between two texts; None if it cannot be."""
        return find_infill(lambda token: self._backend.token_to_id(token) is not None)

    def decode(self, ids: Sequence[int], *, keeps_special: bool = False) -> str:
        """Return the text of `ids`, by default without special tokens; unknown ids have none."""
        text: str = self._backend.decode(ids, skip_special_tokens=not keeps_special)
        return text

    def is_token(self, number: int) -> bool:
        """Say whether there is a token of this id."""
        if not 0 <= number <= _LARGEST_ID:
            return False
        return self._backend.id_to_token(number) is not None

    def token_bytes(self, number: int) -> bytes:
        """Return what one token stands for: bytes of an unfinished character, too.

        The bytes of an answer's tokens, one after the other, are its text, but for what depends on
        the neighbours, such as a space that falls away at the start. A special token stands for
        its name, though `decode` leaves it out; an unknown id for nothing.
        """
        known = self._token_bytes.get(number)
        if known is None:
            known = self._token_bytes[number] = self._find_bytes(number)
        return known

    def _find_bytes(self, number: int) -> bytes:
        piece: str | None = self._backend.id_to_token(number)
        if piece is None:
            return b""
        if number in self.special_ids:
            return piece.encode()
        if self._is_byte_level:
            try:
                return bytes([_BYTES[letter] for letter in piece])
            except KeyError:  # an added token, which is plain text
                return piece.encode()
        if self._has_byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        return self._piece_text(piece).encode()

    def _piece_text(self, piece: str) -> str:
        """Return what a piece adds to a text that it does not begin."""
        decoder = self._backend.decoder
        if decoder is None:
            return f" {piece}"
        before: str = decoder.decode([_NEIGHBOUR])
        text: str = decoder.decode([_NEIGHBOUR, piece])
        return text[len(before) :]

    def decoder(self, shown: Sequence[str] = ()) -> "TextDecoder":
        """Return a decoder for one answer's ids, as they come.

        Special tokens that stand in one of the texts `shown` are then text like any other.
        """
        return TextDecoder(self, self.shown_tokens(shown))

    def shown_tokens(self, shown: Sequence[str]) -> dict[int, str]:
        """Return the special tokens that stand in one of these texts, with their own."""
        return {
            number: text
            for text, number in self.added_tokens.items()
            if number in self.special_ids and any(text in mark for mark in shown)
        }


class TextDecoder:
    """Decode one answer piece by piece: all pieces together are `decode` of all ids.

    Only that the special tokens in `kept`, which maps them to their texts, are in it too.
    A piece never ends inside a character. Belongs to one thread.
    """

    def __init__(self, tokenizer: Tokenizer, kept: dict[int, str]) -> None:
        self._tokenizer = tokenizer
        self._kept = kept
        # Some decoders join a token with what stands before it, so each is decoded behind the
        # ids that gave the last piece of text.
        self._context: list[int] = []
        self._context_text = ""
        self._held: list[int] = []
        self._released = 0

    @property
    def position(self) -> int:
        """Where the text of the next id will begin: characters of the whole text before it.

        Behind an unfinished character that is where this character begins.
        """
        if not self._held:
            return self._released
        return self._released + len(self._text(self._held).rstrip(_REPLACEMENT))

    def push(self, ids: Iterable[int]) -> str:
        """Add ids and return the text that is now certain, possibly none."""
        return "".join(self._add(number) for number in ids)

    def flush(self) -> str:
        """Return the text still held; what stays incomplete reads as replacement characters."""
        text = self._text(self._held)
        return self._release(len(self._held), text)

    def _add(self, number: int) -> str:
        if number in self._tokenizer.special_ids:
            return self._keep(self._kept.get(number, ""))
        self._held.append(number)
        text = self._text(self._held)
        if text and not text.endswith(_REPLACEMENT):
            return self._release(len(self._held), text)
        if len(self._held) > _MOST_HELD:
            return self._settle(text)
        return ""

    def _keep(self, mark: str) -> str:
        """Return what a special token adds: as it stands, whatever decoders make of its letters."""
        if not mark:
            return ""
        text = self.flush() + mark
        self._released += len(mark)
        return text

    def _text(self, ids: list[int]) -> str:
        joined = self._tokenizer.decode(self._context + ids)
        if joined.startswith(self._context_text):
            return joined[len(self._context_text) :]
        # Half a character may spoil its whole neighbourhood until the other half comes.
        return self._tokenizer.decode(ids)

    def _settle(self, text: str) -> str:
        """Give up ids that are no characters, but not the last, which may still begin one."""
        for split in range(len(self._held) - 1, 0, -1):
            head = self._text(self._held[:split])
            tail = self._tokenizer.decode(self._held[split:])
            if tail and head + tail == text:
                return self._release(split, head)
        return self._release(len(self._held), text)

    def _release(self, count: int, text: str) -> str:
        if text:
            self._context = self._held[:count]
            self._context_text = self._tokenizer.decode(self._context)
        del self._held[:count]
        self._released += len(text)
        return text


def _read_backend(path: Path) -> tokenizers.Tokenizer:
    if not path.is_file():
        raise SourceError(str(path), "does not exist")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise SourceError(str(path), f"is not a tokenizer: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Return the named special tokens as text, whether the file has them as text or as objects."""
    extra = config.get("extra_special_tokens")
    named = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {
        name: _token_text(value)
        for name, value in (named | extra if isinstance(extra, dict) else named).items()
    }
    # Beside tokens, such files hold switches like add_bos_token.
    return {name: text for name, text in texts.items() if text is not None}


def _token_text(value: object) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _missing_tokens(
    backend: tokenizers.Tokenizer, config: dict[str, Any], special_tokens: dict[str, str]
) -> list[tokenizers.AddedToken]:
    """Return the special tokens that tokenizer.json does not know as such."""
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens")
    unnamed = [_token_text(value) for value in extra] if isinstance(extra, list) else []
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    return [
        tokenizers.AddedToken(text, special=True)
        for text in dict.fromkeys([*special_tokens.values(), *unnamed])
        if text is not None and text not in known
    ]


def _added_tokens(
    config: dict[str, Any], legacy: dict[str, Any], special_tokens: dict[str, str]
) -> list[tokenizers.AddedToken]:
    """Return the tokens that must never be split, in the order of their ids."""
    special = set(special_tokens.values())
    decoder = config.get("added_tokens_decoder", {})
    tokens = [
        tokenizers.AddedToken(
            entry["content"],
            single_word=entry.get("single_word", False),
            lstrip=entry.get("lstrip", False),
            rstrip=entry.get("rstrip", False),
            normalized=entry.get("normalized", not entry.get("special", False)),
            special=entry.get("special", False) or entry["content"] in special,
        )
        for _, entry in sorted(decoder.items(), key=lambda item: int(item[0]))
    ]
    for text, _ in sorted(legacy.items(), key=lambda item: int(item[1])):
        is_special = text in special
        tokens.append(tokenizers.AddedToken(text, normalized=not is_special, special=is_special))
    return tokens


def _eos_token_ids(
    directory: Path, backend: tokenizers.Tokenizer, special_tokens: dict[str, str]
) -> frozenset[int]:
    config = read_object(directory / "config.json")
    text_config = config.get("text_config")
    found: list[Any] = []
    for section in (read_object(directory / "generation_config.json"), config, text_config):
        value = section.get("eos_token_id") if isinstance(section, dict) else None
        found += value if isinstance(value, list) else [value]
    if "eos_token" in special_tokens:
        found.append(backend.token_to_id(special_tokens["eos_token"]))
    return frozenset(number for number in found if isinstance(number, int))
