"""An edited manifest takes force while everything that did not change goes on."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.admin import (
    first_status_event,
    model_status,
    post,
    put,
    save_by_rename,
    status,
    wait_number,
)
from tests.contract.http import metric, post_chat, read_events, stream_chat

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
server: {drain: 2s}
models:
  - {name: chat, aliases: [old-alias], source: "scripted:a.yaml", residency: {preload: true}}
"""
RENAMED = MANIFEST.replace("old-alias", "new-alias")
BROKEN = MANIFEST.replace("aliases", "alises")
FILES = {
    "a.yaml": '- {match: forever, pieces: ["tick "], piece_delay: 20ms, repeat: 100000}\n'
    '- {match: who, pieces: ["I am a"]}\n',
    "b.yaml": '- {match: who, pieces: ["I am b"]}\n',
}


@pytest.fixture
def running() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, FILES) as appliance:
        wait_number(appliance, 1)
        yield appliance


def _answers(running: RunningAppliance, name: str) -> int:
    return post_chat(
        running.url, {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    ).status_code


def test_saved_edit_takes_force_under_a_running_stream(running: RunningAppliance) -> None:
    worker = model_status(running, "chat")["worker_pid"]
    with stream_chat(running.url, "forever", max_tokens=30) as response:
        lines = response.iter_lines()
        next(lines)

        save_by_rename(running.manifest, RENAMED)
        wait_number(running, 2)
        rest = list(lines)

    assert "data: [DONE]" in rest
    assert (_answers(running, "new-alias"), _answers(running, "old-alias")) == (200, 404)
    assert model_status(running, "chat")["worker_pid"] == worker


def test_edits_of_every_kind_are_seen(running: RunningAppliance) -> None:
    subprocess.run(["sed", "-i.bak", "s/old-alias/sed-alias/", str(running.manifest)], check=True)
    wait_number(running, 2)

    real = running.folder / "real"
    real.mkdir()
    (real / "one.yaml").write_text(RENAMED)
    link = running.folder / "link"
    link.symlink_to(real / "one.yaml")
    link.replace(running.manifest)
    wait_number(running, 3)
    (real / "two.yaml").write_text(MANIFEST)
    link.symlink_to(real / "two.yaml")
    link.replace(running.manifest)
    wait_number(running, 4)

    assert _answers(running, "old-alias") == 200


def test_comments_and_the_order_of_keys_change_nothing(running: RunningAppliance) -> None:
    before = status(running)["revision"]

    running.manifest.write_text(MANIFEST + "# a comment\n")
    wait_number(running, 2)

    assert status(running)["revision"] == before
    accepted = [line for line in running.logs() if line.get("event") == "manifest_accepted"]
    assert [line["is_changed"] for line in accepted] == [True, False]


def test_bad_edit_changes_nothing_and_says_why(running: RunningAppliance) -> None:
    save_by_rename(running.manifest, BROKEN)
    wait_until(lambda: not status(running)["reload"]["is_ok"], what="the rejection")

    now = status(running)
    assert now["state"] == "degraded"
    assert now["number"] == 1
    assert any("alises" in problem for problem in now["reload"]["problems"])
    assert metric(running.url, "vllm_mlx_config_last_reload_successful") == 0
    assert _answers(running, "old-alias") == 200
    assert any(line.get("event") == "manifest_rejected" for line in running.logs())

    save_by_rename(running.manifest, RENAMED)
    wait_number(running, 2)
    assert metric(running.url, "vllm_mlx_config_last_reload_successful") == 1


def test_vanished_file_keeps_the_manifest_in_force(running: RunningAppliance) -> None:
    running.manifest.unlink()
    wait_until(lambda: not status(running)["reload"]["is_ok"], what="the rejection")

    assert _answers(running, "old-alias") == 200


def test_second_editor_is_told(running: RunningAppliance) -> None:
    etag = plain_http.get(f"{running.url}/admin/v1/manifest").json()["etag"]

    first = put(running, RENAMED, if_match=f'"{etag}"')
    second = put(running, MANIFEST.replace("old-alias", "mine"), if_match=f'"{etag}"')

    assert (first.status_code, second.status_code) == (200, 412)
    assert running.manifest.read_text() == RENAMED
    wait_number(running, 2)


def test_put_refuses_what_is_wrong_and_writes_nothing(running: RunningAppliance) -> None:
    answer = put(running, BROKEN)

    assert answer.status_code == 422
    assert answer.json()["error"]["problems"][0]["line"] == 4
    assert running.manifest.read_text() == MANIFEST
    assert status(running)["number"] == 1


def test_manifest_is_written_as_sent(running: RunningAppliance) -> None:
    text = "# why\n" + RENAMED + "# end\n"

    put(running, text).raise_for_status()

    assert running.manifest.read_text() == text
    assert plain_http.get(f"{running.url}/admin/v1/manifest").json()["text"] == text


def test_rollback_returns_to_the_revision_before(running: RunningAppliance) -> None:
    put(running, RENAMED).raise_for_status()
    wait_number(running, 2)

    post(running, "rollback", {}).raise_for_status()
    wait_number(running, 3)

    assert running.manifest.read_text() == MANIFEST
    history = plain_http.get(f"{running.url}/admin/v1/history").json()["revisions"]
    assert [(row["number"], row["how"]) for row in history] == [
        (3, "rollback"),
        (2, "apply"),
        (1, "start"),
    ]
    acts = plain_http.get(f"{running.url}/admin/v1/audit").json()["acts"]
    assert {act["act"] for act in acts} == {"apply", "rollback"}


def test_status_can_be_watched(running: RunningAppliance) -> None:
    assert first_status_event(running)["state"] == "converged"


def test_limits_keys_and_doors_change_without_a_dropped_connection(
    running: RunningAppliance,
) -> None:
    with httpx.Client(base_url=running.url) as client:
        assert client.get("/v1/models").status_code == 200
        keyed = MANIFEST + "auth_keys:\n  - {name: ops, key: {env: OPS_KEY}, roles: [admin]}\n"

        refused = client.put("/admin/v1/manifest", content=keyed)
        digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
        keyed = keyed.replace("{env: OPS_KEY}", f"{{sha256: {digest}}}")
        client.put("/admin/v1/manifest", content=keyed).raise_for_status()

        assert refused.status_code == 422
        assert client.get("/v1/models").status_code == 401
        headers = {"x-api-key": "secret"}
        assert client.get("/admin/v1/status", headers=headers).status_code == 200


def test_unloaded_model_stays_away_until_a_revision_touches_it(running: RunningAppliance) -> None:
    post(running, "models/chat/unload").raise_for_status()
    wait_until(lambda: model_status(running, "chat")["phase"] == "absent", what="the unload")
    assert model_status(running, "chat")["override"] == "must_not"
    assert _answers(running, "old-alias") == 503

    put(running, RENAMED).raise_for_status()
    wait_number(running, 2)

    assert model_status(running, "chat")["phase"] == "ready"
    assert model_status(running, "chat")["override"] is None


def test_stream_events_are_whole_after_a_reload(running: RunningAppliance) -> None:
    with stream_chat(running.url, "forever", max_tokens=40) as response:
        put(running, RENAMED).raise_for_status()
        raw = "".join(response.iter_text())

    events, _ = read_events(raw)
    assert events[-1] == "[DONE]"


def test_history_survives_a_restart(tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    with running_appliance(MANIFEST, FILES, args=state) as appliance:
        wait_number(appliance, 1)
    with running_appliance(RENAMED, FILES, args=state) as appliance:
        wait_number(appliance, 2)
        history = plain_http.get(f"{appliance.url}/admin/v1/history").json()["revisions"]

    assert [row["is_in_force"] for row in history] == [True, False]
    assert "+" in history[0]["diff"]


def test_hangup_reads_the_file_again_and_ends_nothing(running: RunningAppliance) -> None:
    running.process.send_signal(signal.SIGHUP)
    save_by_rename(running.manifest, RENAMED)
    running.process.send_signal(signal.SIGHUP)

    wait_number(running, 2)

    assert running.process.poll() is None
    assert _answers(running, "new-alias") == 200


def test_events_tell_what_the_appliance_did(running: RunningAppliance) -> None:
    with plain_http.stream("GET", f"{running.url}/admin/v1/events", timeout=10) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        put(running, RENAMED).raise_for_status()
        event = json.loads(next(lines).removeprefix("data: "))

    assert (event["event"], event["number"]) == ("manifest_accepted", 2)


def test_broken_file_can_be_replaced_by_who_saw_it(running: RunningAppliance) -> None:
    save_by_rename(running.manifest, BROKEN)
    wait_until(lambda: not status(running)["reload"]["is_ok"], what="the rejection")
    etag = plain_http.get(f"{running.url}/admin/v1/manifest").headers["etag"]

    put(running, RENAMED, if_match=etag).raise_for_status()

    wait_number(running, 2)


def test_hangup_takes_a_rotated_key_into_force(running: RunningAppliance) -> None:
    key_file = running.folder / "key.txt"
    key_file.write_text("first-key-of-all")
    keyed = MANIFEST + "auth_keys:\n  - {name: ops, key: {file: key.txt}, roles: [admin]}\n"
    put(running, keyed).raise_for_status()
    url = f"{running.url}/admin/v1/status"
    assert plain_http.get(url, headers={"x-api-key": "first-key-of-all"}).status_code == 200

    key_file.write_text("second-key-of-all")
    running.process.send_signal(signal.SIGHUP)

    new = {"x-api-key": "second-key-of-all"}
    wait_until(lambda: plain_http.get(url, headers=new).status_code == 200, what="the new key")
    assert plain_http.get(url, headers={"x-api-key": "first-key-of-all"}).status_code == 401


def test_web_pages_of_other_origins_cannot_administer(running: RunningAppliance) -> None:
    url = f"{running.url}/admin/v1/reload"

    foreign = plain_http.post(url, headers={"origin": "https://evil.example"})
    own = plain_http.post(url, headers={"origin": running.url})

    assert (foreign.status_code, own.status_code) == (403, 200)


def test_edit_of_one_model_tries_no_other_again(running: RunningAppliance) -> None:
    broken = "  - {name: other, source: 'scripted:none.yaml', residency: {preload: true}}\n"
    put(running, MANIFEST + broken).raise_for_status()
    wait_until(lambda: model_status(running, "other")["last_error"], what="the failure")
    failures = _count(running, "model_load_failed")

    put(running, RENAMED + broken).raise_for_status()
    wait_until(lambda: _answers(running, "new-alias") == 200, what="the edit")

    assert _count(running, "model_load_failed") == failures > 0


def _count(running: RunningAppliance, event: str) -> int:
    return sum(line.get("event") == event for line in running.logs())


def test_keys_tell_what_was_used(running: RunningAppliance) -> None:
    assert _answers(running, "chat") == 200

    (row,) = plain_http.get(f"{running.url}/admin/v1/keys").json()["keys"]

    assert (row["name"], row["num_requests"]) == ("", 1)
    assert row["prompt_tokens"] > 0


def test_readiness_is_of_what_operators_want(running: RunningAppliance) -> None:
    post(running, "models/chat/unload").raise_for_status()
    wait_until(lambda: model_status(running, "chat")["phase"] == "absent", what="the unload")

    ready = plain_http.get(f"{running.url}/health/ready")

    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "waiting_for": []})
