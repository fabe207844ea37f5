"""Notice when a text goes round in circles, and will not stop by itself. Pure."""

_LEAST_LENGTH = 1_500
"""Characters that repeat before it is no ruler, no row of zeros and no refrain any more."""
_LEAST_COPIES = 6
_LONGEST_PERIOD = 2_000
_STRIDE = 64
"""How many characters come between two looks; and how many are looked for further back."""
_MOST_PERIODS = 16
_REACH = _LONGEST_PERIOD * (_LEAST_COPIES + 1)


class RepetitionGuard:
    """Watch one text that comes in pieces. One instance per text.

    It has gone round in circles once it ends with six or more copies of the same up to 2,000
    characters, 1,500 characters in all. Rows, lines and objects that differ in a digit are no
    copies. Memory is bounded and time linear; how the text is split makes no difference.
    """

    def __init__(self) -> None:
        self._tail = self._unseen = ""
        self.is_tripped = False

    def push(self, text: str) -> bool:
        """Take more text, and say whether the whole has been going round in circles."""
        text, at = self._unseen + text, 0
        while not self.is_tripped and len(text) - at >= _STRIDE:
            self._tail = (self._tail + text[at : at + _STRIDE])[-_REACH:]
            self.is_tripped = _ends_in_circles(self._tail)
            at += _STRIDE
        self._unseen = text[at:] if not self.is_tripped else ""
        return self.is_tripped


def _ends_in_circles(text: str) -> bool:
    """Say whether the text's end is copies of one period: of the nearest that its last words fit.

    The last characters stand one period before their own place too, so that this is where to look;
    a few such places are tried, as a period may have the same words in it twice.
    """
    if len(text) < _LEAST_LENGTH:
        return False
    last = text[-_STRIDE:]
    start = len(text) - _STRIDE
    end = len(text) - 1
    for _ in range(_MOST_PERIODS):
        found = text.rfind(last, max(0, start - _LONGEST_PERIOD), end)
        if found < 0:
            return False
        period = start - found
        length = max(_LEAST_LENGTH, _LEAST_COPIES * period)
        if len(text) >= length and text[-length:-period] == text[period - length :]:
            return True
        end = found + _STRIDE - 1
    return False
