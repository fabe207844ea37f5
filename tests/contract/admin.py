"""Speak to an appliance's admin API, and change its manifest as operators do."""

import json
import os
from pathlib import Path
from typing import Any

import httpx

from tests import plain_http
from tests.appliance_server import DEADLINE_SECONDS, RunningAppliance, wait_until


def status(running: RunningAppliance) -> dict[str, Any]:
    answer = plain_http.get(f"{running.url}/admin/v1/status", timeout=10)
    answer.raise_for_status()
    body: dict[str, Any] = answer.json()
    return body


def model_status(running: RunningAppliance, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in status(running)["models"] if each["name"] == name)
    return found


def wait_number(
    running: RunningAppliance,
    number: int,
    state: str = "converged",
    seconds: float = DEADLINE_SECONDS,
) -> None:
    """Wait until this revision is in force and the appliance is in this state."""

    def is_there() -> bool:
        now = status(running)
        return bool(now["number"] == number and now["state"] == state)

    wait_until(is_there, seconds, f"revision {number} {state}")


def save_by_rename(file: Path, text: str) -> None:
    """Save as most editors do: write another file, and move it there."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)  # noqa: PTH105 - the call editors make


def put(running: RunningAppliance, text: str, if_match: str = "*", **more: str) -> httpx.Response:
    headers = {"if-match": if_match, "content-type": "application/yaml", **more}
    return plain_http.put(
        f"{running.url}/admin/v1/manifest", content=text.encode(), headers=headers, timeout=30
    )


def post(running: RunningAppliance, path: str, body: object = None) -> httpx.Response:
    return plain_http.post(f"{running.url}/admin/v1/{path}", json=body, timeout=30)


def plan(running: RunningAppliance, text: str) -> dict[str, dict[str, Any]]:
    """Return the actions planned for a text, by model."""
    answer = plain_http.post(f"{running.url}/admin/v1/plan", content=text.encode(), timeout=30)
    answer.raise_for_status()
    return {action["model"]: action for action in answer.json()["actions"]}


def first_status_event(running: RunningAppliance) -> dict[str, Any]:
    """Return the first event of the watched status."""
    url = f"{running.url}/admin/v1/status?watch=true"
    with plain_http.stream("GET", url, timeout=10) as response:
        line = next(line for line in response.iter_lines() if line.startswith("data: "))
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found
