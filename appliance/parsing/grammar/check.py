"""Say whether llguidance can follow a grammar, by following it over bytes. Pure.

A model's vocabulary is not needed for that: what is wrong with a grammar is wrong for bytes too.
"""

import re
from functools import cache, lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from appliance.chat.grammar import ANY_TEXT, Grammar
from appliance.errors import InvalidRequest
from appliance.parsing.grammar.rules import Rules

_MOST_COMPLAINT = 160
_END = 256
_LIMITS = LLParserLimits(initial_lexer_fuel=200_000)
"""A fifth of what an engine may spend: what is too much is found out soon, and before it runs."""
_LINE = re.compile(r"(?:at )?(\d+)\(\d+\): ")
_PREFIXES = re.compile(
    r"(?:(?:at )?\d+\(\d+\): |failed to compile JSON schema: |Unsatisfiable schema: "
    r'|invalid regex ".*" \(in \w+\): )+'
)
_REASON = re.compile(r"^error: (.+)", re.MULTILINE)


class _Bytes:
    """A vocabulary of the 256 bytes and an end token, as llguidance wants to see it."""

    eos_token_id = _END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (_END,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@cache
def byte_tokenizer() -> LLTokenizer:
    """Return a tokenizer whose tokens are the bytes, and 256 the end."""
    return LLTokenizer(TokenizerWrapper(_Bytes()))


def spelled_out(grammar: Grammar) -> str:
    """Return the whole grammar for a model in whose vocabulary no mark is a special token."""
    rules = Rules()
    lines = [grammar.lark]
    for number, mark in enumerate(grammar.marks):
        text = rules.text(mark)
        lines += [f"mark_{number}: {text}", f"until_{number}[suffix={text}]: {ANY_TEXT}"]
        lines.append(f"speech_{number}[suffix={text}]: {grammar.speech}")
    return "\n".join(lines)


def check_grammar(grammar: Grammar, param: str | None = None) -> None:
    """Raise InvalidRequest, which names `param`, if no engine could be bound by the grammar.

    It is compiled and two steps done, which takes 1 to 30 ms, for the largest that there can
    be a second; the interpreter's lock is free meanwhile, so call it in a thread. Some that were
    fine are remembered.
    """
    complaint = _complaint_of(grammar)
    if complaint:
        raise InvalidRequest(f"The answer cannot be bound so: {complaint}.", param=param)


@lru_cache(64)
def _complaint_of(grammar: Grammar) -> str:
    return find_complaint(spelled_out(grammar))


def find_complaint(lark: str, *, has_lines: bool = False) -> str:
    """Return what is wrong with a whole grammar in one line; "" if nothing is. Any thread.

    With `has_lines` it begins with the number of the line that is meant.
    """
    text = LLMatcher.grammar_from_lark(lark)
    matcher = LLMatcher(byte_tokenizer(), text, log_level=0, limits=_LIMITS)
    if not matcher.is_error():
        allowed = matcher.compute_bitmask()
        if matcher.is_stopped() and not matcher.is_accepting():
            return "there is no text that it allows"
        # That a step took too much is said at the next one.
        mask = int.from_bytes(allowed, "little")
        matcher.consume_token((mask & -mask).bit_length() - 1)
        if not matcher.is_stopped():
            matcher.compute_bitmask()
    return _gist(matcher.get_error(), has_lines=has_lines) if matcher.is_error() else ""


def _gist(complaint: str, *, has_lines: bool) -> str:
    line = _LINE.match(complaint)
    reason = _REASON.search(complaint)
    gist = reason[1] if reason else _PREFIXES.sub("", complaint, count=1).partition("\n")[0]
    where = f"line {line[1]}: " if line and has_lines else ""
    return where + gist[:_MOST_COMPLAINT].strip(" .:")
