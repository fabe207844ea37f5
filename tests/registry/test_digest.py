import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from appliance.errors import SourceError
from appliance.registry.digest import DigestMemo

BODY = b"weights" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "digests.json"


def digest(memory: Path, file: Path) -> tuple[str, int]:
    """Return the digest, and how often the file's bytes were reported."""
    seen: list[tuple[int, int]] = []
    found = asyncio.run(DigestMemo(memory).digest(file, lambda *it: seen.append(it)))
    assert all(it == (len(BODY), len(BODY)) for it in seen)
    return found, len(seen)


def test_digest_reads_a_file_once(memory: Path, file: Path) -> None:
    first = digest(memory, file)

    second = digest(memory, file)

    assert (first, second) == ((SHA256, 1), (SHA256, 0))
    assert DigestMemo(memory).recall(file) == SHA256


def test_digest_reads_a_file_again_that_may_have_changed(memory: Path, file: Path) -> None:
    digest(memory, file)
    os.utime(file, ns=(1, 1))

    assert DigestMemo(memory).recall(file) is None
    assert digest(memory, file) == (SHA256, 1)


def test_digest_of_a_file_with_the_old_size_and_date_is_new(memory: Path, file: Path) -> None:
    digest(memory, file)
    facts = file.stat()
    body = BODY[::-1]

    file.write_bytes(body)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert digest(memory, file) == (hashlib.sha256(body).hexdigest(), 1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "\xff"])
def test_digest_survives_a_broken_memory(memory: Path, file: Path, text: str) -> None:
    memory.parent.mkdir()
    memory.write_bytes(text.encode("latin-1"))

    assert digest(memory, file) == (SHA256, 1)
    assert digest(memory, file) == (SHA256, 0)


def test_digest_refuses_a_file_that_changes_under_its_reader(memory: Path, file: Path) -> None:
    def change(done: int, total: int) -> None:
        file.write_bytes(BODY + b"more")

    with pytest.raises(SourceError, match="changed while it was read") as refusal:
        asyncio.run(DigestMemo(memory).digest(file, change))

    assert refusal.value.retryable
    assert DigestMemo(memory).recall(file) is None
