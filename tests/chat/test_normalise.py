"""How conversations become such that a template can show them, without a template."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from appliance.chat.normalise import joined, normalise
from appliance.chat.request import Media, Message, Role, ToolCall
from appliance.chat.traits import Spelling, Traits
from appliance.errors import InvalidRequest

SYSTEM = Message("system", "S")
LATER = Message("system", "L")
ASK = Message("user", "a")
AGAIN = Message("user", "b")
SAY = Message("assistant", "x")
MORE = Message("assistant", "y")

STRICT = Traits(
    system="one",
    late_system=False,
    repeats=False,
    answer_first=False,
    needs_question=True,
    question_after_result=False,
)


def brief(messages: tuple[Message, ...]) -> str:
    """Return roles and contents, as `user:a assistant:x`."""
    return " ".join(f"{each.role}:{(each.content or '').replace(' ', '_')}" for each in messages)


@pytest.mark.parametrize(
    ("messages", "traits", "expected"),
    [
        pytest.param((SYSTEM, ASK), Traits(), "system:S user:a", id="nothing to do"),
        pytest.param((SYSTEM, LATER, ASK), Traits(), "system:S system:L user:a", id="several"),
        pytest.param((SYSTEM, LATER, ASK), STRICT, "system:S\n\nL user:a", id="several in one"),
        pytest.param((ASK, SAY, LATER, AGAIN), Traits(), "user:a assistant:x system:L user:b",
                     id="late one stays"),
        pytest.param((SYSTEM, ASK, SAY, LATER, AGAIN), STRICT,
                     "system:S\n\nL user:a assistant:x user:b", id="late one moves"),
        pytest.param((ASK, SAY, LATER), STRICT, "system:L user:a assistant:x", id="at the end"),
        pytest.param((replace(SYSTEM, role="developer"), ASK, replace(LATER, role="developer")),
                     STRICT, "system:S\n\nL user:a", id="developers"),
        pytest.param((SYSTEM, ASK, SAY), Traits(system="none", late_system=False),
                     "user:S\n\na assistant:x", id="no system role"),
        pytest.param((SYSTEM, SAY), Traits(system="none", late_system=False),
                     "user:S assistant:x", id="no system role and no question"),
        pytest.param((ASK, AGAIN, SAY, MORE, ASK), Traits(),
                     "user:a user:b assistant:x assistant:y user:a", id="repeats"),
        pytest.param((ASK, AGAIN, SAY, MORE, ASK), STRICT,
                     "user:a\n\nb assistant:x\n\ny user:a", id="repeats are joined"),
        pytest.param((SAY, ASK), Traits(), "assistant:x user:a", id="answer first"),
        pytest.param((SYSTEM, SAY, ASK), STRICT, "system:S user: assistant:x user:a",
                     id="answer first has an empty question"),
        pytest.param((SYSTEM,), STRICT, "system:S user:", id="no question"),
        pytest.param((Message("user", ""), Message("assistant"), ASK, Message("system", "")),
                     Traits(), "user:a", id="empty turns"),
        pytest.param((ASK, Message("assistant", thought="t"), AGAIN), Traits(), "user:a user:b",
                     id="a thought that is never shown"),
        pytest.param((ASK, SAY, Message("user", "")), Traits(), "user:a assistant:x user:",
                     id="empty question at the end"),
    ],
)  # fmt: skip
def test_roles_are_as_the_template_allows(
    messages: tuple[Message, ...], traits: Traits, expected: str
) -> None:
    assert brief(normalise(messages, traits)) == expected


@pytest.mark.parametrize(
    "messages",
    [(), (Message("user", ""),), (Message("user"), Message("assistant", ""), Message("system"))],
)
def test_conversation_without_content_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        normalise(messages, Traits())

    assert caught.value.param == "messages"


def test_joined_messages_keep_thoughts_calls_and_places_of_media() -> None:
    image, sound = Media("image", "data:1", 1, "m.0"), Media("audio", "data:2", 2, "m.1")
    call = ToolCall("c", "look", "{}")
    run = [
        Message("assistant", "ab", media=(image,), thought="t"),
        Message("assistant", tool_calls=(call,), thought="u"),
        Message("assistant", "cde", media=(sound,)),
    ]

    message = joined(run)

    assert message.content == "ab\n\ncde"
    assert message.thought == "t\n\nu"
    assert message.tool_calls == (call,)
    assert message.media == (image, replace(sound, at=6))


words = st.text("ab \n", max_size=4)
roles: st.SearchStrategy[Role] = st.sampled_from(
    ["system", "developer", "user", "assistant", "tool"]
)
ids = st.sampled_from(["1", "2", "3"])
calls = st.lists(st.builds(ToolCall, ids, st.just("look"), words), max_size=3).map(tuple)


@st.composite
def any_message(draw: st.DrawFn) -> Message:
    role = draw(roles)
    content = draw(st.none() | words)
    if role == "assistant":
        thought = draw(st.none() | words)
        return Message(role, content, tool_calls=draw(calls), thought=thought)
    return Message(role, content, tool_call_id=draw(ids) if role == "tool" else None)


any_traits = st.builds(
    Traits,
    spelling=st.sampled_from([Spelling(), Spelling(thought="thinking")]),
    system=st.sampled_from(["none", "one", "several"]),
    **{
        name: st.booleans()
        for name in (
            "late_system", "repeats", "answer_first", "needs_question", "calls", "results",
            "parallel_calls", "text_beside_call", "thought_beside_call", "question_after_result",
        )
    },
)  # fmt: skip


def pieces(messages: tuple[Message, ...]) -> Iterator[str]:
    for message in messages:
        yield message.content or ""
        for call in message.tool_calls:
            yield call.name


@given(st.lists(any_message(), max_size=12).map(tuple), any_traits)
def test_nothing_said_is_lost_and_roles_are_allowed(
    messages: tuple[Message, ...], traits: Traits
) -> None:
    try:
        turns = normalise(messages, traits)
    except InvalidRequest:
        assert not any(each.content or each.tool_calls for each in messages)
        return

    whole = "\0".join(pieces(turns))
    assert all(piece in whole for piece in pieces(messages))
    assert sum(map(len, pieces(turns))) >= sum(map(len, pieces(messages)))
    assert not any(turn.role == "developer" for turn in turns)
    assert traits.calls or not any(turn.tool_calls for turn in turns)
    assert traits.results or not any(turn.role == "tool" for turn in turns)
    assert traits.system != "none" or turns[0].role != "system"
    if not traits.late_system:
        systems = [turn.role == "system" for turn in turns]
        assert systems == sorted(systems, reverse=True)
    if not traits.repeats:
        pairs = pairwise(turns)
        assert not any(one.role == two.role == "user" for one, two in pairs)
    assert normalise(messages, traits) == turns


@st.composite
def any_round(draw: st.DrawFn) -> tuple[Message, ...]:
    """Return a question, perhaps some calls with their results, and no answer yet."""
    number = draw(st.integers(0, 10**6))
    turns = [Message("user", f"q{number}")]
    for step in range(draw(st.integers(0, 3))):
        count = draw(st.integers(1, 2))
        made = tuple(ToolCall(f"{number}-{step}-{i}", "look", "{}") for i in range(count))
        turns.append(Message("assistant", draw(st.none() | words), tool_calls=made))
        turns += [Message("tool", "r", tool_call_id=call.id) for call in reversed(made)]
    return tuple(turns)


@given(st.lists(any_round(), min_size=2, max_size=5), any_traits)
def test_longer_conversation_begins_as_the_shorter_did(
    rounds: list[tuple[Message, ...]], traits: Traits
) -> None:
    messages: tuple[Message, ...] = (SYSTEM,)
    before: tuple[Message, ...] = ()
    for turns in rounds:
        messages += turns

        after = normalise(messages, traits)

        assert after[: len(before)] == before
        before = after
        messages += (SAY,)
