"""Hold the generations that answer one request: one, or one for each choice asked for."""

import asyncio

from appliance.chat.event import GenerationEvent, Usage
from appliance.chat.request import ChatRequest
from appliance.pipeline.pipeline import Pipeline
from appliance.pipeline.sender import RequestIds


class Choices:
    """One request's generations. Made and read by its HTTP task; pass `close` on every way out.

    `start` once; then `opened`; then `whole`, or `next_events` until `is_over` or an exception.
    An error of one ends all. Event loop only.
    """

    def __init__(
        self, pipeline: Pipeline, requests: tuple[ChatRequest, ...], ids: RequestIds, n: int = 1
    ) -> None:
        """Ask each of `requests` `n` times; choices count through the first's, then the next's."""
        self.id = ids.own
        self._pipeline = pipeline
        self._n = n
        self._num_ended = 0
        self._reads: dict[asyncio.Task[list[GenerationEvent]], int] = {}
        self._generations = tuple(
            pipeline.open(request, ids.of_choice(index * n + turn), turn=turn)
            for index, request in enumerate(requests)
            for turn in range(n)
        )

    def start(self) -> None:
        """Begin; raises what a request is refused with at once."""
        for generation in self._generations:
            generation.start()

    async def opened(self, within_seconds: float | None = None) -> bool:
        """Wait until the engine took everything and return True; False if time ran out first.

        Raises what a request was refused with.
        """
        loop = asyncio.get_running_loop()
        until = None if within_seconds is None else loop.time() + within_seconds
        for generation in self._generations:
            left = None if until is None else max(0.0, until - loop.time())
            if not await generation.opened(left):
                return False
        return True

    async def whole(self) -> list[list[GenerationEvent]]:
        """Return all events of each choice; raises the error that one ended with."""
        if len(self._generations) == 1:
            return [await self._pipeline.whole(self._generations[0])]
        reads = [asyncio.create_task(self._pipeline.whole(each)) for each in self._generations]
        try:
            return await asyncio.gather(*reads)
        finally:
            for read in reads:
                read.cancel()

    async def next_events(self) -> tuple[int, list[GenerationEvent]]:
        """Return the next events of one choice, and its number; an empty list when woken."""
        if len(self._generations) == 1:
            events = await self._pipeline.next_events(self._generations[0])
            self._num_ended = int(self._generations[0].finish_reason is not None)
            return 0, events
        if not self._reads and not self._num_ended:
            for index in range(len(self._generations)):
                self._read(index)
        done, _ = await asyncio.wait(self._reads, return_when=asyncio.FIRST_COMPLETED)
        read = done.pop()
        index = self._reads.pop(read)
        events = read.result()
        if self._generations[index].finish_reason is None:
            self._read(index)
        else:
            self._num_ended += 1
        return index, events

    @property
    def is_over(self) -> bool:
        """Say whether `next_events` has returned every choice's end."""
        return self._num_ended == len(self._generations)

    @property
    def usage(self) -> Usage:
        """The tokens so far: of each prompt once, and of every answer."""
        used = [generation.usage for generation in self._generations]
        if len(used) == 1:
            return used[0]
        return Usage(
            prompt_tokens=sum(each.prompt_tokens for each in used[:: self._n]),
            completion_tokens=sum(each.completion_tokens for each in used),
            cached_tokens=sum(each.cached_tokens for each in used[:: self._n]),
            reasoning_tokens=sum(each.reasoning_tokens for each in used),
        )

    @property
    def error(self) -> Exception | None:
        """What the request ended with, if it failed."""
        return next((each.error for each in self._generations if each.error is not None), None)

    def note_crash(self, error: Exception) -> None:
        """Record a fault of our own as the way the request ended."""
        self._generations[0].error = error

    def cancel(self) -> None:
        """End the request on behalf of somebody who asked for it."""
        for generation in self._generations:
            generation.cancel()

    def wake(self) -> None:
        """Let a waiting `next_events` return now, with nothing if nothing came."""
        for generation in self._generations:
            if generation.finish_reason is None:
                generation.wake()
                return

    def close(self) -> None:
        """Let go of everything, and record the request once. Plain and idempotent."""
        for read in self._reads:
            if not read.cancel() and not read.cancelled():
                read.exception()  # nobody is left to ask for it
        self._reads.clear()
        self._pipeline.close(*self._generations, usage=self.usage)

    def _read(self, index: int) -> None:
        read = asyncio.create_task(self._pipeline.next_events(self._generations[index]))
        self._reads[read] = index
