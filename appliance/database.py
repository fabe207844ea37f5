"""Open a SQLite file as our own, bring it up to date, and keep its owner on one thread."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from appliance.errors import StateFolderInUse


class Store(Protocol):
    """What owns a database and blocks."""

    def close(self) -> None:
        """Let go of the file."""


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Store)


class StoreThread(Generic[S]):
    """A store's thread: one call after the other, in the order in which they were asked for.

    `open`, then calls, then `close`; any task of one event loop.
    """

    def __init__(self, name: str, make: Callable[[], S]) -> None:
        """`make` opens the store, on its thread."""
        self._make = make
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._store: S | None = None

    async def open(self) -> None:
        """Open the store; raises what `make` does."""
        self._store = await self._run(self._make)

    async def __call__(
        self, verb: Callable[Concatenate[S, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a method of the store does: `await records(History.find, 3)`."""
        return await self.post(verb, *args, **kwargs)

    def post(
        self, verb: Callable[Concatenate[S, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Ask for a call now, before any that is asked for later, and return its outcome to be."""
        assert self._store is not None
        return self._run(partial(verb, self._store, *args, **kwargs))

    async def close(self) -> None:
        """Close the store once all is done that was asked for, and end the thread."""
        store, self._store = self._store, None
        if store is not None:
            await self._run(store.close)
        self._thread.shutdown(wait=False)

    def _run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, call)


def open_database(
    file: Path, application_id: int, migrations: tuple[str, ...]
) -> sqlite3.Connection:
    """Return a connection, in autocommit, for one thread at a time. Blocking.

    `application_id` in the file's header tells our store from another's. Each of `migrations`
    takes the store from the version of its index to the next; they never change. Raises
    StateFolderInUse if the file is damaged, another program's, or cannot be used.
    """
    try:
        store = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StateFolderInUse(f"{file} cannot be used: {error}") from error
    try:
        _prepare(store, file, application_id, migrations)
    except sqlite3.OperationalError as error:
        store.close()
        raise StateFolderInUse(f"{file} cannot be used: {error}") from error
    except sqlite3.Error as error:
        store.close()
        raise StateFolderInUse(f"{file} is damaged: {error}; move it away to begin anew") from error
    except StateFolderInUse:
        store.close()
        raise
    return store


def _prepare(
    store: sqlite3.Connection, file: Path, application_id: int, migrations: tuple[str, ...]
) -> None:
    owner, version, num_tables = (
        _value(store, query)
        for query in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
    )
    is_new = not owner and not num_tables
    if owner != application_id and not is_new:
        raise StateFolderInUse(f"{file} belongs to another program; move it away to begin anew")
    if version > len(migrations):
        raise StateFolderInUse(f"{file} was written by a newer version of the appliance")
    flaw = _value(store, "PRAGMA quick_check(1)")
    if flaw != "ok":
        raise sqlite3.DatabaseError(flaw)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = FULL")
    for number, script in enumerate(migrations[version:], version + 1):
        store.executescript(
            f"BEGIN IMMEDIATE; {script} PRAGMA application_id = {application_id};"
            f"PRAGMA user_version = {number}; COMMIT;"
        )


def _value(store: sqlite3.Connection, query: str) -> Any:  # noqa: ANN401  # a cell of any type
    return store.execute(query).fetchone()[0]
