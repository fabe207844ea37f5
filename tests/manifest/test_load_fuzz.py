"""Whatever a file holds, the loader either takes it or says so in ManifestError, one line each."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.errors import ManifestError
from appliance.manifest.load import load_manifest, load_manifest_text
from tests.examples import examples

GOOD = (Path(__file__).parent / "testdata" / "defaults.good.yaml").read_text(encoding="utf-8")
TOKENS = [
    *("version: 1", "models:", "auth_keys:", "name: ", "source: ", "path:/x", "key: ", "env: "),
    *("file: ", "engine: ", "template_kwargs: ", "- ", "&a ", "*a", "<<: ", "{", "}", "[", "]"),
    *(",", ": ", "? ", "\n", "\n  ", "\n    ", "'", '"', "|", "> ", "!!int ", "!!set ", "!x "),
    *("${", "${A}", "$$", "1", "1e99", "0x", "~", "=", "#", "%YAML 1.1\n", "---", "..."),
    *("\\ud800", "\\UFFFFFFFF", "\t", "\0", "\ufeff", "\x85", "\u2028"),
]
fragments = st.lists(st.one_of(st.sampled_from(TOKENS), st.text(max_size=3)), max_size=30)
texts = fragments.map("".join)


@settings(max_examples=examples(150), deadline=None)
@given(texts)
def test_arbitrary_text_raises_nothing_but_manifest_error(text: str) -> None:
    assert_loads_or_explains(text)


@settings(max_examples=examples(150), deadline=None)
@given(texts, st.integers(0, len(GOOD)), st.integers(0, 30))
def test_damaged_manifest_raises_nothing_but_manifest_error(
    text: str, start: int, length: int
) -> None:
    assert_loads_or_explains(GOOD[:start] + text + GOOD[start + length :])


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_manifest_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(content)

    try:
        load_manifest(path, environ={})
    except ManifestError as error:
        assert error.problems


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(range(GOOD.count(": ") + 1)), st.booleans())
def test_expanded_value_never_shows_wherever_it_stands(place: int, in_quotes: bool) -> None:
    parts = GOOD.split(": ")
    variable = '"${S}"' if in_quotes else "${S}"
    text = ": ".join(parts[:place]) + f": {variable}\n" + ": ".join(parts[place:])

    try:
        load_manifest_text(text, name="m", folder=Path("/"), environ={"S": "hunter2"})
    except ManifestError as error:
        assert "hunter2" not in str(error)


def assert_loads_or_explains(text: str) -> None:
    try:
        load_manifest_text(text, name="m", folder=Path("/nowhere"), environ={"A": "x"})
    except ManifestError as error:
        assert error.problems
        for problem in error.problems:
            assert len(str(problem).splitlines()) == 1
