"""Many edits under load lose no request and no edit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.admin import save_by_rename, wait_number
from tests.contract.http import read_events, stream_chat

pytestmark = pytest.mark.slow

_PIECES = 40
_STREAMS = 16
_EDITS = 40
FILES = {"a.yaml": f'- {{match: go, pieces: ["t "], piece_delay: 10ms, repeat: {_PIECES}}}\n'}


def _manifest(edit: int) -> str:
    return (
        "version: 1\nmodels:\n"
        f"  - {{name: chat, aliases: [edit-{edit}], source: 'scripted:a.yaml', "
        "residency: {preload: true}}\n"
    )


def _keep_streaming(running: RunningAppliance, stop: threading.Event) -> int:
    count = 0
    while not stop.is_set():
        with stream_chat(running.url, "go") as response:
            events, _ = read_events("".join(response.iter_text()))
        assert sum(bool(e["choices"][0]["delta"].get("content")) for e in events[:-1]) == _PIECES
        count += 1
    return count


@pytest.mark.timeout(180)
def test_edits_under_load_lose_nothing() -> None:
    stop = threading.Event()
    with running_appliance(_manifest(0), FILES) as running, ThreadPoolExecutor(_STREAMS) as pool:
        wait_number(running, 1)
        streaming = [pool.submit(_keep_streaming, running, stop) for _ in range(_STREAMS)]
        try:
            for edit in range(1, _EDITS + 1):
                save_by_rename(running.manifest, _manifest(edit))
                wait_number(running, edit + 1)
                assert plain_http.get(f"{running.url}/v1/models/edit-{edit}").status_code == 200
        finally:
            stop.set()
        counts = [each.result() for each in streaming]

    assert all(counts)


def test_burst_of_edits_ends_with_the_last() -> None:
    with running_appliance(_manifest(0), FILES) as running:
        wait_number(running, 1)

        for edit in range(1, 30):
            save_by_rename(running.manifest, _manifest(edit))

        last = f"{running.url}/v1/models/edit-29"
        wait_until(lambda: plain_http.get(last).status_code == 200, what="the last edit")
        assert plain_http.get(f"{running.url}/admin/v1/status").json()["reload"]["is_ok"]
