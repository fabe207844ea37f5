"""Bring tool calls and their results into an order that a model's chat template can show. Pure."""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from appliance.chat.request import Message, ToolCall
from appliance.chat.spelling import arguments_object, arguments_text
from appliance.chat.traits import Traits


def place_results(turns: Sequence[Message]) -> Iterator[Message]:
    """Yield the turns with every result right behind its call, named as it, in the calls' order.

    A result without a call is what a user says.
    """
    calls = _places(turns)
    results: dict[int, list[tuple[int, Message]]] = defaultdict(list)
    strays: set[int] = set()
    for index, turn in enumerate(turns):
        if turn.role != "tool":
            continue
        if not (places := calls.get(turn.tool_call_id)):
            strays.add(index)
            continue
        # The last call before it, else the first behind it.
        home, place = places[max(0, bisect_left(places, (index, 0)) - 1)]
        name = turn.name or turns[home].tool_calls[place].name
        results[home].append((place, replace(turn, name=name)))
    for index, turn in enumerate(turns):
        if index in strays:
            yield Message("user", turn.content, media=turn.media)
        elif turn.role != "tool":
            yield turn
            yield from (each for _, each in sorted(results[index], key=lambda pair: pair[0]))


def write_out(turn: Message, traits: Traits) -> Message:
    """Return a turn with the calls or the result in its text that the template does not show."""
    if turn.role == "tool" and not traits.results:
        said = Message("user", turn.content, media=turn.media).after("<tool_response>\n")
        return replace(said, content=f"{said.content}\n</tool_response>")
    if turn.tool_calls and not traits.calls:
        texts = [turn.content or "", *map(_call_text, turn.tool_calls)]
        return replace(turn, content="\n".join(filter(None, texts)), tool_calls=())
    return turn


def set_calls_apart(turns: Sequence[Message], traits: Traits) -> Iterator[Message]:
    """Yield the turns with no more in the message of a call than the template can show there.

    The text goes before the call, with an empty question between them where answers may not follow
    one another; or a thought goes into the text. Of several calls each has its message, with its
    result behind it.
    """
    index = 0
    while index < len(turns):
        turn = turns[index]
        index += 1
        if not turn.tool_calls:
            yield turn
            continue
        if turn.content and not traits.text_beside_call:
            yield replace(turn, tool_calls=())
            if not traits.repeats:
                yield Message("user", "")
            turn = replace(turn, content=None, thought=None, media=())
        elif turn.content and turn.thought and not traits.thought_beside_call:
            turn = replace(turn.after(f"{turn.thought}\n\n"), thought=None)
        results: list[Message] = []
        while index < len(turns) and turns[index].role == "tool":
            results.append(turns[index])
            index += 1
        yield from _one_by_one(turn, results, traits)


def _places(turns: Sequence[Message]) -> dict[str | None, list[tuple[int, int]]]:
    """Return where each id is called, in rising order: some clients use an id again and again."""
    places: dict[str | None, list[tuple[int, int]]] = defaultdict(list)
    for index, turn in enumerate(turns):
        for place, call in enumerate(turn.tool_calls):
            places[call.id].append((index, place))
    return places


def _call_text(call: ToolCall) -> str:
    is_object = arguments_object(call.arguments) is not None
    arguments = arguments_text(call.arguments) if is_object else json.dumps(call.arguments)
    name = json.dumps(call.name, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


def _one_by_one(turn: Message, results: list[Message], traits: Traits) -> Iterator[Message]:
    if traits.parallel_calls or len(turn.tool_calls) == 1:
        yield turn
        yield from results
        return
    answers: dict[str | None, list[Message]] = defaultdict(list)
    for result in results:
        answers[result.tool_call_id].append(result)
    for number, call in enumerate(turn.tool_calls):
        first = turn if number == 0 else replace(turn, content=None, thought=None, media=())
        yield replace(first, tool_calls=(call,))
        yield from answers.pop(call.id, ())
