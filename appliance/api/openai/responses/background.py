"""Carry answers that nobody waits for, through every edit of the manifest."""

import asyncio
from dataclasses import dataclass

import msgspec
import structlog

from appliance.api.openai.responses.envelope import AnswerStatus, Envelope, ending_status
from appliance.api.openai.responses.output import Output
from appliance.api.openai.responses.store import ResponseStore
from appliance.api.openai.responses.stream import OnStatus, fold_answer
from appliance.errors import ApplianceError, Draining
from appliance.pipeline.choices import Choices

log = structlog.get_logger()

_json = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class BackgroundAnswer:
    """An answer to come: who hears of it, and what it is made with."""

    choices: Choices
    envelope: Envelope
    output: Output
    on_status: OnStatus


class Background:
    """The answers that nobody waits for, and the store that they end in. Event loop only."""

    def __init__(self, store: ResponseStore) -> None:
        self.store = store
        self._running: dict[str, tuple[Choices, asyncio.Task[None]]] = {}

    def start(self, answer: BackgroundAnswer) -> None:
        """Carry an answer on from here, its choices' closing included."""
        task = asyncio.create_task(self._carry(answer))
        self._running[answer.envelope.id] = (answer.choices, task)

    def is_running(self, response_id: str) -> bool:
        """Say whether an answer is still to come."""
        return response_id in self._running

    async def cancel(self, response_id: str) -> None:
        """End an answer on behalf of somebody who may; returns when it has ended."""
        if (running := self._running.get(response_id)) is not None:
            choices, task = running
            choices.cancel()
            await asyncio.wait([task])

    async def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing is to come and return True; False if time ran out first."""
        tasks = [task for _, task in self._running.values()]
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=seconds)
        return not late

    async def close(self) -> None:
        """End what is still to come, and close the store."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.store.close()

    async def _carry(self, answer: BackgroundAnswer) -> None:
        try:
            await self._answer(answer)
        except ApplianceError as error:
            self._fail(answer, error)
        except asyncio.CancelledError:
            self._fail(answer, Draining())
            raise
        except Exception as error:
            answer.choices.note_crash(error)
            log.exception("request_crashed", request_id=answer.choices.id)
            self._fail(answer, error)
        finally:
            answer.choices.close()
            del self._running[answer.envelope.id]

    async def _answer(self, answer: BackgroundAnswer) -> None:
        await answer.choices.opened()
        self._tell(answer, "in_progress", answer.envelope.response("in_progress", []))
        events = (await answer.choices.whole())[0]
        usage = answer.choices.usage
        self._tell(answer, *fold_answer(answer.envelope, answer.output, events, usage))

    def _fail(self, answer: BackgroundAnswer, error: BaseException) -> None:
        status = ending_status(error)
        self._tell(answer, status, answer.envelope.response(status, [], None, error))

    def _tell(self, answer: BackgroundAnswer, status: AnswerStatus, response: object) -> None:
        answer.on_status(status, _json.encode(response))
