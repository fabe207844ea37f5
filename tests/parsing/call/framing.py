"""Read answers in which marks stand round all that is said, calls or not, and compare."""

from dataclasses import dataclass

from appliance.parsing.format import ThoughtFormat
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces, splits
from tests.parsing.call.writing import TOOLBOX, Writing


@dataclass(frozen=True)
class Framing(Writing):
    """A format of ways of writing calls that are read without tools, and in thoughts, too."""

    thought_marks: ThoughtFormat | None = None

    @property
    def thought(self) -> ThoughtFormat | None:
        return self.thought_marks

    @property
    def has_calls_in_thoughts(self) -> bool:
        return True

    def syntaxes(self, *, has_tools: bool) -> tuple[CallSyntax, ...]:
        del has_tools
        return self.calls


def read_framed(
    text: str, form: Framing, *, begun: str = "", toolbox: Toolbox = TOOLBOX
) -> list[Part]:
    """Return what is read, once it is the same for every cut in two and for single characters."""
    whole = fold(read_pieces([text], form, toolbox, begun=begun))
    for pieces in splits(text):
        assert fold(read_pieces(pieces, form, toolbox, begun=begun)) == whole, pieces
    return whole
