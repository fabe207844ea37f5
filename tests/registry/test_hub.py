from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.errors import SourceError
from tests.registry.fake_hub import COMMIT, NEXT_COMMIT, REPO, FakeHub, fake_hub, model_files
from tests.registry.ground import hub_store, materialise

pytestmark = pytest.mark.slow

LARGE_BYTES = 25_000_000
DROP_BYTES = 15_000_000


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as server:
        yield server


def failure(state_dir: Path, hub: FakeHub, text: str = f"hf:{REPO}@v1") -> SourceError:
    with pytest.raises(SourceError) as caught:
        materialise(hub_store(state_dir, hub.endpoint), text)
    return caught.value


def test_hub_source_gives_only_what_mlx_needs(tmp_path: Path, hub: FakeHub) -> None:
    found = materialise(hub_store(tmp_path, hub.endpoint), f"hf:{REPO}@{COMMIT}")

    names = {path.relative_to(found).as_posix() for path in found.rglob("*")}
    assert names == {"config.json", "tokenizer.json", "model.safetensors"}


def test_hub_source_asks_a_pinned_hub_only_once(tmp_path: Path, hub: FakeHub) -> None:
    store = hub_store(tmp_path, hub.endpoint)
    first = materialise(store, f"hf:{REPO}@v1")
    hub.requests.clear()

    second = materialise(store, f"hf:{REPO}@v1")

    assert second == first
    assert not hub.requests


def test_hub_source_takes_the_pinned_revision(tmp_path: Path, hub: FakeHub) -> None:
    hub.publish(NEXT_COMMIT, model_files() | {"tokenizer.json": b'{"new": 1}'})
    store = hub_store(tmp_path, hub.endpoint)

    pinned = materialise(store, f"hf:{REPO}@v1")
    newest = materialise(store, f"hf:{REPO}")

    assert (pinned / "tokenizer.json").read_bytes() == b"{}"
    assert (newest / "tokenizer.json").read_bytes() == b'{"new": 1}'


def test_hub_source_without_revision_follows_the_hub(tmp_path: Path, hub: FakeHub) -> None:
    store = hub_store(tmp_path, hub.endpoint)
    first = materialise(store, f"hf:{REPO}")
    hub.publish(NEXT_COMMIT, model_files() | {"tokenizer.json": b'{"new": 1}'})

    second = materialise(store, f"hf:{REPO}")

    assert second != first
    assert (second / "tokenizer.json").read_bytes() == b'{"new": 1}'


def test_hub_source_falls_back_to_its_snapshot_when_the_hub_is_down(tmp_path: Path) -> None:
    with fake_hub() as hub:
        first = materialise(hub_store(tmp_path, hub.endpoint), f"hf:{REPO}")

    second = materialise(hub_store(tmp_path, hub.endpoint), f"hf:{REPO}")

    assert second == first


def test_hub_source_is_retryable_when_the_hub_is_down(tmp_path: Path) -> None:
    with fake_hub() as hub:
        pass

    error = failure(tmp_path, hub)

    assert "cannot be reached" in error.reason
    assert error.retryable


def test_hub_source_resumes_a_dropped_connection(tmp_path: Path) -> None:
    files = model_files(LARGE_BYTES)
    with fake_hub(files) as hub:
        hub.drop_after_bytes = DROP_BYTES
        found = materialise(hub_store(tmp_path, hub.endpoint), f"hf:{REPO}@v1")

    assert (found / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert hub.ranges == ["model.safetensors"]


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        pytest.param((403, "GatedRepo"), "gated", id="gated"),
        pytest.param((404, "RepoNotFound"), "no such repository", id="no repository"),
        pytest.param((401, "RepoNotFound"), "or it is private", id="private"),
        pytest.param((404, "RevisionNotFound"), "no revision 'v1'", id="no revision"),
    ],
)
def test_hub_source_says_why_it_is_refused(
    tmp_path: Path, hub: FakeHub, refusal: tuple[int, str], said: str
) -> None:
    hub.refuse_with = refusal

    error = failure(tmp_path, hub)

    assert said in error.reason
    assert not error.retryable


def test_hub_source_never_takes_a_repository_without_safetensors(tmp_path: Path) -> None:
    with fake_hub({"config.json": b"{}", "model.gguf": b"GGUF"}) as hub:
        error = failure(tmp_path, hub)

    assert "no safetensors" in error.reason


def test_hub_source_is_refused_when_a_shard_is_missing(tmp_path: Path) -> None:
    index = b'{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}'
    with fake_hub(model_files() | {"model.safetensors.index.json": index}) as hub:
        error = failure(tmp_path, hub)

    assert error.reason == "weights are missing: model-2.safetensors"


def test_hub_source_sends_no_token_to_a_mirror(tmp_path: Path, hub: FakeHub) -> None:
    materialise(hub_store(tmp_path, hub.endpoint, HF_TOKEN="hf_secret"), f"hf:{REPO}@v1")

    assert not hub.saw_token
