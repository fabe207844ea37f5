"""Ask for what stands between two texts, in the tokens that a model was taught this with."""

from collections.abc import Callable
from typing import NamedTuple


class Infill(NamedTuple):
    """Tokens that begin the text before, the text after, and the answer (none: it follows).

    `is_suffix_first`: the text after comes before the text before.
    """

    prefix: str
    suffix: str
    middle: str = ""
    is_suffix_first: bool = False

    def join(self, text: str, suffix: str) -> str:
        """Return the prompt for what stands between `text` and `suffix`."""
        head, tail = f"{self.prefix}{text}", f"{self.suffix}{suffix}"
        halves = (tail, head) if self.is_suffix_first else (head, tail)
        return "".join(halves) + self.middle


# ruff: noqa: RUF001 - the bars of these tokens are no pipes
# As the model cards write them, in this order: Qwen, Granite 4 and CodeGemma; StarCoder and
# Granite; DeepSeek Coder and V3; GLM; Code Llama; Codestral.
_KNOWN = (
    Infill("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    Infill("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    Infill("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    Infill("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    Infill("▁<PRE>", "▁<SUF>", "▁<MID>"),
    Infill("[PREFIX]", "[SUFFIX]", is_suffix_first=True),
)


def find_infill(is_token: Callable[[str], bool]) -> Infill | None:
    """Return the first known spelling of which every part is a token; None if there is none."""
    for infill in _KNOWN:
        parts = (infill.prefix, infill.suffix, infill.middle)
        if all(is_token(part) for part in parts if part):
            return infill
    return None
