"""Both ways of reading YAML read the same."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.manifest.node import TreeError, compose, compose_exactly
from tests.examples import examples

TESTDATA = Path(__file__).parent / "testdata"
FILES = sorted(path.name for path in TESTDATA.glob("*.yaml"))
PIECES = [
    *("a", "b: ", "- ", ": ", "? ", "{", "}", "[", "]", ",", "&a ", "*a", "<<: *a", "!x ", "1"),
    *("'", '"', "|\n", ">-\n", "\n", "\n  ", "\n    ", "#", " # c", "---", "...", "%YAML 1.1\n"),
    *("\\u00e9", "\\UFFFFFFFF", "\\x", "\t", "\0", "\ufeff", "\x85", "\u2028", "é", "~", "\r\n"),
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=2)), max_size=25).map("".join)


@pytest.mark.parametrize("name", FILES)
def test_file_is_read_alike(name: str) -> None:
    assert_alike((TESTDATA / name).read_text(encoding="utf-8"))


@settings(max_examples=examples(300), deadline=None)
@given(texts)
def test_text_is_read_alike(text: str) -> None:
    assert_alike(text)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff\ufeff",
        "\n\ufeffa",
        "\ufeffa: 1\n",
        "!",
        "1: !",
        "[! ]",
        "[!, ]",
        "a: ! 1\n",
    ],
)
def test_what_libyaml_reads_otherwise_is_read_alike(text: str) -> None:
    assert shape(compose(text)) == shape(compose_exactly(text))


def test_question_mark_may_end_a_text_in_braces() -> None:
    node = compose("{ask: Who?}")

    assert shape(node) == [("map", 1), ("str", 0, "ask"), ("str", 0, "Who?")]


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{a: " * 5000, "- " * 5000, "? " * 5000])
def test_depth_is_bounded_before_it_costs(text: str) -> None:
    with pytest.raises(TreeError, match="nested too deeply"):
        compose(text)


def assert_alike(text: str) -> None:
    try:
        slow = compose_exactly(text)
    except TreeError:
        return  # libyaml takes a few right texts that PyYAML's own scanner refuses

    assert shape(compose(text)) == shape(slow)


def shape(root: yaml.Node | None) -> list[object]:
    """Return every scalar with its line, and every list and mapping with its size, each once."""
    found: list[object] = []
    nodes, seen = [root] if root else [], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        kind = node.tag.rpartition(":")[2]
        if isinstance(node, yaml.ScalarNode):
            found.append((kind, node.start_mark.line if node.value else None, node.value))
            continue
        found.append((kind, len(node.value)))
        for item in reversed(node.value):
            nodes += reversed(item) if isinstance(item, tuple) else [item]
    return found
