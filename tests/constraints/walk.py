"""Write answers token by token under a budget of thought, and read them as the gateway does."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.chat.request import Tool
from appliance.constraints.budget import BudgetGuide
from appliance.constraints.mask import MaskFiller
from appliance.constraints.thought import Marks
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat, ThoughtFormat
from appliance.parsing.parsed import CallArguments, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.thinking import ThoughtCounter
from appliance.parsing.toolbox import Toolbox
from tests.constraints.vocabularies import EOS, Made, made_vocabulary

TOOLS = Toolbox([Tool("f", parameters={"type": "object", "properties": {"a": {"type": "string"}}})])
WORD = "Z"
"""A word of thought, which no mark has."""
HEADER = "<|start|>assistant"
"""What a prompt ends with, and another message begins with, in families with headers."""
FORMATS = list(
    {
        thought: AnswerFormat(name, name if name in CALLS else "hermes")
        for name, thought in THOUGHTS.items()
        if thought is not None
    }.values()
)
"""Every way to write thoughts, with one to write calls."""

Vocabulary = Callable[[ThoughtFormat], Made]

_ALL = np.uint32(0xFFFFFFFF)
_IN_BRACKETS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")


def whole(marks: ThoughtFormat) -> Made:
    """Return a vocabulary in which either mark is one token."""
    return made_vocabulary((marks.opening, marks.closing))


def parts(marks: ThoughtFormat) -> Made:
    """Return a vocabulary in which what stands in brackets is a token, but no opening is."""
    found = dict.fromkeys(_IN_BRACKETS.findall(marks.opening + marks.closing))
    return made_vocabulary(tuple(part for part in found if part != marks.opening))


def letters(marks: ThoughtFormat) -> Made:
    """Return a vocabulary of bytes."""
    del marks
    return made_vocabulary()


def overlapping(marks: ThoughtFormat) -> Made:
    """Return a vocabulary with tokens that hold parts of marks and of what stands beside them."""
    opening, closing = marks.opening, marks.closing
    cuts = [opening[:3], f"{opening[3:]}\n", f"{opening[3:]}{WORD}", f"{opening[-1]}{WORD}"]
    wider = [f"{opening}{WORD}", f"a\n{opening}", f"\n{opening[:3]}", f"\n{opening}\n"]
    ends = [closing[:2], f"{closing[2:]}a", f"{WORD}{closing}", f"{closing}\n{opening}"]
    return made_vocabulary(plain=tuple(dict.fromkeys((*cuts, *wider, *ends))))


VOCABULARIES: list[Vocabulary] = [whole, parts, letters, overlapping]


@dataclass(frozen=True)
class Answer:
    """What is read in an answer."""

    content: str
    thought: str
    arguments: str
    num_thought: int


class Walk:
    """One answer of a form, as the model writes it that has such a vocabulary."""

    def __init__(
        self,
        form: AnswerFormat,
        vocabulary: Vocabulary,
        budget: int,
        tail: str = HEADER,
    ) -> None:
        """`tail` is how the prompt ends."""
        assert form.thought is not None
        made = vocabulary(form.thought)
        self.tokenizer, self.vocabulary = made.tokenizer, made.vocabulary
        self.form, self.begun = form, form.begun(tail)
        self.marks = form.thought
        self.counter = ThoughtCounter(form, TOOLS, begun=self.begun)
        closing_ids = tuple(self.vocabulary.spell(self.marks.closing))
        self.guide = BudgetGuide(
            self.vocabulary,
            self.counter,
            Marks(self.marks.opening.encode(), self.marks.closing.encode(), closing_ids),
            budget=budget,
            ends=frozenset([EOS]),
            hidden=self.vocabulary.hidden(form.marks()),
        )
        self.tokens: list[int] = []
        self._filler = MaskFiller(self.vocabulary.size)
        self._any = np.ones(self.vocabulary.size, np.uint8)
        self._could_wait = False

    def allowed(self) -> NDArray[np.uint8]:
        """Say of every token whether it may come next."""
        (words,) = self._filler.fill([self.guide])
        if (words == _ALL).all():
            return self._any
        assert not self._could_wait
        return np.unpackbits(words.view(np.uint8), bitorder="little")[: self.vocabulary.size]

    def take(self, token: int) -> None:
        """Go on with a token."""
        self._could_wait = self.guide.can_wait
        assert not self.guide.take(token)
        self.tokens.append(token)

    def write(self, text: str) -> list[bool]:
        """Go on with a text; say of each of its tokens whether any could have come."""
        was_free = []
        for token in self.vocabulary.spell(text):
            allowed = self.allowed()
            assert allowed[token]
            was_free.append(bool(allowed.all()))
            self.take(token)
        return was_free

    def forced(self) -> str:
        """Go on with all that must come, and return it."""
        begin = len(self.tokens)
        while (allowed := self.allowed()).sum() == 1:
            self.take(int(allowed.argmax()))
        return self.tokenizer.decode(self.tokens[begin:], keeps_special=True)

    def read(self) -> Answer:
        """Read what came, and count the tokens of which something is in a thought."""
        parser = AnswerParser(self.form, TOOLS, begun=self.begun)
        decoder = self.tokenizer.decoder(self.form.marks())
        texts = [decoder.push([token]) for token in self.tokens]
        pieces = [piece for text in texts for piece in parser.feed(text)] + parser.end()
        thoughts = [piece for piece in pieces if isinstance(piece, Thought)]
        inside = {each.at + at for each in thoughts for at in range(len(each.text))}
        ends = np.cumsum([len(text) for text in texts]).tolist()
        spans = (range(end - len(text), end) for text, end in zip(texts, ends, strict=True))
        return Answer(
            "".join(piece.text for piece in pieces if isinstance(piece, Text)),
            "".join(piece.text for piece in thoughts),
            "".join(piece.text for piece in pieces if isinstance(piece, CallArguments)),
            sum(not inside.isdisjoint(span) for span in spans),
        )
