"""Write the rules of a grammar's marks for one vocabulary."""

import json

from appliance.chat.grammar import ANY_TEXT, Grammar
from appliance.constraints.vocabulary import Vocabulary


def complete(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """Return a grammar whole, with the rules `mark_0`, `until_0`, `speech_0` and so on.

    What is a token of its own is only written as that token, never letter by letter. The text
    before a mark has no special tokens.
    """
    special = frozenset(vocabulary.special_token_ids)
    rules = [grammar.lark]
    for number, mark in enumerate(grammar.marks):
        parts = vocabulary.split(mark)
        rules.append(f"mark_{number}: {_refer(parts)}")
        first = next((at for at, part in enumerate(parts) if part[1] in special), None)
        for name, text in ((f"until_{number}", ANY_TEXT), (f"speech_{number}", grammar.speech)):
            if first is None:
                rules.append(f"{name}[suffix={_quote(mark)}]: {text}")
                continue
            # Text ends by itself where a special token begins, and then has to end so.
            lead = _quote("".join(text for text, _ in parts[:first]))
            rules.append(f"{name.upper()}: ({text}) {lead}")
            rules.append(f"{name}: {name.upper()} {_refer(parts[first:])}")
    return "\n".join(rules)


def _refer(parts: list[tuple[str, int | None]]) -> str:
    return " ".join(_quote(text) if number is None else f"<[{number}]>" for text, number in parts)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
