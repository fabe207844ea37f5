"""Say how a seat looks: to whoever plans, and to whoever asks for its status."""

import time

from appliance.registry.observed import ObservedModel
from appliance.registry.phase import ModelStatus, Phase
from appliance.registry.seat import Seat
from appliance.registry.surroundings import Wish


def observe(seat: Seat) -> ObservedModel:
    """Return what a plan starts from. A copy that leaves counts in `held_bytes` only."""
    seat.settle()
    resident = seat.resident
    is_coming = resident.is_alive and resident.phase is not Phase.READY
    return ObservedModel(
        name=seat.name,
        spec=seat.spec,
        load_key=resident.key if resident.is_alive else None,
        incoming_key=seat.incoming.key if seat.incoming else None,
        failed_key=seat.failed.key if seat.failed else None,
        phase=seat.phase,
        held_bytes=held_bytes(seat),
        is_busy=bool(is_coming or seat.incoming or seat.leaving),
        reason=seat.failed.reason if seat.failed else _reason(seat),
        idle_seconds=seat.idle.idle_seconds,
        num_leases=seat.num_leases,
    )


def report(seat: Seat, wish: Wish) -> ModelStatus:
    """Return how the model looks now; `wish` is the one in force."""
    observed, resident = observe(seat), seat.resident
    loaded, copies = resident.loaded, tuple(seat.copies())
    profiles = seat.policies[1:] if seat.is_served else ()
    return ModelStatus(
        name=seat.name,
        phase=observed.phase,
        reason=_reason(seat),
        seconds_in_phase=time.monotonic() - resident.since,
        is_required=seat.is_served and wish == "must",
        wish=wish,
        desired_key=seat.key,
        observed_key=observed.load_key,
        incoming_key=observed.incoming_key,
        failed_key=observed.failed_key,
        requests=seat.num_leases,
        restarts=resident.restarts,
        worker_pid=loaded.engine.pid if loaded else None,
        context_tokens=loaded.context_tokens if loaded else None,
        memory_bytes=sum(copy.memory_bytes for copy in copies),
        held_bytes=observed.held_bytes,
        retry_in_seconds=_retry_in_seconds(seat),
        last_error=_last_error(seat),
        progress=(seat.incoming or resident).progress,
        profiles=tuple(spec.name for spec in profiles),
    )


def held_bytes(seat: Seat) -> int:
    """Return the bytes promised for all copies.

    One that waits for the others to leave will have their room, and need not have its own yet.
    """
    copies = tuple(seat.copies())
    beside = sum(copy.held_bytes for copy in copies if not copy.is_held)
    return max([beside, *(copy.held_bytes for copy in copies if copy.is_held)])


def _reason(seat: Seat) -> str:
    leaving = next(iter(seat.leaving), None)
    if seat.phase is Phase.DRAINING and leaving is not None:
        return leaving.reason
    return seat.resident.reason


def _retry_in_seconds(seat: Seat) -> float | None:
    own = seat.resident.retry_in_seconds
    return own if own is not None or seat.incoming is None else seat.incoming.retry_in_seconds


def _last_error(seat: Seat) -> str | None:
    if seat.failed is not None:
        return seat.failed.reason
    incoming = seat.incoming.last_error if seat.incoming else None
    return incoming or seat.resident.last_error
