"""Turn a conversation into one that a model's chat template can show, without losing words. Pure.

The same messages always come out the same, so that a longer conversation begins as the shorter did.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from appliance.chat.exchange import place_results, set_calls_apart, write_out
from appliance.chat.request import Media, Message
from appliance.chat.traits import Traits
from appliance.errors import InvalidRequest

_BETWEEN = "\n\n"


def normalise(messages: Iterable[Message], traits: Traits) -> tuple[Message, ...]:
    """Return `messages` as the template can show them.

    Developer messages become system messages; those that the template cannot show where they are
    move into the first, in their order, or into the first question. Turns without anything in them
    fall away, but for a question at the end; so do thoughts that the template never shows. Results
    of tools follow their calls. Messages of one role in a row are joined where the template allows
    no repeats. What it has no place for, a call for instance, is text. Raises InvalidRequest if
    nothing is said.
    """
    turns = [_known(message, traits) for message in messages]
    if not turns:
        raise InvalidRequest("There must be at least one message.", param="messages")
    last = turns[-1]
    turns = [turn for turn in turns if not _is_empty(turn)]
    if not turns:
        raise InvalidRequest("The messages have no content.", param="messages")
    if last.role == "user" and turns[-1] is not last:
        turns.append(last)
    turns = _place_system(list(place_results(turns)), traits)
    turns = [write_out(turn, traits) for turn in turns]
    turns = _joined_neighbours(turns, traits)
    return tuple(_begun(list(set_calls_apart(turns, traits)), traits))


def _known(message: Message, traits: Traits) -> Message:
    """Return a message of a role, and with thoughts, that the template may know."""
    if message.role == "developer":
        return replace(message, role="system")
    if message.thought is not None and traits.spelling.thought is None:
        return replace(message, thought=None)
    return message


def _is_empty(message: Message) -> bool:
    """Say whether a message could as well not be there; the result of a tool is never."""
    has_more = message.tool_calls or message.media or message.thought
    return message.role != "tool" and not message.content and not has_more


def _place_system(turns: list[Message], traits: Traits) -> list[Message]:
    start = _num_leading(turns)
    head, rest = turns[:start], turns[start:]
    if not traits.late_system:
        head += [turn for turn in rest if turn.role == "system"]
        rest = [turn for turn in rest if turn.role != "system"]
    if len(head) > start or (len(head) > 1 and traits.system != "several"):
        head = [joined(head)]
    if head and traits.system == "none":
        return _told_by_user(head[0], rest)
    return head + rest


def _num_leading(turns: list[Message]) -> int:
    """Return how many system messages the conversation begins with."""
    return next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))


def _told_by_user(system: Message, rest: list[Message]) -> list[Message]:
    told = replace(system, role="user")
    if rest and rest[0].role == "user":
        return [joined([told, rest[0]]), *rest[1:]]
    return [told, *rest]


def _joined_neighbours(turns: Iterable[Message], traits: Traits) -> list[Message]:
    """Return the turns with repeats, and questions behind results, as the template allows them."""
    if not traits.question_after_result:
        turns = _with_questions_in_results(turns)
    if traits.repeats:
        return list(turns)
    runs = (list(run) for _, run in groupby(turns, key=_run_key()))
    return [joined(run) for run in runs]


def _run_key() -> Callable[[Message], tuple[str, int]]:
    """Return a key that is the same for messages that may be joined: not for results of tools."""
    count = 0

    def key(message: Message) -> tuple[str, int]:
        nonlocal count
        count += message.role == "tool"
        return message.role, count

    return key


def _with_questions_in_results(turns: Iterable[Message]) -> Iterator[Message]:
    """Yield the turns; what a user says right behind a result becomes a part of it."""
    result: list[Message] = []
    for turn in turns:
        if result and turn.role == "user":
            result.append(turn)
            continue
        if result:
            yield joined(result)
        result = [turn] if turn.role == "tool" else []
        if not result:
            yield turn
    if result:
        yield joined(result)


def _begun(turns: list[Message], traits: Traits) -> list[Message]:
    """Return the turns with an empty question before the first answer, where there must be one."""
    start = _num_leading(turns)
    first = turns[start] if start < len(turns) else None
    is_wrong = first is not None and first.role != "user" and not traits.answer_first
    is_unasked = traits.needs_question and all(turn.role != "user" for turn in turns)
    if is_wrong or is_unasked:
        return [*turns[:start], Message("user", ""), *turns[start:]]
    return turns


def joined(run: Sequence[Message]) -> Message:
    """Return one message, of the first one's role, that says what all of `run` do."""
    if len(run) == 1:
        return run[0]
    contents: list[str] = []
    media: list[Media] = []
    length = 0
    for message in run:
        if contents and message.content:
            length += len(_BETWEEN)
        media += [each.moved(length) for each in message.media]
        if message.content:
            contents.append(message.content)
            length += len(message.content)
    thoughts = [message.thought for message in run if message.thought]
    return replace(
        run[0],
        content=_BETWEEN.join(contents) or None,
        media=tuple(media),
        thought=_BETWEEN.join(thoughts) or None,
        tool_calls=tuple(call for message in run for call in message.tool_calls),
    )
