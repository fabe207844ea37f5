"""Say what an answer may be, in the form that engines are bound by."""

import msgspec

ANY_TEXT = "/(?s:.*)/"
"""The body of a terminal that is any text."""


class Grammar(msgspec.Struct, frozen=True):
    """A grammar in llguidance's dialect of Lark, whole but for the rules of its marks.

    `lark` refers to `mark_0`, `mark_1` … for each of `marks`, texts such as `<tool_call>`, to
    `until_0`, … for any text up to and with that mark, and to `speech_0`, … for any that `speech`
    allows, the body of a terminal. Who has the tokenizer adds these rules, since a mark is a
    special token in one vocabulary and plain text in another. `param` is the field of the request
    that a refusal names.
    """

    lark: str
    marks: tuple[str, ...] = ()
    speech: str = ANY_TEXT
    param: str | None = None
