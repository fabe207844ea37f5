"""Read an answer in pieces, and put together what came of it."""

import itertools
from collections.abc import Iterable, Iterator

from appliance.chat.request import Tool
from appliance.parsing.format import AnswerFormat
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.toolbox import Toolbox
from tests.examples import some

BOTH = AnswerFormat(reasoning="qwen3", tools="hermes")
TOOLBOX = Toolbox([Tool("get_weather"), Tool("now")])
WORDS = {Text: "text", Thought: "thought", CallOpened: "call", CallArguments: "arguments"}

Part = tuple[str, str]


def part_of(piece: Parsed) -> Part:
    match piece:
        case CallOpened(name=name):
            return ("call", name)
        case CallClosed(is_sound=is_sound):
            return ("end", "sound" if is_sound else "broken")
        case _:
            return (WORDS[type(piece)], piece.text)


def fold(pieces: Iterable[Parsed]) -> list[Part]:
    """Return what the pieces say, those of one kind in a row as one."""
    folded: list[Part] = []
    for kind, text in map(part_of, pieces):
        if folded and folded[-1][0] == kind and kind != "end":
            folded.append((kind, folded.pop()[1] + text))
        else:
            folded.append((kind, text))
    return folded


def read_pieces(
    texts: Iterable[str],
    form: AnswerFormat = BOTH,
    toolbox: Toolbox = TOOLBOX,
    *,
    begun: str = "",
) -> list[Parsed]:
    parser = AnswerParser(form, toolbox, begun=begun)
    pieces = [piece for text in texts for piece in parser.feed(text)]
    return pieces + parser.end()


def read(text: str, *, begun: str = "") -> list[Part]:
    return fold(read_pieces([text], begun=begun))


def splits(text: str) -> Iterator[list[str]]:
    """Yield the text in single characters, and in two pieces, cut everywhere or at some places."""
    yield list(text)
    for cut in some(range(len(text) + 1), text):
        yield [text[:cut], text[cut:]]


def read_at(text: str, cuts: Iterable[int], *, begun: str = "") -> list[Part]:
    """Return what comes of the text when it is cut at the places that there are."""
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    texts = [text[start:end] for start, end in itertools.pairwise(edges)]
    return fold(read_pieces(texts, begun=begun))
