"""Keep answers for later requests without ever making a stream wait for the disk."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from appliance.api.openai.responses.rows import ResponseRows, StoredResponse
from appliance.database import StoreThread
from appliance.manifest.spec import ResponsesSpec

_MOST_PENDING_BYTES = 256 * 2**20
"""What may wait for a slow disk; what comes then is not kept."""

log = structlog.get_logger()


class ResponseStore:
    """The answers that are kept, through every edit of the manifest. Event loop only.

    `use` may come before `open`. All calls are carried out in the order in which they came, so
    that a `put` is seen by whatever is asked after it.
    """

    def __init__(self, folder: Path, most_pending_bytes: int = _MOST_PENDING_BYTES) -> None:
        self._most_pending_bytes = most_pending_bytes
        self._rows = StoreThread("responses", partial(ResponseRows, folder))
        self._spec = ResponsesSpec()
        self._is_open = False
        self._pending_bytes = 0

    async def open(self) -> None:
        """Open what the manifest names; raises StateFolderInUse."""
        await self._rows.open()
        self._is_open = True
        await self._rows(ResponseRows.use, self._spec)

    def use(self, spec: ResponsesSpec) -> None:
        """Hold to a manifest's bounds, in the place it names; a place that cannot be is logged."""
        self._spec = spec
        if self._is_open:
            self._rows.post(ResponseRows.use, spec).add_done_callback(_log_failure)

    @property
    def keeps(self) -> bool:
        """Say whether anything is kept at all."""
        return self._spec.store > 0

    def put(self, stored: StoredResponse) -> None:
        """Keep an answer; what cannot be kept is logged."""
        self._write(ResponseRows.put, stored)

    def renew(self, stored: StoredResponse) -> None:
        """Keep how an answer went on, unless it was deleted meanwhile."""
        self._write(ResponseRows.renew, stored)

    async def get(self, key: str, response_id: str) -> StoredResponse:
        """Return an answer of this key; raises ResponseNotFound or StoreFailed."""
        return await self._rows(ResponseRows.get, key, response_id)

    async def chain(self, key: str, response_id: str, most_bytes: int) -> list[StoredResponse]:
        """Return an answer behind those it refers to; raises as `ResponseRows.chain` does."""
        return await self._rows(ResponseRows.chain, key, response_id, most_bytes)

    async def delete(self, key: str, response_id: str) -> None:
        """Forget an answer of this key; raises ResponseNotFound or StoreFailed."""
        await self._rows(ResponseRows.delete, key, response_id)

    async def close(self) -> None:
        """Finish what was asked for, and close."""
        self._is_open = False
        await self._rows.close()

    def _write(
        self, verb: Callable[[ResponseRows, StoredResponse], None], row: StoredResponse
    ) -> None:
        if self._pending_bytes > self._most_pending_bytes:
            log.error("response_not_stored", response_id=row.id, reason="the disk is too slow")
            return
        self._pending_bytes += row.size
        call = self._rows.post(verb, row)
        call.add_done_callback(lambda _: self._note_written(row.size))
        call.add_done_callback(_log_failure)

    def _note_written(self, size: int) -> None:
        self._pending_bytes -= size


def _log_failure(call: "asyncio.Future[None]") -> None:
    error = None if call.cancelled() else call.exception()
    if error is not None:
        log.error("response_store_failed", reason=str(error))
