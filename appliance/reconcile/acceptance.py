"""Ask a model that was just loaded the manifest's questions, before anybody else may ask it."""

import asyncio
import re

from appliance.chat.event import TextDelta
from appliance.chat.request import ChatRequest, Message, Sampling
from appliance.errors import ApplianceError
from appliance.manifest.spec import ModelSpec
from appliance.pipeline.pipeline import Pipeline, new_request_id
from appliance.pipeline.sender import RequestIds, Sender
from appliance.registry.lease import Lease

_SENDER = Sender("verify")


class Acceptance:
    """Golden prompts, asked through the pipeline like anybody's. Event loop only."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def verify(self, name: str, spec: ModelSpec, lease: Lease) -> str | None:
        """Return None if every answer is as expected, else which is not.

        `lease` is on the copy to be asked. Answers are never told: they may be long, and logs hold
        no texts.
        """
        try:
            for number, prompt in enumerate(spec.verify.prompts, 1):
                answer = await self._ask(name, prompt.ask, prompt.max_tokens, lease)
                # In a thread: the expression is the operator's, and may take long.
                if await asyncio.to_thread(re.search, prompt.expect, answer) is None:
                    return f"verify prompt {number} was not answered as expected"
        except ApplianceError as error:
            return f"verify prompt {number} failed: {error}"
        return None

    async def _ask(self, name: str, text: str, max_tokens: int, lease: Lease) -> str:
        request = ChatRequest(
            model=name,
            messages=(Message("user", text),),
            max_tokens=min(max_tokens, self._pipeline.limits.max_output_tokens),
            sampling=Sampling(temperature=0.0, seed=0),
        )
        ids = RequestIds(new_request_id(), None, _SENDER)
        generation = self._pipeline.open(request, ids, lease.again())
        try:
            generation.start()
            await generation.opened()
            events = await self._pipeline.whole(generation)
        finally:
            self._pipeline.close(generation)
        return "".join(event.text for event in events if isinstance(event, TextDelta))
