"""Know a model's tokens the way constraints want them: by their bytes, and by their texts."""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import llguidance

from appliance.chat.tokenizer import Tokenizer

_MOST_SPELLED = 4096
WHITE = b" \t\n\r\f\v"
LINE_ENDS = b"\r\n"


class Vocabulary:
    """The tokens of a model that gives `size` logits; ids without a token stand for no bytes.

    What is expensive is made when it is first asked for. Any thread, after `read`.
    """

    # What llguidance asks of a tokenizer that is not one of its own kinds.
    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self.size = size
        self._spelled: dict[str | bytes, list[int]] = {}
        self._held_by: dict[bytes, list[int]] = {}
        self._towards: dict[bytes, list[int]] = {}
        self._surprising: dict[tuple[bytes, bool], bool] = {}
        self.eos_ids = sorted(number for number in tokenizer.eos_token_ids if number < size)

    @property
    def eos_token_id(self) -> int | None:
        """One of the end tokens, if there is any."""
        return next(iter(self.eos_ids), None)

    def __call__(self, text: str | bytes) -> list[int]:
        """Return the ids of a text. llguidance asks for what a grammar demands, and often again."""
        known = self._spelled.get(text)
        if known is None:
            if len(self._spelled) >= _MOST_SPELLED:
                self._spelled.clear()
            known = self._tokenizer.encode(text if isinstance(text, str) else text.decode())
            self._spelled[text] = known
        return known

    @cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of every token; a special one stands for its name."""
        return [self._tokenizer.token_bytes(number) for number in range(self.size)]

    @property
    def special_token_ids(self) -> list[int]:
        """The tokens that no text in a grammar means, only a reference to them."""
        special = self._tokenizer.special_ids.union(self.eos_ids)
        return sorted(number for number in special if number < self.size)

    @cached_property
    def backend(self) -> llguidance.LLTokenizer:
        """The same for llguidance; there must be an end token.

        It takes up to a second for a large vocabulary, with the interpreter lock held: this once,
        every stream of the model stands still.
        """
        wrapped: llguidance.TokenizerWrapper = self  # type: ignore[assignment]
        return llguidance.LLTokenizer(wrapped, eos_token=self.eos_ids)

    @cached_property
    def _by_first_byte(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number, text in enumerate(self.tokens):
            if text:
                found[text[0]].append(number)
        return dict(found)

    @cached_property
    def _added(self) -> dict[str, int]:
        added = self._tokenizer.added_tokens
        return {text: number for text, number in added.items() if text and number < self.size}

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        texts = sorted(self._added, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def read(self) -> None:
        """Make what there is to know of all tokens, for some hundred milliseconds."""
        _ = self._by_first_byte, self._added_pattern

    def token_bytes(self, number: int) -> bytes:
        """Return what one token stands for; in no need of the others."""
        return self._tokenizer.token_bytes(number)

    def hidden(self, shown: Sequence[str]) -> frozenset[int]:
        """Return the tokens that add nothing to the text of an answer in which these are shown."""
        return self._tokenizer.special_ids.difference(self._tokenizer.shown_tokens(shown))

    def beginning_with(self, text: bytes) -> list[int]:
        """Return the tokens that begin with a text that is not empty."""
        likely = self._by_first_byte.get(text[0], [])
        return [number for number in likely if self.tokens[number].startswith(text)]

    def meaning(self, text: bytes) -> list[int]:
        """Return the tokens that stand for exactly this."""
        return [number for number in self.beginning_with(text) if self.tokens[number] == text]

    def longest(self, text: bytes) -> list[int]:
        """Return the token, or tokens of equal bytes, that are as much as can be of a text's
        beginning."""
        ends = range(len(text), 0, -1)
        return next((found for end in ends if (found := self.meaning(text[:end]))), [])

    def going_beyond(self, mark: bytes, text: bytes, spared: bytes = WHITE) -> list[int]:
        """Return the tokens that complete a mark whose beginning `text` ends with, or hold all of
        one, and that go on behind it with other bytes than `spared`."""
        found = [each for each in self._holding(mark) if self._goes_beyond(each, mark, spared)]
        for cut in range(1, len(mark)):
            if text.endswith(mark[:cut]):
                found += self._completing(mark[cut:], spared)
        return found

    def going_towards(self, mark: bytes) -> list[int]:
        """Return the tokens that begin a mark or hold a whole one, white space aside."""
        known = self._towards.get(mark)
        if known is None:
            bare = mark.strip()
            texts = enumerate(text.strip() for text in self.tokens)
            known = [
                each for each, text in texts if text and (bare.startswith(text) or bare in text)
            ]
            self._towards[mark] = known
        return known

    def can_surprise(self, mark: bytes, *, is_free: bool) -> bool:
        """Say whether a mark may be there before it is seen to come.

        That is so if a token may hold the mark and what has to stand before it, which is nothing if
        it `is_free`; or if one may begin it in the same way, and the next one go on behind it.
        """
        known = self._surprising.get((mark, is_free))
        if known is None:
            known = self._surprising[mark, is_free] = self._find_surprise(mark, is_free)
        return known

    def _find_surprise(self, mark: bytes, is_free: bool) -> bool:
        whole = [self.tokens[number] for number in self._holding(mark)]
        if any(is_free or text.rstrip(LINE_ENDS) != mark for text in whole):
            return True
        shortest = 0 if is_free else 1
        return any(
            self._completing(mark[cut:], LINE_ENDS)
            and any(text.endswith(mark[:cut], shortest) for text in self.tokens)
            for cut in range(1, len(mark))
        )

    def _holding(self, mark: bytes) -> list[int]:
        """Return the tokens in which a whole mark stands."""
        known = self._held_by.get(mark)
        if known is None:
            known = [number for number, text in enumerate(self.tokens) if mark in text]
            self._held_by[mark] = known
        return known

    def _completing(self, rest: bytes, spared: bytes) -> list[int]:
        """Return the tokens that begin with the rest of a mark and go on behind it."""
        likely = self.beginning_with(rest)
        return [number for number in likely if self._goes_beyond(number, rest, spared)]

    def _goes_beyond(self, number: int, mark: bytes, spared: bytes) -> bool:
        return bool(self.tokens[number].partition(mark)[2].strip(spared))

    def split(self, mark: str) -> list[tuple[str, int | None]]:
        """Cut a mark into texts that are tokens of their own, with their ids, and plain text."""
        parts: list[tuple[str, int | None]] = []
        start = 0
        for found in self._added_pattern.finditer(mark):
            parts += [(mark[start : found.start()], None), (found[0], self._added[found[0]])]
            start = found.end()
        return [part for part in (*parts, (mark[start:], None)) if part[0]]

    def spell(self, mark: str) -> list[int]:
        """Return the tokens with which a mark is written."""
        spelled: list[int] = []
        for text, number in self.split(mark):
            spelled += self(text) if number is None else [number]
        return spelled
