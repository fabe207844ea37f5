"""Write arguments that are literals of Python or Gemma as JSON, while they come. Pure."""

import json
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

from appliance.parsing.mark import mark_pattern, plain_text

_MOST_DEEP = 100
_LONGEST_WORD = 400
_SPACE = re.compile(r"\s*")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"} | {
    word: word for word in ("true", "false", "null")
}
_BEGUN_CONSTANTS = frozenset(word[:size] for word in _CONSTANTS for size in range(1, len(word) + 1))
_NUMERIC = re.compile(r"[-+.0-9eE]+")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?(?:0[xXoObB][0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?|(?=\.[0-9])\.)[0-9_]*(?:[eE][+-]?[0-9_]+)?")
_HEX = "[0-9a-fA-F]"
_NAME = r"\{[A-Za-z0-9 -]{0,90}"
_ESCAPE = re.compile(
    rf"\\(?:(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}}))"
    rf"|N({_NAME})\}}|([0-7]{{1,3}})|(\r\n|[^0-7]))",
    re.DOTALL,
)
_HALF_ESCAPE = re.compile(
    rf"\\(?:x{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|N(?:{_NAME})?|[0-7]{{0,2}}|\r)?\Z"
)
_ESCAPED = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_ESCAPED |= dict.fromkeys(("\n", "\r", "\r\n"), "")
_QUOTES = ("'''", '"""', "'", '"')


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of writing arguments, from behind their opening bracket on.

    `closing` ends them and one of `signs` stands between a name and its value. `raw_quotes` stand
    round text in which a backslash is one, beside Python's quotes. With `has_bare_text` what is no
    other literal is a text that stands for itself, and names in objects have no quotes.
    `brackets` are those that open a value.
    """

    closing: str
    signs: str
    raw_quotes: tuple[str, ...] = ()
    has_bare_text: bool = False
    brackets: str = "[{("


PYTHON = Dialect(")", "=")
"""Arguments of a call in Python, all of them named."""


class _Place(Enum):
    ELEMENT = auto()
    """A name or a value begins, or the innermost bracket ends."""
    SIGN = auto()
    VALUE = auto()
    BEHIND_TEXT = auto()
    """More text in quotes belongs to the same value."""
    NEXT = auto()
    """A comma follows, or the innermost bracket ends."""


@dataclass(slots=True)
class _Frame:
    """An open bracket. `signs`: what stands behind names in it; a list has none.

    `outer`, in round brackets, is what was written before them.
    """

    closing: str
    signs: str = ""
    num_elements: int = 0
    num_commas: int = 0
    outer: list[str] | None = None


class LiteralReader:
    """Reads the arguments of one call. `taken` is what the last `read` added to their JSON text.

    It stops where the arguments end (`is_done`), or at what cannot belong to them (`is_broken`).
    Texts are written while they come, other values at their end, those in round brackets at the
    end of these, since they alone do not say whether they are a list. As in JSON, a name may come
    again. A line end in a string is one, and so is a backslash that escapes nothing; an
    apostrophe with a letter behind it ends none. What has no counterpart in JSON is broken.
    """

    def __init__(self, dialect: Dialect, first: str | None = None) -> None:
        """`first` is the name of a first argument that comes without one."""
        self.taken = ""
        self.is_done = False
        self.is_broken = False
        self._dialect = dialect
        self._words = _words(dialect)
        self._opening_quote = _opening_quote(dialect.raw_quotes)
        self._frames = [_Frame(dialect.closing, dialect.signs)]
        self._place = _Place.ELEMENT
        self._behind_text = _Place.NEXT
        self._quote = ""
        self._is_in_bare_text = False
        self._space: list[str] = []
        """White space in a bare text, which may be behind it."""
        self._certain = ["{"]
        self._written = self._certain
        if first is not None:
            self._begin_element()
            self._written += [json.dumps(first), ":"]
            self._place = _Place.VALUE

    def passes(self, text: str) -> bool:
        """Say whether all of `text` is more of the JSON text, as it stands."""
        is_certain = self._quote != "" and self._written is self._certain
        return is_certain and plain_text(self._quote).match(text) is not None

    def read(self, text: str, at: int) -> int:
        """Read on from `at` and return how far it came; what is left is wanted again, with more."""
        before = -1
        while before < at < len(text) and not self.is_done and not self.is_broken:
            before = at
            if self._quote:
                at = self._read_string(text, at)
            elif self._is_in_bare_text:
                at = self._read_bare_text(text, at)
            else:
                at = self._read_token(text, at)
        self.taken = "".join(self._certain)
        self._certain.clear()
        return at

    # --- in a string ---

    def _read_string(self, text: str, at: int) -> int:
        found = _string_mark(self._quote, self._quote in _QUOTES).search(text, at)
        start = found.start() if found else len(text)
        if start > at:
            self._written.append(json.dumps(text[at:start], ensure_ascii=False)[1:-1])
        if found is None:
            return start
        if found[0] == "\\":
            return self._read_escape(text, start)
        return self._read_quote(found[0], text, start)

    def _read_escape(self, text: str, at: int) -> int:
        found = None if _HALF_ESCAPE.match(text, at) else _ESCAPE.match(text, at)
        if found is None:
            return at
        plain = _unescape(found)
        # Halves of a pair stay escapes, which one behind the other are one character in JSON.
        is_half = "\ud800" <= plain <= "\udfff"
        self._written.append(json.dumps(plain, ensure_ascii=is_half)[1:-1])
        return found.end()

    def _read_quote(self, mark: str, text: str, at: int) -> int:
        end = at + len(mark)
        if mark != self._quote or (mark == "'" and end == len(text)):
            return at
        if mark == "'" and (text[end].isalnum() or text[end] == "_"):
            self._written.append(mark)
        else:
            self._quote = ""
            self._place = _Place.BEHIND_TEXT
        return end

    # --- outside of strings ---

    def _read_token(self, text: str, at: int) -> int:
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        quote = self._find_quote(text, at)
        if at == len(text) or quote is None:
            return at
        if quote:
            return self._open_string(quote, at)
        if self._place is _Place.BEHIND_TEXT:
            self._written.append('"')
            self._place = self._behind_text
        if self._place in (_Place.SIGN, _Place.NEXT):
            self.is_broken = not self._punctuate(text[at])
        elif text[at] in self._dialect.brackets:
            self.is_broken = not self._open(text[at])
        elif text[at] == self._frames[-1].closing and self._place is _Place.ELEMENT:
            self._close()
        else:
            return self._read_word(text, at)
        return at if self.is_broken else at + 1

    def _find_quote(self, text: str, at: int) -> str | None:
        """Return the opening quote at `at`, "" if there is none; None if more may make it one."""
        found = self._opening_quote.match(text, at)
        return found[1] if found else ""

    def _open_string(self, quote: str, at: int) -> int:
        is_name = self._expects_name
        if self._place is not _Place.BEHIND_TEXT:
            if self._place in (_Place.SIGN, _Place.NEXT) or (is_name and self._is_call):
                self.is_broken = True
                return at
            self._begin_element()
            self._written.append('"')
            self._behind_text = _Place.SIGN if is_name else _Place.NEXT
        self._quote = quote
        return at + len(quote)

    @property
    def _expects_name(self) -> bool:
        return self._place is _Place.ELEMENT and bool(self._frames[-1].signs)

    @property
    def _is_call(self) -> bool:
        """Say whether names here are those of Python's arguments."""
        return self._frames[-1].signs == PYTHON.signs

    def _begin_element(self) -> None:
        if self._place is _Place.ELEMENT:
            frame = self._frames[-1]
            if frame.num_elements:
                self._written.append(",")
            frame.num_elements += 1

    def _punctuate(self, mark: str) -> bool:
        """Take a mark between names, values and brackets; say whether it may stand here."""
        frame = self._frames[-1]
        if self._place is _Place.SIGN and mark in frame.signs:
            self._written.append(":")
            self._place = _Place.VALUE
        elif self._place is _Place.NEXT and mark == ",":
            frame.num_commas += 1
            self._place = _Place.ELEMENT
        elif self._place is _Place.NEXT and mark == frame.closing:
            self._close()
        else:
            return False
        return True

    def _open(self, bracket: str) -> bool:
        if self._expects_name or len(self._frames) == _MOST_DEEP:
            return False
        self._begin_element()
        if bracket == "(":
            self._frames.append(_Frame(")", outer=self._written))
            self._written = []
        else:
            self._frames.append(_Frame("}", ":") if bracket == "{" else _Frame("]"))
            self._written.append(bracket)
        self._place = _Place.ELEMENT
        return True

    def _close(self) -> None:
        frame = self._frames.pop()
        self._place = _Place.NEXT
        self.is_done = not self._frames
        if frame.outer is None:
            self._written.append("}" if frame.signs else "]")
            return
        inner, self._written = self._written, frame.outer
        is_list = frame.num_commas or not frame.num_elements
        self._written += ["[", *inner, "]"] if is_list else inner

    def _read_word(self, text: str, at: int) -> int:
        is_name = self._expects_name
        found = self._words[is_name].match(text, at, at + _LONGEST_WORD)
        if found is not None and not is_name and self._is_bare_text(found[0]):
            self._begin_element()
            self._written.append('"')
            self._is_in_bare_text = True
            return self._read_bare_text(text, at)
        if found is not None and found.end() == len(text) < at + _LONGEST_WORD:
            return at
        word = found[0].rstrip() if found and len(found[0]) < _LONGEST_WORD else ""
        written = self._write_name(word) if is_name else self._write_value(word)
        if not word or written is None:
            self.is_broken = True
            return at
        self._begin_element()
        self._written.append(written)
        self._place = _Place.SIGN if is_name else _Place.NEXT
        return at + len(word)

    def _is_bare_text(self, begun: str) -> bool:
        """Say whether a value that begins so can be nothing else."""
        word = begun.rstrip()
        is_other = word in _BEGUN_CONSTANTS or _NUMERIC.fullmatch(word) is not None
        return self._dialect.has_bare_text and (len(begun) == _LONGEST_WORD or not is_other)

    def _read_bare_text(self, text: str, at: int) -> int:
        found = self._words[False].match(text, at)
        end = found.end() if found else at
        solid = text[at:end].rstrip()
        if solid:
            said = "".join(self._space) + solid
            self._written.append(json.dumps(said, ensure_ascii=False)[1:-1])
            self._space.clear()
        self._space.append(text[at + len(solid) : end])
        if end == len(text):
            return end
        self._written.append('"')
        self._space.clear()
        self._is_in_bare_text = False
        self._place = _Place.NEXT
        return self._read_token(text, end)

    def _write_name(self, word: str) -> str | None:
        if self._is_call or self._dialect.has_bare_text:
            return json.dumps(word, ensure_ascii=False)
        value = self._write_value(word)
        return None if value is None else f'"{value}"'

    def _write_value(self, word: str) -> str | None:
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if _JSON_NUMBER.fullmatch(word):
            return word
        if self._dialect.has_bare_text:
            return json.dumps(word, ensure_ascii=False)
        return _write_number(word)


@cache
def _words(dialect: Dialect) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what a value without brackets and quotes may be, and a name."""
    if not dialect.has_bare_text:
        word = re.compile(r"""[^\s,:=()\[\]{}'"]+""")
        return word, word
    ends = re.escape(",{}[]" + ("()" if "(" in dialect.brackets else ""))
    return re.compile(f"[^{ends}]+"), re.compile(f"[^{ends}{re.escape(dialect.signs)}:]+")


@cache
def _opening_quote(raw_quotes: tuple[str, ...]) -> re.Pattern[str]:
    """Return what a quote is, in its group, unless what there is of the text may be a longer one.

    Not `mark_pattern`: some of these are the beginnings of others.
    """
    quotes = (*raw_quotes, *_QUOTES)
    starts = {quote[:size] for quote in quotes for size in range(1, len(quote))}
    halves, wholes = ("|".join(map(re.escape, texts)) for texts in (starts, quotes))
    return re.compile(rf"(?:{halves})\Z|({wholes})")


@cache
def _string_mark(quote: str, has_escapes: bool) -> re.Pattern[str]:
    return re.compile(mark_pattern(quote) + (r"|\\" if has_escapes else ""))


def _unescape(found: re.Match[str]) -> str:
    """Return what an escape means; one that Python does not know means itself."""
    code = found[1] or found[2] or found[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else found[0]
    if found[4]:
        try:
            return unicodedata.lookup(found[4][1:])
        except KeyError:
            return found[0]
    return chr(int(found[5], 8)) if found[5] else _ESCAPED.get(found[6], found[0])


def _write_number(word: str) -> str | None:
    """Return a number as JSON has it; None if it is none, or none that JSON has."""
    try:
        if _INTEGER.fullmatch(word):
            return str(int(word, 0))
        if _FLOAT.fullmatch(word):
            return json.dumps(float(word), allow_nan=False)
    except ValueError:
        pass
    return None
