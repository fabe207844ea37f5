"""Run a registry child process and follow the JSON lines it writes."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.errors import SourceError
from appliance.launch import module_command, module_environment

OnProgress = Callable[[str, int, int], None]

_LINE_BYTES = 2**20


@dataclass(frozen=True)
class Job:
    """What the child processes of one piece of work share.

    `source` names it in errors; `on_progress` gets phase, done and total on the event loop;
    `lock` is a descriptor that every child holds; `environment` None = this process's own.
    """

    source: str
    on_progress: OnProgress
    lock: int
    environment: Mapping[str, str] | None = None

    async def run(self, module: str, *args: str) -> dict[str, Any]:
        """Run `python -m module args…` to its end and return the last JSON object it wrote.

        The child starts in a session of its own and reads end of file on its standard input
        when this process is gone. Raises SourceError as the child words it. However this ends,
        also by cancellation, the child's whole session is gone afterwards.
        """
        return await _run(self, module, *args)


async def _run(job: Job, module: str, *args: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *module_command(module, *args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        pass_fds=(job.lock,),
        env=module_environment(job.environment),
        limit=_LINE_BYTES,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    last: dict[str, Any] = {}
    try:
        async for line in process.stdout:
            last = _parse(line) or last
            if "phase" in last:
                job.on_progress(last["phase"], last["done"], last["total"])
        code = await process.wait()
    finally:
        _kill_session(process.pid)
        process.stdin.close()
        await process.stdout.read()
        await process.wait()
    if "error" in last:
        raise SourceError(job.source, last["error"], retryable=last["retryable"])
    if code:
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise SourceError(job.source, f"{module} ended with {ending}", retryable=code < 0)
    return last


def _parse(line: bytes) -> dict[str, Any] | None:
    # A killed child may leave half a line, and a library may print a line of its own.
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _kill_session(leader: int) -> None:
    # A group keeps its number while any member lives, so this cannot reach a stranger unless
    # the whole session is gone already and the number was given out again within microseconds.
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
