"""Answer `vllm-mlx logs`: what did the appliance log lately, and what does it log now?"""

import json
from collections.abc import Mapping
from typing import Any

from appliance.cli.output import Colour, CommandFailed, Exit, painted, printable, say
from appliance.cli.reach import ApplianceClient, decoded, find_door
from appliance.cli.wire import LogBody

_PATH = "/admin/v1/logs"
_COLOURS: dict[str, Colour] = {"debug": "dim", "warning": "yellow", "error": "red"}
_FIRST = ("timestamp", "level", "event")


def run_logs(
    *, lines: int, is_following: bool, url: str | None, state_dir: str | None, as_json: bool
) -> Exit:
    """Write the last `lines` lines, as_json as one object a line, and then those that follow.

    Raises CommandFailed, too if the appliance ends what was to be followed.
    """
    if lines < 0:
        raise CommandFailed("--lines should be at least 0", code=Exit.USAGE)
    client = ApplianceClient(find_door(url, state_dir))
    if not is_following:
        for line in client.get(f"{_PATH}?lines={lines}", LogBody).lines:
            _say_line(line, as_json=as_json)
        return Exit.OK
    with client.stream(f"{_PATH}?lines={lines}&follow=true") as answer:
        for event in answer.events():
            _say_line(
                decoded(event, dict[str, Any], "the log holds something unknown"), as_json=as_json
            )
    raise CommandFailed("the appliance ended its log", code=Exit.NOT_REACHABLE)


def _say_line(line: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(line))
        return
    at, level, event = (printable(str(line.get(key, ""))) for key in _FIRST)
    colour = _COLOURS.get(level)
    padded = f"{level:<7}"
    facts = (f"{key}={_value(line[key])}" for key in line if key not in _FIRST)
    text = " ".join((event, *facts))
    say(f"{at} {painted(padded, colour) if colour else padded} {printable(text)}")


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if isinstance(value, str) and (" " in text or "\n" in text) else text
