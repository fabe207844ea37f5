"""Keep answers in SQLite, in a file or in memory, within the manifest's bounds."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from appliance.database import open_database
from appliance.errors import InvalidRequest, ResponseNotFound, StateFolderInUse, StoreFailed
from appliance.manifest.spec import ResponsesSpec

_APPLICATION_ID = 0x766D6C72  # "vmlr"
_FILE = "responses.sqlite"
_MEMORY = Path(":memory:")

_MIGRATIONS = (
    """
    CREATE TABLE response (
        id TEXT PRIMARY KEY, key TEXT NOT NULL, previous TEXT, status TEXT NOT NULL,
        answer BLOB NOT NULL, items BLOB NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL
    );
    CREATE INDEX response_by_use ON response (key, used DESC, size);
    CREATE INDEX response_by_age ON response (used);
    """,
)
_COLUMNS = "id, key, previous, status, answer, items"
_DROP_OVERFLOW = """
    DELETE FROM response WHERE rowid IN (
        SELECT rowid FROM (
            SELECT rowid, row_number() OVER newest AS number, sum(size) OVER newest AS total
            FROM response WHERE key = ?
            WINDOW newest AS (ORDER BY used DESC, rowid DESC ROWS UNBOUNDED PRECEDING)
        ) WHERE number > ? OR total > ?
    )
"""


class StoredResponse(msgspec.Struct, frozen=True):
    """An answer as it is kept: `answer` is the response object, `items` its own input, as JSON."""

    id: str
    key: str
    previous: str | None
    status: str
    answer: bytes
    items: bytes

    @property
    def size(self) -> int:
        """What it counts for, in bytes."""
        return len(self.answer) + len(self.items)


class ResponseRows:
    """The database of answers. Every method blocks; any thread may call, one at a time.

    `use` first. A key sees its own answers only. Methods raise StoreFailed.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._spec = ResponsesSpec()
        self._store: sqlite3.Connection | None = None

    def use(self, spec: ResponsesSpec) -> None:
        """Hold to other bounds, and open another place if it says so; what was there stays there.

        Raises StateFolderInUse.
        """
        if self._store is None or spec.kind != self._spec.kind:
            self.close()
            self._store = self._open(spec.kind)
        self._spec = spec
        with self._change() as store:
            for (key,) in store.execute("SELECT DISTINCT key FROM response").fetchall():
                self._prune(store, key)

    def put(self, stored: StoredResponse) -> None:
        """Keep an answer; the oldest of its key make way, but none for one that has no room."""
        if stored.size > self._spec.max_bytes:
            raise StoreFailed(f"an answer of {stored.size} bytes is more than max_bytes allows")
        with self._change() as store:
            row = (*msgspec.structs.astuple(stored), self._clock(), stored.size)
            store.execute("INSERT OR REPLACE INTO response VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._prune(store, stored.key)

    def renew(self, stored: StoredResponse) -> None:
        """Keep how an answer went on, unless it was deleted meanwhile."""
        if self._find(stored.key, stored.id) is not None:
            self.put(stored)

    def get(self, key: str, response_id: str) -> StoredResponse:
        """Return an answer; raises ResponseNotFound, also for another key's."""
        found = self._find(key, response_id)
        if found is None:
            raise ResponseNotFound(response_id)
        return found

    def chain(self, key: str, response_id: str, most_bytes: int) -> list[StoredResponse]:
        """Return an answer behind those it refers to, all of which count as used now.

        Raises ResponseNotFound if one is missing, InvalidRequest if they have more bytes.
        """
        found: list[StoredResponse] = []
        wanted: str | None = response_id
        size = 0
        while wanted is not None:
            found.append(self.get(key, wanted))
            size += found[-1].size
            if size > most_bytes:
                reason = f"the answers before have more than {most_bytes} bytes"
                place = "previous_response_id"
                raise InvalidRequest(f"{place}: {reason}.", param=place)
            wanted = found[-1].previous
        now = self._clock()
        with self._change() as store:
            used = [(now, each.id) for each in found]
            store.executemany("UPDATE response SET used = ? WHERE id = ?", used)
        return found[::-1]

    def delete(self, key: str, response_id: str) -> None:
        """Forget an answer; raises ResponseNotFound."""
        self.get(key, response_id)
        with self._change() as store:
            store.execute("DELETE FROM response WHERE id = ?", (response_id,))

    def close(self) -> None:
        """Let go of the file; the methods fail from now on. Idempotent."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _open(self, kind: str) -> sqlite3.Connection:
        if kind == "memory":
            return open_database(_MEMORY, _APPLICATION_ID, _MIGRATIONS)
        file = self._folder / _FILE
        try:
            # What SQLite puts beside a file is as private as the file itself.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StateFolderInUse(f"{file} cannot be used: {error.strerror}") from error
        return open_database(file, _APPLICATION_ID, _MIGRATIONS)

    def _prune(self, store: sqlite3.Connection, key: str) -> None:
        store.execute("DELETE FROM response WHERE used < ?", (self._oldest(),))
        store.execute(_DROP_OVERFLOW, (key, self._spec.store, self._spec.max_bytes))

    def _oldest(self) -> float:
        return self._clock() - self._spec.max_age

    def _find(self, key: str, response_id: str) -> StoredResponse | None:
        query = f"SELECT {_COLUMNS} FROM response WHERE id = ? AND key = ? AND used >= ?"  # noqa: S608 - constant
        with self._change() as store:
            row = store.execute(query, (response_id, key, self._oldest())).fetchone()
        return None if row is None else StoredResponse(*row)

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        if self._store is None:
            raise StoreFailed("they are not open")
        try:
            self._store.execute("BEGIN")
            with self._store:
                yield self._store
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from error
