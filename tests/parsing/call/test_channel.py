"""Messages with headers are thoughts, texts or calls as these say, however they are cut."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.call.channel_family import HARMONY, MUSE
from appliance.parsing.call.tagged_family import MUSE_GLIMMER
from appliance.parsing.format import ThoughtFormat
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import CallOpened
from appliance.parsing.toolbox import Toolbox
from tests.parsing.answer_reading import Part, fold, read_pieces
from tests.parsing.call.framing import Framing, read_framed
from tests.parsing.call.writing import TOOLBOX, sound
from tests.parsing.grammar.trial import judge, random_text

START = "<|start|>assistant"
MESSAGE = "<|message|>"
FRAMES = ("<|end|>", "<|return|>", "<|call|>", START)
FORM = Framing(calls=(HARMONY,), thought_marks=ThoughtFormat("", "<|end|>", FRAMES))
MUSE_FORM = Framing(
    calls=(MUSE, MUSE_GLIMMER),
    thought_marks=ThoughtFormat("", "<|eom|>", ("<|eom|>", "<|eot|>", START)),
)

PLAN = f"<|channel|>analysis{MESSAGE}plan<|end|>"
FINAL = f"<|channel|>final{MESSAGE}"
FIND = (
    f'<|channel|>commentary to=functions.find <|constrain|>json{MESSAGE}{{"city":"Oslo"}}<|call|>'
)
TEMPLATE_FIND = f' to=functions.find<|channel|>commentary json{MESSAGE}{{"city":"Oslo"}}<|call|>'
FOUND = sound("find", city="Oslo")
NOW = sound("now")
LONG = "x" * 120


def thought(text: str) -> Part:
    return ("thought", text)


def text(text: str) -> Part:
    return ("text", text)


MESSAGES = {
    f"{PLAN}{START}{FINAL}Hi.<|return|>": [thought("plan"), text("Hi.")],
    f"{PLAN}{START}{FIND}": [thought("plan"), *FOUND],
    f"{PLAN}{START}{TEMPLATE_FIND}": [thought("plan"), *FOUND],
    f"{PLAN}{START}{FIND.removesuffix('<|call|>')}": [thought("plan"), *FOUND],
    f"{PLAN}{START}{FIND}{START}{TEMPLATE_FIND}": [thought("plan"), *FOUND, *FOUND],
    f"{PLAN}{START}<|channel|>commentary{MESSAGE}Let me see.\n<|end|>{START}{FIND}": [
        thought("plan"),
        text("Let me see."),
        *FOUND,
    ],
    f"{PLAN}{FINAL}Hi": [thought("plan"), text("Hi")],
    f"<|channel|>analysis{MESSAGE}plan{FINAL}Hi": [thought("plan"), text("Hi")],
    f"<|channel|>analysis{MESSAGE}plan{START}{FIND}": [thought("plan"), *FOUND],
    f"{FINAL}Hi. {PLAN}{START}{FINAL}There.": [text("Hi."), thought("plan"), text("There.")],
    f"{FINAL} a\n\nb \n<|return|>": [text(" a\n\nb \n")],
    f"{START}{FINAL}Hi": [text("Hi")],
    f"{MESSAGE}Hi": [text("Hi")],
    "Hi there.<|end|>": [text("Hi there.")],
    " Hi": [text(" Hi")],
    f"to=functions.now{MESSAGE}{{}}": NOW,
    f"<|channel|>commentary to=now{MESSAGE}\n{{}}": NOW,
    f"<|channel|>commentary to=functions.now{MESSAGE}<|call|>": NOW,
    f"<|channel|>commentary to=functions.now<|constrain|>json{MESSAGE}{{ }}<|call|>": [
        ("call", "now"),
        ("arguments", "{ }"),
        ("end", "sound"),
    ],
    f'<|channel|>commentary to=functions.find code{MESSAGE}"{{\\"city\\":\\"Oslo\\"}}"': FOUND,
}

NEVER_CALLS = {
    f'<|channel|>analysis to=functions.find code{MESSAGE}{{"city":"Oslo"}}<|call|>': [
        thought('{"city":"Oslo"}')
    ],
    f'<|channel|>final to=functions.find{MESSAGE}{{"city":"Oslo"}}<|call|>': [
        text('{"city":"Oslo"}')
    ],
    f"<|channel|>analysis to=python code{MESSAGE}print(1)<|call|>{START}{FINAL}so": [
        thought("print(1)"),
        text("so"),
    ],
    f"<|channel|>commentary to=browser.search{MESSAGE}{{}}<|call|>": [text("{}")],
    f"<|channel|>commentary to=functions.rm{MESSAGE}{{}}<|call|>": [text("{}")],
    f"<|channel|>commentary to=functions.now{MESSAGE}soon<|call|>": [text("soon")],
    f"<|channel|>commentary to=functions.now{MESSAGE}": [],
    f"<|channel|>commentary to=functions.now{MESSAGE}{' ' * 200}{{}}": [text(" " * 200 + "{}")],
}

MALFORMED = {
    f"<|channel|>analysis\u2013\u2013commentary{MESSAGE}hi<|end|>{START}{FINAL}so": [text("hiso")],
    f"<|channel|>analysis\n{MESSAGE}hi<|end|>": [text(f"<|channel|>analysis\n{MESSAGE}hi")],
    f"<|channel|>{LONG}{LONG}{MESSAGE}hi": [text(f"<|channel|>{LONG}{LONG}{MESSAGE}hi")],
    "<|channel|>is a mark < of theirs": [text("<|channel|>is a mark < of theirs")],
    "<|channel|>comm": [text("<|channel|>comm")],
    f"{PLAN}{START}": [thought("plan")],
    f"{PLAN}{START}<|chan": [thought("plan"), text("<|chan")],
    f"{PLAN}{START} to=functions.fi": [thought("plan"), text(" to=functions.fi")],
    f"<|channel|>analysis{MESSAGE}say {START} is": [thought(f"say {START} is")],
}

BROKEN = {
    f'<|channel|>commentary to=functions.find{MESSAGE}{{"city": <|call|>{START}{FINAL}so': [
        ("call", "find"),
        ("arguments", '{"city": '),
        ("end", "broken"),
        text("so"),
    ],
    f'<|channel|>commentary to=functions.find{MESSAGE}{{"city"': [
        ("call", "find"),
        ("arguments", '{"city"'),
        ("end", "broken"),
    ],
}

ALL = MESSAGES | NEVER_CALLS | MALFORMED | BROKEN


@pytest.mark.parametrize("raw", ALL)
def test_messages_are_what_their_headers_say(raw: str) -> None:
    assert read_framed(raw, FORM, begun=START) == ALL[raw]


@pytest.mark.parametrize("raw", [raw for raw in ALL if raw.startswith("<|channel|>")])
def test_start_may_be_missing(raw: str) -> None:
    assert read_framed(raw, FORM) == ALL[raw]


def test_channel_that_is_split_is_one() -> None:
    before, after = FIND.split("ary")

    parts = fold(read_pieces([before, f"ary{after}"], FORM, TOOLBOX, begun=START))

    assert parts == FOUND


def test_pretty_arguments_stay_as_they_are() -> None:
    pretty = '{\n  "city": "Oslo"\n}'
    raw = FIND.replace('{"city":"Oslo"}', f"\n{pretty}")

    parts = read_framed(raw, FORM, begun=START)

    assert parts == [("call", "find"), ("arguments", pretty), ("end", "sound")]


def test_headers_are_read_without_any_tools() -> None:
    raw = f"{PLAN}{START}{FIND}{START}{FINAL}so"

    parts = read_framed(raw, FORM, begun=START, toolbox=Toolbox())

    assert parts == [thought("plan"), text('{"city":"Oslo"}so')]


def test_arguments_leave_while_they_come() -> None:
    head, _, tail = FIND.partition('{"city"')

    pieces = read_pieces([f'{head}{{"city"', tail], FORM, TOOLBOX, begun=START)

    assert fold(pieces[:2]) == [("call", "find"), ("arguments", '{"city"')]
    assert fold(pieces) == FOUND


ATEM = (
    "<atem:function_calls>\n"
    '<atem:invoke name="find">\n<atem:parameter name="city">Oslo</atem:parameter>\n</atem:invoke>\n'
    "</atem:function_calls>"
)


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (
            f" to=self{MESSAGE}plan<|eom|>{START} to=user{MESSAGE}Hi.",
            [thought("plan"), text("Hi.")],
        ),
        (f" to=find{MESSAGE}{ATEM}<|eom|>{START} to=find{MESSAGE}{ATEM}", FOUND + FOUND),
        (f" to=user{MESSAGE}Hi<|eot|>", [text("Hi")]),
    ],
)
def test_muse_has_thoughts_texts_and_tags_behind_headers(raw: str, parts: list[Part]) -> None:
    assert read_framed(raw, MUSE_FORM, begun=START) == parts


def test_grammar_of_muse_has_the_header_of_the_function_before_its_tags() -> None:
    rules = Rules()
    grammar = rules.build(MUSE.grammar(rules, TOOLBOX, is_single=False))

    assert judge(grammar, f"{START} to=find{MESSAGE}{ATEM}") == "complete"
    assert judge(grammar, f" to=now{MESSAGE}{ATEM}") == "refused"


@pytest.mark.parametrize(
    ("raw", "is_single", "verdict"),
    [
        (FIND, True, "complete"),
        (f"{START}{FIND}", True, "complete"),
        (FIND + START + FIND, True, "refused"),
        (FIND + START + FIND, False, "complete"),
        (FIND.replace("find", "rm"), False, "refused"),
        (FIND.replace('"Oslo"', "1"), False, "refused"),
        (FIND.removesuffix("<|call|>"), False, "incomplete"),
    ],
)
def test_grammar_of_harmony_is_what_the_model_writes(
    raw: str, is_single: bool, verdict: str
) -> None:
    rules = Rules()
    grammar = rules.build(HARMONY.grammar(rules, TOOLBOX, is_single=is_single))

    assert judge(grammar, raw) == verdict


def test_what_the_grammar_allows_is_read_as_sound_calls() -> None:
    rules = Rules()
    grammar = rules.build(HARMONY.grammar(rules, TOOLBOX, is_single=False))

    texts = [raw for seed in range(6) if (raw := random_text(grammar, seed, most_bytes=600))]

    assert texts
    for raw in texts:
        parts = fold(read_pieces([raw], FORM, TOOLBOX, begun=START))
        assert {kind for kind, _ in parts} == {"call", "arguments", "end"}


MORSELS = st.sampled_from(
    [
        *("<|start|>", START, "<|channel|>", "<|constrain|>", MESSAGE, *FRAMES, PLAN, FIND, FINAL),
        *("analysis", "commentary", "final", " to=", "functions.", "now", "find", "python", "json"),
        *("{", "}", '"', "{}", '{"city": "', " ", "\n", "a", "<", "<|", "|>", "\\", LONG),
    ]
)
RAWS = st.lists(MORSELS, max_size=20).map("".join)


@settings(max_examples=60)
@given(raw=RAWS, begun=st.sampled_from(["", START]), cuts=st.sets(st.integers(0, 300), max_size=8))
def test_parts_do_not_depend_on_the_pieces(raw: str, begun: str, cuts: set[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]

    whole = read_pieces([raw], FORM, TOOLBOX, begun=begun)

    assert fold(read_pieces(pieces, FORM, TOOLBOX, begun=begun)) == fold(whole)
    assert fold(read_pieces(list(raw), FORM, TOOLBOX, begun=begun)) == fold(whole)
    if "<" not in raw and CallOpened not in map(type, whole):
        assert "".join(part for _, part in fold(whole)) == raw


@pytest.mark.slow
@pytest.mark.parametrize(
    "raw",
    [
        *("<" * 20_000, "<|channel|>" * 2_000, START * 500, PLAN * 200, FIND * 100),
        *(
            f"<|channel|>commentary to=functions.now{MESSAGE}" + " " * 8_000,
            "<|channel|>a " * 2_000,
        ),
    ],
    ids=lambda raw: raw[:24],
)
def test_time_is_linear_in_the_text(raw: str) -> None:
    began = time.process_time()

    read_pieces(list(raw), FORM, TOOLBOX)

    assert time.process_time() - began < 5
