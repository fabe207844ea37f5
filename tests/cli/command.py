"""Run `vllm-mlx` as a user does, and see what it says."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.appliance_server import DEADLINE_SECONDS, clean_environment

COMMAND = [sys.executable, "-m", "appliance"]


def run_command(
    *args: str | Path,
    text: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with `text` as its input; a traceback is always wrong."""
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        input=text,
        env=clean_environment() | dict(env or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


class Terminal:
    """A command that runs in a pseudo terminal; what it wrote is `text`. One thread."""

    def __init__(self, *args: str | Path, env: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, args)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=clean_environment() | {"TERM": "dumb"} | dict(env or {}),
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, text: str | bytes) -> None:
        """Type something; wait for the prompt first: between two lines a terminal eats Ctrl-D."""
        os.write(self._master, text if isinstance(text, bytes) else text.encode())

    def wait_for(self, pattern: str, seconds: float = DEADLINE_SECONDS) -> str:
        """Return everything written so far, once the pattern is in what came since last time."""
        deadline = time.monotonic() + seconds
        seen = ""
        while re.search(pattern, seen) is None:
            left = deadline - time.monotonic()
            ready = select.select([self._master], [], [], max(0.0, left))[0]
            assert ready, f"not written within {seconds} s: {pattern}; but: {self.text}"
            seen += self._read()
        return self.text

    def wait_end(self) -> int:
        """Return the exit code."""
        return self.process.wait(DEADLINE_SECONDS)

    def _read(self) -> str:
        try:
            piece = os.read(self._master, 4096).decode(errors="replace")
        except OSError as error:  # how Linux tells that the other end is closed
            raise AssertionError(f"the command ended: {self.text}") from error
        self.text += piece
        return piece
