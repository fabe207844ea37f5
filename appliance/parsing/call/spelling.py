"""Spell what a family writes round the parts of a call. Pure."""

import re

from appliance.parsing.grammar.rules import Rules

_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
_MARK_SIGNS = frozenset("<[]")


class Id(str):
    """A regular expression for what the model makes up, such as the number of a call."""


def edges(literal: str) -> tuple[str, str, str]:
    """Return the white space before a template's literal, what is in it, and that behind it."""
    found = _EDGES.fullmatch(literal)
    return (found[1], found[2], found[3]) if found else ("", literal, "")


def spell(rules: Rules, *parts: str) -> str:
    """Return what stands for parts in a row, each a text, a mark or an Id; they may be empty.

    What has angle or square brackets is a mark, which may be a token of the model.
    """
    words = []
    text = ""
    for part in parts:
        before, core, behind = ("", part, "") if isinstance(part, Id) else edges(part)
        if not isinstance(part, Id) and _MARK_SIGNS.isdisjoint(core):
            text += part
            continue
        words += [rules.text(text + before)] if text + before else []
        words.append(rules.regex(part) if isinstance(part, Id) else rules.mark(core))
        text = behind
    words += [rules.text(text)] if text else []
    return " ".join(words)
