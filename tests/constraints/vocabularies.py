"""A vocabulary of single bytes and a few marks, and matchers over it."""

import functools
import tempfile
from pathlib import Path

from llguidance import LLMatcher

from appliance.chat.grammar import Grammar
from appliance.chat.tokenizer import Tokenizer
from appliance.constraints.mark import complete
from appliance.constraints.thought import Marks, ThoughtWatch
from appliance.constraints.vocabulary import Vocabulary
from tests.chat.tiny import write_model

EOS = 257
CALL, END_THINK, THINK = 258, 259, 260
# Two more logits than there are tokens.
SIZE = 263


@functools.cache
def tiny_vocabulary() -> Vocabulary:
    marks = {"a": "<|call|>", "b": "</think>", "c": "<think>"}
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder), extra_special_tokens=marks)
        return Vocabulary(Tokenizer.load(path), SIZE)


def match(lark: str, *marks: str) -> LLMatcher:
    vocabulary = tiny_vocabulary()
    return LLMatcher(vocabulary.backend, complete(Grammar(lark, marks), vocabulary))


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
