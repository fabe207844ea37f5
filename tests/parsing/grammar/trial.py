"""Try a grammar on texts, and walk through it at random, with no model: tokens are bytes."""

import random
from functools import lru_cache
from typing import Literal

import numpy as np
from llguidance import LLMatcher

from appliance.chat.grammar import Grammar
from appliance.parsing.grammar.check import byte_tokenizer, spelled_out

Verdict = Literal["complete", "incomplete", "refused"]

_END = 256
_MANY = 100
_ENDS = (*b'"]}', _END)


def matcher_of(grammar: Grammar) -> LLMatcher:
    """Return what follows the grammar byte by byte; fails with llguidance's words if it is bad."""
    return _compiled(grammar).deep_copy()


@lru_cache(maxsize=8)
def _compiled(grammar: Grammar) -> LLMatcher:
    lark = LLMatcher.grammar_from_lark(spelled_out(grammar))
    matcher = LLMatcher(byte_tokenizer(), lark, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def judge(grammar: Grammar, text: str) -> Verdict:
    """Say whether the grammar allows a text as a whole, as the beginning of one, or not at all."""
    matcher = matcher_of(grammar)
    tokens = list(text.encode())
    if matcher.try_consume_tokens(tokens) < len(tokens):
        return "refused"
    return "complete" if matcher.is_accepting() else "incomplete"


def allowed_start(grammar: Grammar, text: str) -> str:
    """Return how much of a text the grammar allows: what stands behind it is the first mistake."""
    tokens = text.encode()
    size = matcher_of(grammar).try_consume_tokens(list(tokens))
    return tokens[:size].decode(errors="ignore")


def random_text(
    grammar: Grammar,
    seed: int,
    *,
    most_bytes: int = 4000,
    haste: float = 0.2,
    closings: tuple[str, ...] = (),
) -> str | None:
    """Return a text made of bytes drawn from those that the grammar allows at each step.

    `haste` is how often one that ends something is taken where there is one, or one of `closings`
    as a whole. None: the text has not ended within `most_bytes`. Fails where a step allows nothing.
    """
    draw = random.Random(seed)
    matcher = matcher_of(grammar)
    text = bytearray()
    while len(text) < most_bytes:
        choices = allowed_tokens(matcher)
        assert choices, f"nothing may follow {bytes(text)!r}"
        is_hasty = draw.random() < (0.5 if closings and len(choices) > _MANY else haste)
        ends = [token for token in _ENDS if token in choices] if is_hasty else []
        token = draw.choice(ends or choices)
        if token == _END:
            assert matcher.is_accepting(), f"nothing but the end may follow {bytes(text)!r}"
            return text.decode()
        if (
            is_hasty
            and not ends
            and (closing := _next_closing(matcher, draw.sample(closings, len(closings))))
        ):
            text += closing.encode()
            continue
        text.append(token)
        assert matcher.consume_token(token), matcher.get_error()
    return None


def _next_closing(matcher: LLMatcher, closings: list[str]) -> str:
    """Consume the first of the texts that is allowed as a whole and return it."""
    for closing in closings:
        tokens = list(closing.encode())
        if matcher.validate_tokens(tokens) == len(tokens):
            matcher.consume_tokens(tokens)
            return closing
    return ""


def allowed_tokens(matcher: LLMatcher) -> list[int]:
    """Return the bytes that may come next, and 256 if the text may end."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    tokens: list[int] = bits[: _END + 1].nonzero()[0].tolist()
    return tokens
