from pathlib import Path

import pytest

from appliance.disk import publish, require_space
from appliance.errors import SourceError


def test_publish_moves_a_folder_whole(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "file").write_text("text")
    (made / "link").symlink_to(tmp_path / "nowhere")

    publish(made, tmp_path / "dest")

    assert not made.exists()
    assert (tmp_path / "dest" / "sub" / "file").read_text() == "text"
    assert (tmp_path / "dest" / "link").is_symlink()


def test_publish_replaces_a_file(tmp_path: Path) -> None:
    made, dest = tmp_path / "made", tmp_path / "dest"
    made.write_text("new")
    dest.write_text("old")

    publish(made, dest)

    assert (made.exists(), dest.read_text()) == (False, "new")


def test_require_space_refuses_what_no_disk_has(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not enough disk space") as caught:
        require_space("source", tmp_path, 2**62)

    assert caught.value.retryable
