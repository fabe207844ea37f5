"""Follow the appliance's status, and wait until a revision has converged."""

import contextlib
import sys
from collections.abc import Generator

from appliance.cli.output import (
    Cell,
    Colour,
    CommandFailed,
    Exit,
    Tinted,
    complain,
    painted,
    printable,
    readable_seconds,
    say,
    table_lines,
)
from appliance.cli.reach import ApplianceClient, decoded
from appliance.cli.screen import Block, can_redraw
from appliance.cli.wire import ModelStatusBody, ProgressBody, StatusBody
from appliance.manifest.quantity import readable_bytes

_MOVING = frozenset({"downloading", "loading", "verifying", "draining"})
_COLOURS: dict[str, Colour] = {"ready": "green", "failed": "red", "absent": "dim"}
_BAR_CHARACTERS = 20
_LEAVING = "the appliance goes on without this command; 'vllm-mlx status --watch' shows how far"


def statuses(client: ApplianceClient) -> Generator[StatusBody]:
    """Yield the status now and after each change, until the stream ends; raises CommandFailed."""
    with client.stream("/admin/v1/status?watch=true") as answer:
        for event in answer.events():
            yield decoded(event, StatusBody, "the status stream holds something unknown")


def wait_converged(client: ApplianceClient, number: int) -> Exit:
    """Draw the progress of revision `number` until all is done, or as much as can be.

    Returns OK or NOT_CONVERGED and says to a person what failed. Raises CommandFailed if the
    appliance hangs up or somebody else's revision takes its place.
    """
    try:
        status = _follow(client, number)
    except KeyboardInterrupt:
        complain(_LEAVING)
        raise
    if status.state == "converged":
        say(f"{painted(*painted_state(status.state))}: revision {number}")
        return Exit.OK
    complain(*_failures(status), f"revision {number} is in force and has not converged")
    return Exit.NOT_CONVERGED


def phase_cell(model: ModelStatusBody) -> Cell:
    """Return a model's phase in its colour."""
    return Tinted(model.phase, _COLOURS.get(model.phase, "yellow"))


def painted_state(state: str) -> Tinted:
    """Return the appliance's state in its colour."""
    colours: dict[str, Colour] = {"converged": "green", "converging": "yellow"}
    return Tinted(printable(state), colours.get(state, "red"))


def situation(model: ModelStatusBody) -> str:
    """Return what a person wants to know of a model besides its phase; empty if nothing."""
    if model.progress is not None:
        return _progress(model.progress)
    reason = model.last_error or model.reason or ""
    if model.retry_in_seconds is not None:
        return f"{reason}; tried again in {readable_seconds(model.retry_in_seconds)}"
    return "" if model.phase == "ready" and not model.last_error else reason


def _follow(client: ApplianceClient, number: int) -> StatusBody:
    drawing = Drawing() if can_redraw(sys.stdout) else Telling()
    with contextlib.closing(statuses(client)) as stream:
        for status in stream:
            current = status.number or 0
            if current > number:
                raise CommandFailed(
                    f"revision {current} took the place of {number}", code=Exit.NOT_CONVERGED
                )
            if current < number:
                continue
            drawing.show(status)
            if _is_settled(status):
                return status
    raise CommandFailed(
        f"the appliance hung up before revision {number} had converged", code=Exit.NOT_CONVERGED
    )


def _is_settled(status: StatusBody) -> bool:
    """Say whether waiting is over: a degraded appliance may still be at work on other models."""
    if status.state == "degraded":
        return not any(map(_is_moving, status.models))
    return status.state == "converged"


def _is_moving(model: ModelStatusBody) -> bool:
    return model.phase in _MOVING or model.progress is not None


def _failures(status: StatusBody) -> list[str]:
    failed = (model for model in status.models if model.last_error or model.phase == "failed")
    return [f"{model.name}: {situation(model)}" for model in failed]


class Drawing:
    """One line for every model that moves or moved, kept current. For terminals."""

    def __init__(self) -> None:
        self._block = Block(sys.stdout)
        self._moved: set[str] = set()

    def show(self, status: StatusBody) -> None:
        """Draw a status."""
        self._moved |= {model.name for model in status.models if _is_moving(model)}
        rows = [self._row(model) for model in status.models if model.name in self._moved]
        # The heading that every table has says nothing here.
        self._block.draw(table_lines(("", "", ""), rows)[1:])

    def _row(self, model: ModelStatusBody) -> tuple[Cell, ...]:
        return (model.name, phase_cell(model), _bar(model.progress) + situation(model))


class Telling:
    """A line whenever a model enters a phase or has come a tenth further. For pipes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[object, ...]] = {}

    def note(self, status: StatusBody) -> None:
        """Remember a status that was told otherwise."""
        self._told = {model.name: self._news(model) for model in status.models}

    def show(self, status: StatusBody) -> None:
        """Write what is new in a status."""
        for model in status.models:
            before = self._told.get(model.name)
            is_worth_telling = _is_moving(model) if before is None else before != self._news(model)
            if is_worth_telling:
                say(f"{model.name}: {printable(model.phase)} {situation(model)}".rstrip())
        self.note(status)

    def _news(self, model: ModelStatusBody) -> tuple[object, ...]:
        progress = model.progress
        if progress is None:
            return (model.phase, model.last_error)
        tenths = 10 * progress.done // progress.total if progress.total else 0
        return (model.phase, model.last_error, progress.phase, tenths)


def _bar(progress: ProgressBody | None) -> str:
    if progress is None or not progress.total:
        return ""
    filled = "#" * min(_BAR_CHARACTERS, _BAR_CHARACTERS * progress.done // progress.total)
    return f"[{filled:.<{_BAR_CHARACTERS}}] "


def _progress(progress: ProgressBody) -> str:
    if not progress.total:
        return progress.phase
    share = 100 * progress.done // progress.total
    amount = f"{readable_bytes(progress.done)} of {readable_bytes(progress.total)}"
    return f"{progress.phase} {share}% ({amount})"
