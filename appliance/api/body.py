"""Read request bodies strictly and answer with JSON."""

import asyncio
from itertools import islice
from typing import Any, Generic, TypeVar, cast

import msgspec
import structlog
from litestar import Request
from litestar.exceptions import HTTPException
from litestar.types import Receive, Scope, Send

from appliance.errors import BodyTimeout, InvalidRequest, PayloadTooLarge
from appliance.manifest.spec import LimitsSpec
from appliance.telemetry.metrics import Metrics

_MAX_FIELDS = 200_000
_MAX_VALUES = 2_000_000

T = TypeVar("T", bound=msgspec.Struct)

log = structlog.get_logger()


class BodyReader(Generic[T]):
    """Decode one kind of body: strict types; unknown fields are tolerated, counted and logged."""

    def __init__(self, kind: type[T], api: str, limits: LimitsSpec, metrics: Metrics) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._keys = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._known = {field.encode_name for field in msgspec.structs.fields(kind)}
        self._api = api
        self._limits = limits
        self._metrics = metrics

    async def read(self, request: Request[Any, Any, Any]) -> T:
        """Return the decoded body; raises InvalidRequest, PayloadTooLarge or BodyTimeout."""
        body = await read_bytes(request, self._limits)
        check_size(body)
        try:
            decoded = self._decoder.decode(body)
            unknown = self._keys.decode(body).keys() - self._known
        except msgspec.ValidationError as error:
            raise fault(error) from error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from error
        if unknown:
            self._metrics.unknown_fields_total.labels(self._api).inc(len(unknown))
            log.debug(
                "fields_ignored", api=self._api, fields=[name[:64] for name in islice(unknown, 20)]
            )
        return decoded


async def read_bytes(request: Request[Any, Any, Any], limits: LimitsSpec) -> bytes:
    """Return the body as it came; raises PayloadTooLarge, BodyTimeout or InvalidRequest."""
    try:
        async with asyncio.timeout(limits.body_timeout):
            return await request.body()
    except TimeoutError as error:
        raise BodyTimeout(limits.body_timeout) from error
    except HTTPException as error:
        if error.status_code == 413:
            raise PayloadTooLarge(limits.max_body) from error
        raise InvalidRequest(error.detail) from error


async def read_text(request: Request[Any, Any, Any], limits: LimitsSpec) -> str:
    """Return the body as UTF-8 text; raises as `read_bytes` does."""
    try:
        return (await read_bytes(request, limits)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest("The body is not UTF-8 text.") from error


def check_size(*parts: bytes, what: str = "The body") -> None:
    """Refuse what would take seconds to decode: the event loop is everybody's.

    Counts are upper bounds, since text may hold the same characters; both are far above what
    the longest conversations need. Raises InvalidRequest.
    """
    for most, mark, kind in ((_MAX_FIELDS, b'":', "fields"), (_MAX_VALUES, b",", "values")):
        if sum(part.count(mark) for part in parts) > most:
            raise InvalidRequest(f"{what} has more than {most} {kind}.")


def fault(error: msgspec.ValidationError, root: str = "") -> InvalidRequest:
    """Return what msgspec says, `reason - at $.a[0].b`, as a refusal that names the field.

    `root` is the path of the value that was looked at.
    """
    reason, marker, path = str(error).rpartition(" - at `$")
    place = (root + path.rstrip("`")).lstrip(".") if marker else root
    reason = reason if marker else path
    if place:
        return InvalidRequest(f"{place}: {reason}", param=place)
    is_missing = reason.startswith("Object missing required field `")
    return InvalidRequest(reason, param=reason.split("`")[1] if is_missing else None)


class JsonResponse:
    """A raw ASGI response with a JSON body."""

    def __init__(
        self, content: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self._body = msgspec.json.encode(content)
        self._status = status
        self._headers = {"content-type": "application/json"} | (headers or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        headers.append((b"content-length", str(len(self._body)).encode()))
        start = {"type": "http.response.start", "status": self._status, "headers": headers}
        await send(cast(Any, start))
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
