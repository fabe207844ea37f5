"""Vocabularies of single bytes and a few marks, and matchers over them."""

import functools
import tempfile
from pathlib import Path
from typing import NamedTuple

from llguidance import LLMatcher

from appliance.chat.grammar import ANY_TEXT, Grammar
from appliance.chat.tokenizer import Tokenizer
from appliance.constraints.mark import complete
from appliance.constraints.thought import Marks, ThoughtWatch
from appliance.constraints.vocabulary import Vocabulary
from tests.chat.tiny import write_model

EOS = 257
CALL, END_THINK, THINK = 258, 259, 260
# Two more logits than there are tokens.
SIZE = 263
_FIRST_ADDED = 258


class Made(NamedTuple):
    """A vocabulary and what it was made of."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary


@functools.cache
def tiny_vocabulary() -> Vocabulary:
    marks = {"a": "<|call|>", "b": "</think>", "c": "<think>"}
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder), extra_special_tokens=marks)
        return Vocabulary(Tokenizer.load(path), SIZE)


@functools.cache
def made_vocabulary(special: tuple[str, ...] = (), plain: tuple[str, ...] = ()) -> Made:
    """Return single bytes and these tokens."""
    with tempfile.TemporaryDirectory() as folder:
        added = {
            str(_FIRST_ADDED + at): {"content": text, "special": at < len(special)}
            for at, text in enumerate((*special, *plain))
        }
        path = write_model(Path(folder), added_tokens_decoder=added)
        tokenizer = Tokenizer.load(path)
        return Made(tokenizer, Vocabulary(tokenizer, _FIRST_ADDED + len(added)))


def match(lark: str, *marks: str, speech: str = ANY_TEXT) -> LLMatcher:
    vocabulary = tiny_vocabulary()
    return LLMatcher(vocabulary.backend, complete(Grammar(lark, marks, speech), vocabulary))


def ids(text: str) -> list[int]:
    """Return the tokens of a text, marks as what they are."""
    return tiny_vocabulary().spell(text)


def watch(
    budget: int | None = None, *, is_open: bool = False, marks: str = "<think> </think>"
) -> ThoughtWatch:
    opening, closing = marks.split()
    spelled = tuple(ids(closing))
    return ThoughtWatch.begin(
        Marks(opening.encode(), closing.encode(), spelled), is_open=is_open, budget=budget
    )
