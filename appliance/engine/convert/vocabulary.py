"""Answer which tokens a GGUF file has, of which kind, and which ids play a special part."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from appliance.engine.convert.metadata import Metadata
from appliance.errors import SourceError

SPACE = "\u2581"
"""What SentencePiece writes for a space."""


class TokenKind(IntEnum):
    """The values of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_SPECIAL = (TokenKind.UNKNOWN, TokenKind.CONTROL)
_ADDED = (*_SPECIAL, TokenKind.USER_DEFINED)
_ROLES = {
    "bos": "bos",
    "eos": "eos",
    "eot": "eot",
    "eom": "eom",
    "unk": "unknown",
    "pad": "padding",
    # The misspelling is the format's own.
    "sep": "seperator",
    "cls": "cls",
    "mask": "mask",
}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens in the order of their ids, each with its kind; `roles` maps bos, eos, … to ids."""

    tokens: list[str]
    kinds: list[int]
    roles: dict[str, int]

    def of_kind(self, *kinds: TokenKind) -> Iterator[tuple[int, str]]:
        """Yield id and text of the tokens of these kinds."""
        return (
            (number, token)
            for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind in kinds
        )

    def role(self, name: str) -> str | None:
        """Return the text of the token in this role, None where the file names none."""
        number = self.roles.get(name)
        return None if number is None else self.tokens[number]


def read_vocabulary(metadata: Metadata) -> Vocabulary:
    """Return the file's tokens; raises SourceError where they are missing or ambiguous."""
    tokens = metadata.texts("tokenizer.ggml.tokens")
    if len(set(tokens)) != len(tokens):
        raise SourceError(metadata.source, "its vocabulary holds a token twice")
    kinds = [int(TokenKind.NORMAL)] * len(tokens)
    if "tokenizer.ggml.token_type" in metadata:
        numbers = metadata.numbers("tokenizer.ggml.token_type", len(tokens))
        kinds = [int(number) for number in numbers]
    found = {
        role: metadata.token_id(f"tokenizer.ggml.{name}_token_id", len(tokens))
        for role, name in _ROLES.items()
    }
    roles = {role: number for role, number in found.items() if number is not None}
    return Vocabulary(tokens, kinds, roles)


def add_whole_tokens(tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    """Make `tokenizer` take control and user-defined tokens whole, wherever they stand."""
    tokenizer.add_tokens(
        [
            AddedToken(token, special=vocabulary.kinds[number] in _SPECIAL, normalized=False)
            for number, token in vocabulary.of_kind(*_ADDED)
        ]
    )


def frame(vocabulary: Vocabulary, before: str | None, after: str | None) -> TemplateProcessing:
    """Return the step that puts the tokens of these roles round a text, None = nothing there.

    A pair of texts is framed as BERT does it. Raises ValueError where such a token has a `:`.
    """
    first = [token for role in (before,) if role and (token := vocabulary.role(role))]
    last = [token for role in (after,) if role and (token := vocabulary.role(role))]
    return TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *last, "$B:1", *(f"{token}:1" for token in last)],
        special_tokens=[(token, vocabulary.tokens.index(token)) for token in {*first, *last}],
    )
