"""Remember what the text process was asked and has not answered yet."""

import asyncio
from dataclasses import dataclass

from appliance.chat import wire
from appliance.errors import ApplianceError

Answer = wire.Configured | wire.Rendered | wire.Decoded


@dataclass(eq=False)
class Job:
    """A frame that waits for its answer. Its answer may come although nobody waits any more.

    `is_repeated`: a Configure that was answered once, for a new process; nobody awaits it.
    Event loop only.
    """

    frame: wire.Configure | wire.TextJob
    answer: asyncio.Future[Answer]
    is_repeated: bool = False
    deaths: int = 0
    started: bool = False
    clock: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, frame: wire.Configure | wire.TextJob, *, is_repeated: bool = False) -> "Job":
        """Return a job of the running loop for `frame`."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if is_repeated:
            # Nobody else takes its exception, and asyncio complains of one that nobody took.
            answer.add_done_callback(asyncio.Future.exception)
        return cls(frame, answer, is_repeated)

    def stop_clock(self) -> None:
        """Let the template, if it was running, have ended in time."""
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None

    def fail(self, error: ApplianceError) -> None:
        """End the job with `error`, unless it has ended."""
        self.stop_clock()
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self, value: Answer) -> None:
        """End the job with its answer, unless it has ended."""
        self.stop_clock()
        if not self.answer.done():
            self.answer.set_result(value)
