"""Arguments are read as they come, end where they end, and are repaired only where it is plain."""

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.parsing.argument import ArgumentReader, EncodedReader, ObjectReader, is_object
from tests.examples import examples

SCHEMA = {
    "type": "object",
    "$defs": {"n": {"type": "number"}},
    "properties": {
        "list": {"type": "array"},
        "maybe": {"type": ["array", "null"]},
        "bare": {"items": {}},
        "object": {"type": "object"},
        "count": {"$ref": "#/$defs/n"},
        "flag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "text": {"type": "string"},
        "either": {"type": ["string", "array"]},
        "any": {},
        'qu"ote': {"type": "array"},
    },
}


def read_all(reader: ArgumentReader, texts: list[str]) -> tuple[str, str]:
    """Return the arguments, and what was left behind them."""
    taken, held = "", ""
    for text in texts:
        held += text
        at = reader.read(held, 0)
        taken += reader.taken
        held = held[at:]
    return taken, held


def halves(text: str) -> list[list[str]]:
    return [list(text), *([text[:cut], text[cut:]] for cut in range(len(text) + 1))]


REPAIRED = {
    '{"list": "[1, \\"a\\"]"}': '{"list": [1, "a"]}',
    '{"maybe": "null"}': '{"maybe": null}',
    '{"maybe":"[]","list":["[1]"]}': '{"maybe":[],"list":["[1]"]}',
    '{"bare": "[1]"}': '{"bare": [1]}',
    '{"object": "{\\"list\\": \\"[1]\\"}"}': '{"object": {"list": "[1]"}}',
    '{"count": "-1.50"}': '{"count": -1.50}',
    '{"flag": "true", "count": "7"}': '{"flag": true, "count": 7}',
    '{"qu\\"ote": "[]"}': '{"qu\\"ote": []}',
    '{"list":"[\n1]"}': '{"list":[\n1]}',
    '{ "list" : "[]" , "text" : "[]" }': '{ "list" : [] , "text" : "[]" }',
}

LEFT = [
    '{"text": "[1]", "either": "[1]", "any": "[1]", "other": "[1]"}',
    '{"list": "7", "count": "[]", "flag": "yes", "maybe": "[1", "object": ""}',
    '{"list": [1, "[2]", {"list": "[3]"}], "object": {"list": "[4]"}}',
    '{"list": "\\u005b1, \\"\\ud83d\\"]"}',
    '{"count": 1e400, "any": "\\u00e9\\ud83d", "text": "\\/"}',
    '{"\\ud83d": "[]"}',
    "{}",
]


@pytest.mark.parametrize("raw", REPAIRED)
def test_string_in_a_values_place_is_what_it_holds(raw: str) -> None:
    for texts in halves(raw):
        reader = ObjectReader(schema=SCHEMA)

        assert read_all(reader, [*texts, "rest"]) == (REPAIRED[raw], "rest")
        assert reader.is_done
        assert reader.is_sound


@pytest.mark.parametrize("raw", LEFT)
def test_all_else_stays_as_it_was_written(raw: str) -> None:
    for texts in halves(raw):
        reader = ObjectReader(schema=SCHEMA)

        assert read_all(reader, [*texts, "rest"]) == (raw, "rest")
        assert reader.is_done


@pytest.mark.parametrize("raw", REPAIRED)
def test_nothing_is_repaired_without_a_schema(raw: str) -> None:
    reader = ObjectReader()

    taken, _ = read_all(reader, [raw])

    assert taken == raw.replace("[\n1]", "[\\n1]")


@pytest.mark.parametrize("raw", [*REPAIRED, *LEFT])
def test_object_that_was_encoded_twice_is_read_like_one(raw: str) -> None:
    plain = ObjectReader(schema=SCHEMA)
    expected, _ = read_all(plain, [raw])
    encoded = json.dumps(raw)[1:]

    for texts in halves(encoded):
        reader = EncodedReader(SCHEMA)

        assert read_all(reader, texts) == (expected, '"')
        assert reader.is_sound == plain.is_sound


