"""Answer `vllm-mlx diff [FILE]`: how do a file, and what runs, differ from what is in force?"""

import difflib
from pathlib import Path

from appliance.cli.output import Colour, Exit, painted, printable, say, say_json, say_table
from appliance.cli.reach import ApplianceClient, find_door
from appliance.cli.remote import fetch_manifest, read_file
from appliance.cli.watch import phase_cell, situation
from appliance.cli.wire import ManifestBody, ModelStatusBody, StatusBody
from appliance.manifest.setting import MANIFEST_NAME

_COLOURS: dict[str, Colour] = {"+": "green", "-": "red", "@": "dim"}


def run_diff(file: Path | None, *, url: str | None, state_dir: str | None, as_json: bool) -> Exit:
    """Say what differs; NOT_CONVERGED if something does.

    Without a `file` it is ./vllm-mlx.yaml, if there is one. Raises CommandFailed.
    """
    if file is None and Path(MANIFEST_NAME).is_file():
        file = Path(MANIFEST_NAME)
    content = read_file(file) if file else None
    client = ApplianceClient(find_door(url, state_dir))
    manifest = fetch_manifest(client)
    lines = [] if content is None else _compare(manifest, content, str(file))
    status = client.get("/admin/v1/status", StatusBody)
    drifting = [model for model in status.models if is_drifting(model)]
    if as_json:
        say_json(
            {
                "file": str(file) if file else None,
                "in_force": manifest.file,
                "number": manifest.number,
                "diff": "\n".join(lines),
                "drift": [_entry(model) for model in drifting],
            }
        )
    else:
        say_diff(lines)
        _say_drift(drifting)
    return Exit.NOT_CONVERGED if lines or drifting else Exit.OK


def is_drifting(model: ModelStatusBody) -> bool:
    """Say whether a model is not what the manifest says, or an operator wants it otherwise."""
    if model.override is not None:
        return True
    if model.observed_key is None:
        return model.wish == "must"
    return model.wish == "must_not" or model.observed_key != model.desired_key


def say_diff(lines: list[str]) -> None:
    """Write the lines of a unified diff, in colour on a terminal."""
    for line in lines:
        colour = _COLOURS.get(line[:1])
        text = printable(line)
        say(painted(text, colour) if colour else text)


def _compare(manifest: ManifestBody, content: bytes, name: str) -> list[str]:
    text = content.decode("utf-8-sig", errors="replace")
    before, after = manifest.text.splitlines(), text.splitlines()
    title = f"revision {manifest.number}, in force"
    return list(difflib.unified_diff(before, after, title, name, lineterm=""))


def _say_drift(models: list[ModelStatusBody]) -> None:
    if not models:
        return
    headers = ("MODEL", "WISH", "OVERRIDE", "PHASE", "DESIRED", "OBSERVED", "REASON")
    say_table(
        headers,
        [
            (
                model.name,
                model.wish,
                model.override or "",
                phase_cell(model),
                model.desired_key or "-",
                model.observed_key or "-",
                situation(model),
            )
            for model in models
        ],
    )


def _entry(model: ModelStatusBody) -> dict[str, object]:
    return {
        "name": model.name,
        "wish": model.wish,
        "override": model.override,
        "phase": model.phase,
        "desired_key": model.desired_key,
        "observed_key": model.observed_key,
        "reason": model.reason,
    }
