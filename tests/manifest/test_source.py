"""Which files a source names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.manifest.source import (
    HfSource,
    PathSource,
    ScriptedSource,
    Source,
    WheelSource,
    parse_source,
)

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:org/repo-4bit", HfSource("org/repo-4bit")),
        ("hf:org/repo@refs/pr/1", HfSource("org/repo", "refs/pr/1")),
        ("path:models/a b", PathSource(Path("models/a b"))),
        ("path:C:/x", PathSource(Path("C:/x"))),
        ("scripted:demo.yaml", ScriptedSource(Path("demo.yaml"))),
        ("wheel:pkg==1.0", WheelSource("pkg", "1.0")),
        ("wheel:pkg==1.0/a/b.gguf", WheelSource("pkg", "1.0", "a/b.gguf")),
        (f"wheel:p==1/a#sha256={DIGEST.upper()}", WheelSource("p", "1", "a", DIGEST)),
        (f"wheel:p==1#sha256={DIGEST}", WheelSource("p", "1", None, DIGEST)),
    ],
)
def test_source_is_parsed(text: str, source: Source) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model",
        "ftp:x",
        "hf:",
        "hf:repo",
        "hf:../..",
        "hf:a/b/c",
        "path:",
        "path:a\x00b",
        "wheel:p",
        "wheel:p==1/../../etc/passwd",
        "wheel:p==1//etc/passwd",
        "wheel:p==1#sha256=ab",
        "remote:http://other:8000#m",
    ],
)
def test_source_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"should|not available"):
        parse_source(text)


def test_home_folder_is_expanded() -> None:
    source = parse_source("path:~/models")

    assert source == PathSource(Path.home() / "models")


@given(st.one_of(st.text(), st.text().map("path:~{}".format), st.text().map("hf:{}".format)))
def test_source_text_parses_back_to_itself_or_is_a_value_error(text: str) -> None:
    try:
        source = parse_source(text)
    except ValueError:
        return

    assert parse_source(str(source)) == source
