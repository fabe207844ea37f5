"""Answer DELETE /v1/requests/{id}: cancel a request by the id that its answer has."""

import re
from typing import cast

from litestar import delete
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.auth import Caller
from appliance.api.body import JsonResponse
from appliance.api.inference import AnyRequest, Inference

# What the dialects put before a request's own id.
_PREFIX = re.compile("^(chatcmpl-|cmpl-|resp_|msg_)")


class RequestRoutes:
    """The handler that cancels requests. Event loop only."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        path = "/v1/requests/{request_id:str}"
        return [delete(path, opt={"role": "inference"}, status_code=200)(self._cancel)]

    async def _cancel(self, request: AnyRequest, request_id: str) -> ASGIApp:
        caller = cast(Caller, request.auth)
        generation = self._inference.pipeline.cancel(
            _PREFIX.sub("", request_id),
            key_name=caller.sender.key_name,
            is_admin="admin" in caller.roles,
        )
        return JsonResponse(
            {"id": generation.id, "object": "request.cancelled", "stage": generation.stage.value}
        )
