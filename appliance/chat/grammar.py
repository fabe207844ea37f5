"""Say what an answer may be, in the form that engines are bound by."""

import msgspec


class Grammar(msgspec.Struct, frozen=True):
    """A grammar in llguidance's dialect of Lark, whole but for the rules of its marks.

    `lark` refers to `mark_0`, `mark_1` … for each of `marks`, texts such as `<tool_call>`, and to
    `until_0`, … for any text up to and with that mark. Who has the tokenizer adds these rules,
    since a mark is a special token in one vocabulary and plain text in another. `param` is the
    field of the request that a refusal names.
    """

    lark: str
    marks: tuple[str, ...] = ()
    param: str | None = None
