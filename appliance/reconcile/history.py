"""Remember every accepted manifest, every admin act and every operator's override.

The store is SQLite in the state folder. Texts are kept as written: nothing is ever expanded.
"""

import difflib
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from appliance.database import open_database
from appliance.errors import HistoryFailed

_APPLICATION_ID = 0x766D6C78  # "vmlx"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

_MIGRATIONS = (
    """
    CREATE TABLE revision (
        number INTEGER PRIMARY KEY, revision TEXT NOT NULL, etag TEXT NOT NULL, at REAL NOT NULL,
        who TEXT NOT NULL, how TEXT NOT NULL, text TEXT NOT NULL, diff TEXT NOT NULL
    );
    CREATE TABLE act (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, act TEXT NOT NULL,
        subject TEXT NOT NULL, result TEXT NOT NULL
    );
    CREATE TABLE override (
        model TEXT PRIMARY KEY, wish TEXT NOT NULL, spec_key TEXT NOT NULL
    );
    """,
)


@dataclass(frozen=True)
class Revision:
    """A manifest that was accepted; `at` is Unix time, `diff` is against the one before it."""

    number: int
    revision: str
    etag: str
    at: float
    who: str
    how: str
    text: str = field(repr=False)
    diff: str = field(repr=False)


@dataclass(frozen=True)
class Act:
    """Something an admin did, and how it ended; `at` is Unix time."""

    at: float
    who: str
    act: str
    subject: str
    result: str


@dataclass(frozen=True)
class Override:
    """What an operator wants of a model against the manifest, until a revision touches it.

    `spec_key` tells what the model was when the operator said so.
    """

    model: str
    wish: Literal["must", "may", "must_not"]
    spec_key: str


class History:
    """The store. Every method blocks; any thread may call, one at a time.

    A process killed at any point leaves each call done or not done. The constructor raises
    StateFolderInUse if the file is no history or cannot be used, the methods HistoryFailed.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._store = open_database(file, _APPLICATION_ID, _MIGRATIONS)

    def record(self, *, revision: str, etag: str, text: str, who: str, how: str) -> Revision:
        """Add an accepted manifest and return it; the newest again adds nothing.

        It is the same if its text is, and what that means: a key's file may have changed.
        """
        with self._change() as store:
            newest = self.newest()
            if newest is not None and (newest.etag, newest.revision) == (etag, revision):
                return newest
            number = newest.number + 1 if newest else 1
            diff = _diff(newest, number, text) if newest else ""
            made = Revision(number, revision, etag, self._clock(), who, how, text, diff)
            row = (number, revision, etag, made.at, who, how, text, diff)
            store.execute("INSERT INTO revision VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            return made

    def newest(self) -> Revision | None:
        """Return the manifest accepted last."""
        return next(iter(self.revisions(1)), None)

    def revisions(self, limit: int = 100) -> list[Revision]:
        """Return the accepted manifests, newest first."""
        query = "SELECT * FROM revision ORDER BY number DESC LIMIT ?"
        return [Revision(*row) for row in self._rows(query, limit)]

    def find(self, number: int) -> Revision | None:
        """Return the accepted manifest of that number."""
        rows = self._rows("SELECT * FROM revision WHERE number = ?", number)
        return Revision(*rows[0]) if rows else None

    def note(self, who: str, act: str, subject: str, result: str) -> None:
        """Add something an admin did to the audit log."""
        with self._change() as store:
            row = (self._clock(), who, act, subject, result)
            store.execute(
                "INSERT INTO act (at, who, act, subject, result) VALUES (?, ?, ?, ?, ?)", row
            )

    def acts(self, limit: int = 200) -> list[Act]:
        """Return what admins did, newest first."""
        query = "SELECT at, who, act, subject, result FROM act ORDER BY number DESC LIMIT ?"
        return [Act(*row) for row in self._rows(query, limit)]

    def overrides(self) -> list[Override]:
        """Return every override, by model."""
        return [Override(*row) for row in self._rows("SELECT * FROM override ORDER BY model")]

    def put_override(self, override: Override) -> None:
        """Keep an override, in place of the model's former one."""
        with self._change() as store:
            row = (override.model, override.wish, override.spec_key)
            store.execute("INSERT OR REPLACE INTO override VALUES (?, ?, ?)", row)

    def drop_override(self, model: str) -> None:
        """Forget a model's override; idempotent."""
        with self._change() as store:
            store.execute("DELETE FROM override WHERE model = ?", (model,))

    def close(self) -> None:
        """Let go of the file; the methods fail from now on. Idempotent."""
        self._store.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        try:
            self._store.execute("BEGIN IMMEDIATE")
            with self._store:
                yield self._store
        except sqlite3.Error as error:
            raise HistoryFailed(str(error)) from error

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._store.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise HistoryFailed(str(error)) from error


def _diff(old: Revision, number: int, text: str) -> str:
    names = (f"revision {old.number}", f"revision {number}")
    lines = difflib.unified_diff(_LINE.findall(old.text), _LINE.findall(text), *names)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
