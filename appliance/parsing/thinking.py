"""Count the tokens of an answer that are its thoughts, as whoever reads the answer takes them."""

import codecs

from appliance.parsing.format import AnswerFormat
from appliance.parsing.lexis import find_lexis
from appliance.parsing.parsed import Place, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox


class ThoughtCounter:
    """Follows one answer by the bytes of its tokens. One instance per answer; pure.

    A token counts if a thought was open when it came, or if more of it than line ends stands behind
    the mark that opens one. `num_thought` are those so far, `num_in_a_row` the thoughts since
    anything else was said. `opens_anywhere`: a mark that opens one does so wherever it stands.
    """

    def __init__(self, form: AnswerFormat, toolbox: Toolbox, *, begun: str = "") -> None:
        """`begun` is the mark with which the prompt ended; see AnswerParser."""
        self._parser = AnswerParser(form, toolbox, begun=begun)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._place = self._parser.place
        self.opens_anywhere = find_lexis(form, toolbox).thought_opening is None
        self.num_thought = 0
        self.num_in_a_row = int(self.is_open)

    @property
    def is_open(self) -> bool:
        """Say whether the next token is one of a thought, whatever it is."""
        return self._place in (Place.OPENED, Place.WITHIN)

    @property
    def may_open(self) -> bool:
        """Say whether a thought may begin here; else something has to be said before."""
        return self._place is Place.NEAR

    def push(self, token: bytes) -> None:
        """Take the next token."""
        text = self._decode(token)
        if self._parser.passes_text(text):
            self._place, self.num_in_a_row = Place.APART, 0
        else:
            self._read(text)

    def _read(self, text: str) -> None:
        was_open = self.is_open
        pieces = self._parser.feed(text)
        self._place = self._parser.place
        has_thought = any(isinstance(piece, Thought) for piece in pieces)
        if was_open or has_thought or self._place is Place.WITHIN:
            self.num_thought += 1
        if not all(isinstance(piece, Thought) for piece in pieces):
            self.num_in_a_row = 0
        if self.is_open and not was_open:
            self.num_in_a_row += 1
