"""Hold what the engine thread has to say until the reader thread can send it."""

import threading
from collections.abc import Callable

from appliance.engine.wire import FromWorker, Row, Step


class Outbox:
    """Frames between the engine thread, which fills it, and the reader thread, which takes them.

    Steps not yet taken are merged into one with a single growing row per id, so what waits is
    bounded by the open requests and their `max_tokens`, however long the socket stays full. A
    producer that can wait asks `has_room` first and never sees its steps merged. Ids are never
    used twice. Every method may be called from any thread; `wake` is called when something comes
    to an empty outbox, `on_room` when it was taken after `has_room` said no; neither may block.
    """

    def __init__(self, wake: Callable[[], None], on_room: Callable[[], None]) -> None:
        self._wake = wake
        self._on_room = on_room
        self._lock = threading.Lock()
        self._frames: list[FromWorker] = []
        self._step: Step | None = None
        self._rows: dict[str, Row] = {}
        self._last: FromWorker | None = None
        self._is_closed = False
        self._is_room_wanted = False

    def post(self, frame: FromWorker) -> None:
        """Add a frame that is no Step; it goes before any step that is still here.

        So an Accepted always precedes the rows of its id.
        """
        with self._lock:
            self._frames.append(frame)
        self._wake()

    def publish(self, step: Step) -> None:
        """Add a step, merged into the one that still waits here; takes ownership of its rows."""
        with self._lock:
            waiting = self._step
            self._step = step if waiting is None else self._merge(waiting, step)
        if waiting is None:
            self._wake()

    def close(self, last: FromWorker | None = None) -> None:
        """Say that nothing follows but `last`, which goes after everything else."""
        with self._lock:
            self._last = last
            self._is_closed = True
        self._wake()

    @property
    def is_closed(self) -> bool:
        """Say whether the engine has said its last word."""
        return self._is_closed

    def has_room(self) -> bool:
        """Say whether no step waits here; after a no, `on_room` is called once there is room."""
        with self._lock:
            self._is_room_wanted = self._step is not None
            return not self._is_room_wanted

    def take(self) -> list[FromWorker]:
        """Return everything that waits, in the order in which it must be sent."""
        with self._lock:
            frames, self._frames = self._frames, []
            if self._step is not None:
                frames.append(self._step)
                self._step = None
                self._rows = {}
            if self._last is not None:
                frames.append(self._last)
                self._last = None
            tell, self._is_room_wanted = self._is_room_wanted, False
        if tell:
            self._on_room()
        return frames

    def _merge(self, old: Step, new: Step) -> Step:
        rows = self._rows or {row.id: row for row in old.rows}
        self._rows = rows
        for row in new.rows:
            known = rows.setdefault(row.id, row)
            if known is row:
                old.rows.append(row)
                continue
            known.text += row.text
            known.tokens += row.tokens
            known.ids.extend(row.ids)
            known.logprobs.extend(row.logprobs)
            known.lengths.extend(row.lengths)
            known.end = row.end
        seconds = dict(old.seconds)
        for phase, spent in new.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + spent
        return Step(
            model=new.model,
            number=new.number,
            seconds=seconds,
            batch_size=new.batch_size,
            waiting=new.waiting,
            memory_bytes=new.memory_bytes,
            rows=old.rows,
            started=old.started + new.started,
            preempted=old.preempted + new.preempted,
        )
