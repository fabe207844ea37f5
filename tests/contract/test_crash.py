"""An appliance killed while its manifest is replaced comes back with the old one or the new one."""

import contextlib
import tempfile
import threading
from pathlib import Path

import httpx
import pytest

from tests import plain_http
from tests.appliance_server import start_in, wait_until
from tests.contract.admin import put, status, wait_number

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - {{name: chat, aliases: [{alias}], source: "scripted:a.yaml"}}
"""


@pytest.mark.parametrize("tenths", range(6))
def test_killed_while_applying_it_serves_a_whole_manifest(tenths: int) -> None:
    left, right = MANIFEST.format(alias="left"), MANIFEST.format(alias="right")
    with tempfile.TemporaryDirectory(prefix="vm-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "a.yaml").write_text("[]\n")
        (folder / "vllm-mlx.yaml").write_text(left)
        running = start_in(folder, {}, ())
        wait_number(running, 1)
        timer = threading.Timer(0.03 * tenths, running.process.kill)
        timer.start()

        with contextlib.suppress(httpx.HTTPError):
            while True:
                put(running, right)
                put(running, left)
        timer.join()
        running.stop()

        again = start_in(folder, {}, ())
        try:
            text = again.manifest.read_text()
            alias = text.partition("aliases: [")[2].partition("]")[0]
            wait_until(lambda: status(again)["state"] == "converged", what="the restart")
            manifest = plain_http.get(f"{again.url}/admin/v1/manifest").json()
            history = plain_http.get(f"{again.url}/admin/v1/history").json()["revisions"]
            assert text in (left, right)
            assert plain_http.get(f"{again.url}/v1/models/{alias}").status_code == 200
            assert manifest["text"] == text
            assert history[0]["is_in_force"]
            assert {each.name for each in folder.iterdir()} <= {
                "a.yaml",
                "vllm-mlx.yaml",
                ".vllm-mlx.yaml.draft",
                "state",
                "stderr.txt",
            }
        finally:
            again.stop()
