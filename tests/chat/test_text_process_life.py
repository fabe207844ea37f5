"""Check what the text process leaves behind, and what the gateway loads for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.appliance_server import wait_until
from tests.chat.test_text_process import SPITEFUL, is_gone
from tests.chat.tiny import write_model

pytestmark = pytest.mark.slow

GATEWAY = """
import asyncio, sys
from pathlib import Path
from appliance.chat.client import TextProcess
from tests.chat.tiny import ask

async def main():
    process = TextProcess(time_limit=600)
    await process.start()
    await process.configure("m", Path(sys.argv[1]), None)
    render = asyncio.create_task(process.render("m", ask(sys.argv[2])))
    await asyncio.wait([render], timeout=0.1)
    print(process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("word", ["x", "loop"])
def test_process_ends_with_its_gateway_even_while_a_template_loops(
    tmp_path: Path, word: str
) -> None:
    folder = write_model(tmp_path, SPITEFUL)
    command = [sys.executable, "-c", GATEWAY, str(folder), word]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        pid = int(gateway.stdout.readline())
        assert not is_gone(pid)

        os.kill(gateway.pid, signal.SIGKILL)

        wait_until(lambda: is_gone(pid), 10, "the text process is gone")


def test_client_loads_nothing_that_belongs_into_the_process() -> None:
    code = (
        "import sys, appliance.chat.client, appliance.chat.sampling, appliance.chat.event\n"
        "print(*sorted({'tokenizers', 'jinja2', 'transformers', 'mlx'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == ""
