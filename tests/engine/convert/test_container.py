"""Check that no damaged file brings the reader down, and that undamaged ones are read right."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.engine.convert.container import open_container
from appliance.engine.convert.conversion import convert
from appliance.errors import SourceError
from tests.engine.convert.tiny_gguf import TinyLlama
from tests.examples import examples

HUGE = [number.to_bytes(8, "little") for number in (2**63 - 1, 2**40, 2**32 - 1, 0)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyLlama().write(tmp_path_factory.mktemp("whole") / "tiny.gguf")


def reason_of_refusal(content: bytes, folder: Path) -> str:
    """Return the reason, or an empty text where the damage did not matter."""
    path, dest = folder / "damaged.gguf", folder / "mlx"
    path.write_bytes(content)
    shutil.rmtree(dest, ignore_errors=True)
    try:
        convert(path, dest, "float32", lambda done, total: None)
    except SourceError as error:
        assert not dest.exists()
        return error.reason
    return ""


def test_container_agrees_with_the_reader_of_the_gguf_package(tmp_path: Path) -> None:
    path = TinyLlama().write(tmp_path / "tiny.gguf")

    ours, theirs = open_container(path), GGUFReader(path)

    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            assert np.array_equal(ours.metadata.values[name], field.contents())
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert mine.shape == tuple(int(size) for size in reversed(tensor.shape))
        assert mine.data.tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read"),
        (b"GGUF", "cut short"),
        (b"PK\x03\x04" + bytes(100), "is not a GGUF file"),
        (b"GGUF" + bytes(100), "version 0"),
        (b"GGUF\3\0\0\0" + b"\xff" * 16, "cut short"),
    ],
)
def test_container_refuses_what_is_no_gguf(content: bytes, reason: str, tmp_path: Path) -> None:
    assert reason in reason_of_refusal(content, tmp_path)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_container_refuses_every_truncated_file(whole: Path, data: st.DataObject) -> None:
    content = whole.read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))

    assert reason_of_refusal(content[:length], whole.parent)


@settings(max_examples=examples(250), deadline=None)
@given(data=st.data())
def test_container_survives_any_damage(whole: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    header = content.index(b"output_norm.weight")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, header))
        bad = data.draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(HUGE)))
        content[at : at + len(bad)] = bad

    reason_of_refusal(bytes(content), whole.parent)