def test_only_a_string_that_may_be_repaired_is_held() -> None:
    reader = ObjectReader(schema=SCHEMA)
    leaving = []

    for text in ('{"text": "a', " b", '", "list": "[1', ", 2", ']"', "}"):
        reader.read(text, 0)
        leaving.append(reader.taken)

    assert leaving == ['{"text": "a', " b", '", "list": ', "", "[1, 2]", "}"]


@pytest.mark.parametrize(
    ("reader", "raw", "expected"),
    [
        (ObjectReader(schema=SCHEMA), '{"list": "[1, \n', '{"list": "[1, \\n'),
        (ObjectReader(schema=SCHEMA), '{"list": "[1, \\', '{"list": "[1, \\'),
        (ObjectReader(schema=SCHEMA), '{"text": "a\\', '{"text": "a\\'),
        (ObjectReader("</a>"), '{"text": 1</a', '{"text": 1</a'),
        (EncodedReader(SCHEMA), r"{\"list\": \"[1\\", r'{"list": "[1\ '[:-1]),
        (EncodedReader(SCHEMA), r"{\"list\": \"[1\u00", r'{"list": "[1\u00'),
    ],
)
def test_nothing_is_lost_of_arguments_that_end_too_early(
    reader: ArgumentReader, raw: str, expected: str
) -> None:
    at = reader.read(raw, 0)

    assert reader.taken + reader.end(raw, at) == expected
    assert not reader.is_done
    assert not reader.is_sound


@pytest.mark.parametrize("closing", ["", "</call>"])
def test_closing_mark_outside_of_strings_ends_the_object_early(closing: str) -> None:
    raw = '{"a": "</call>", "b": 1</call>'

    for texts in halves(raw):
        reader = ObjectReader(closing)
        taken, left = read_all(reader, texts)

        assert taken + left == raw
        assert reader.is_done == bool(closing)
        assert not reader.is_sound


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", True),
        ('{"a": [1]}', True),
        ("[]", False),
        ("{", False),
        ('{"a": ' * 100_000, False),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", False),
    ],
    ids=["empty", "one", "list", "part", "deep part", "deep"],
)
def test_text_is_an_object_or_none(text: str, expected: bool) -> None:
    assert is_object(text) is expected


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])) | st.text(), VALUES)


@settings(deadline=None, max_examples=examples(50))
@given(OBJECTS, st.booleans(), st.lists(st.integers(0, 300), max_size=6))
def test_every_object_comes_out_as_it_went_in(
    value: dict[str, Any], is_ascii: bool, cuts: list[int]
) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii)
    edges = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    reader = ObjectReader("</a>")

    taken, left = read_all(reader, [raw[a:b] for a, b in itertools.pairwise(edges)])

    assert taken == raw
    assert left == ""
    assert reader.is_sound


@settings(deadline=None, max_examples=examples(50))
@given(OBJECTS, st.sampled_from(["list", "object"]), VALUES)
def test_value_as_a_string_is_the_value_only_where_its_type_is_right(
    value: dict[str, Any], key: str, inner: object
) -> None:
    kind = {"list": list, "object": dict}[key]
    raw = json.dumps(value | {key: json.dumps(inner)})
    expected = value | {key: inner if isinstance(inner, kind) else json.dumps(inner)}
    reader = ObjectReader(schema={"properties": {key: SCHEMA["properties"][key]}})  # type: ignore[index]

    taken, _ = read_all(reader, list(raw))

    assert json.loads(taken) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "raw"),
    [
        (ObjectReader(schema=SCHEMA), '{"list": "' + "[" * 100_000),
        (ObjectReader(schema=SCHEMA), '{"text": "' + '\\"' * 50_000),
        (ObjectReader(schema=SCHEMA), '{"a":1,' * 1 + '"a":1,' * 15_000),
        (ObjectReader("</a>", SCHEMA), '{"a":' * 20_000 + "}" * 20_000),
        (ObjectReader(schema=SCHEMA), '{"list": "' + "1,\n" * 30_000 + '"}'),
        (EncodedReader(SCHEMA), r"{\"list\": \"" + r"\\" * 50_000),
    ],
    ids=["held", "quotes", "keys", "deep", "no list", "encoded"],
)
def test_time_is_linear_in_the_arguments(reader: ArgumentReader, raw: str) -> None:
    began = time.process_time()

    read_all(reader, list(raw))

    assert time.process_time() - began < 5
