"""Find the running appliance and talk to it: over its URL, else over its private socket."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from appliance.cli.option import read_settings
from appliance.cli.output import CommandFailed, Exit
from appliance.cli.wire import ErrorBody, Refusal
from appliance.errors import Problem
from appliance.state import admin_socket

Body = TypeVar("Body")

_ANSWER_SECONDS = 10.0
_CHANGE_SECONDS = 60.0
_DOUBT = "is it an appliance?"
_SILENCE_SECONDS = 300.0
"""Longest silence of a stream: far more than any sensible heartbeat."""


class ApiError(CommandFailed):
    """The appliance answered, and said no; `status` is HTTP's, `problems` are a manifest's."""

    def __init__(self, message: str, status: int, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.problems = problems


@dataclass(frozen=True)
class Door:
    """Where an appliance may answer: a URL, or the private socket of a state folder."""

    address: str | Path
    api_key: str | None = None

    def __str__(self) -> str:
        return str(self.address)

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """Return an unopened connection; `timeout` bounds every wait, in seconds."""
        if isinstance(self.address, Path):
            return _SocketConnection(self.address, timeout)
        parts = urlsplit(self.address)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context)
        return http.client.HTTPConnection(parts.netloc, timeout=timeout)

    @property
    def prefix(self) -> str:
        """What comes before every path; a base URL as OpenAI's clients want it will do."""
        if isinstance(self.address, Path):
            return ""
        return urlsplit(self.address).path.rstrip("/").removesuffix("/v1")


def find_door(url: str | None = None, state_dir: str | None = None) -> Door:
    """Return where to look for the appliance; a flag wins over the environment.

    Raises CommandFailed for a bad flag or variable. Contacts nobody.
    """
    settings = read_settings(url=url, state_dir=state_dir)
    if settings.url and (url or not state_dir):
        return Door(settings.url, _checked(settings.api_key))
    return Door(admin_socket(settings.state_folder().absolute()))


def _checked(api_key: SecretStr | None) -> str | None:
    text = api_key.get_secret_value().strip() if api_key else ""
    if not (text.isascii() and text.isprintable()):
        raise CommandFailed("VLLM_MLX_API_KEY: no API key looks like this", code=Exit.USAGE)
    return text or None


class Answer:
    """What the appliance answers to one request; closing it hangs up. One thread."""

    def __init__(
        self, door: Door, link: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._door = door
        self._link = link
        self._response = response

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._link.close()

    def read(self, form: type[Body]) -> Body:
        """Return the whole body; raises CommandFailed if it is cut or not of this form."""
        with _translated(self._door):
            content = self._response.read()
        return decoded(content, form, f"{self._door} answered something unknown: {_DOUBT}")

    def events(self) -> Iterator[str]:
        """Yield the data of each server-sent event as it comes; raises CommandFailed."""
        return event_data(self._lines())

    def check(self) -> None:
        """Raise the ApiError that this answer is, if it is one."""
        status = self._response.status
        if status < 400:
            return
        try:
            error = self.read(Refusal).error
        except CommandFailed:
            error = ErrorBody(f"{self._door} answered with status {status}: {_DOUBT}")
        hint = " Set VLLM_MLX_API_KEY." if status == 401 else ""
        raise ApiError(error.message + hint, status, tuple(error.problems or ()))

    def _lines(self) -> Iterator[bytes]:
        while True:
            with _translated(self._door):
                line = self._response.readline()
            if not line:
                return
            yield line


def decoded(content: bytes | str, form: type[Body], complaint: str) -> Body:
    """Return JSON as a value of this form; raises CommandFailed with the complaint."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(complaint) from error


class ApplianceClient:
    """Speaks HTTP with one appliance, over a new connection for every request."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def get(self, path: str, form: type[Body]) -> Body:
        """Return the answer's body; raises ApiError, or CommandFailed if nobody answers."""
        with self._open("GET", path, _ANSWER_SECONDS) as answer:
            return answer.read(form)

    def send(
        self, method: str, path: str, form: type[Body], content: object = None, etag: str = ""
    ) -> Body:
        """Return the answer's body, as `get` does; `content` goes as JSON, bytes go as YAML.

        With an `etag` the request is for that version of the thing only (If-Match).
        """
        headers = {"if-match": f'"{etag}"'} if etag else {}
        if isinstance(content, bytes):
            headers["content-type"] = "application/yaml"
        body = content if isinstance(content, bytes) else _encoded(content, headers)
        with self._open(method, path, _CHANGE_SECONDS, body, headers) as answer:
            return answer.read(form)

    def post(self, path: str, body: object) -> Answer:
        """Return an answer to be streamed, and closed; raises as `get` does."""
        headers: dict[str, str] = {}
        return self._open("POST", path, _SILENCE_SECONDS, _encoded(body, headers), headers)

    def stream(self, path: str) -> Answer:
        """Return the answer to a GET, to be streamed, and closed; raises as `get` does."""
        return self._open("GET", path, _SILENCE_SECONDS)

    def _open(
        self,
        method: str,
        path: str,
        timeout: float,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        door = self._door
        keys = {"authorization": f"Bearer {door.api_key}"} if door.api_key else {}
        with contextlib.ExitStack() as stack:
            with _translated(door):
                link = stack.enter_context(contextlib.closing(door.connection(timeout)))
                link.request(method, door.prefix + path, body, {**headers, **keys})
                answer = stack.enter_context(Answer(door, link, link.getresponse()))
            answer.check()
            stack.pop_all()
        return answer


def _encoded(content: object, headers: dict[str, str]) -> bytes | None:
    if content is None:
        return None
    headers["content-type"] = "application/json"
    return msgspec.json.encode(content)


@contextlib.contextmanager
def _translated(door: Door) -> Iterator[None]:
    """Turn what the standard library raises into one line that says what was tried."""
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CommandFailed(_unreachable(door, error), code=Exit.NOT_REACHABLE) from error


def _unreachable(door: Door, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{door} did not answer in time"
    if isinstance(error, http.client.IncompleteRead | ConnectionResetError):
        return f"{door} hung up"
    reason = getattr(error, "strerror", None) or str(error)
    hint = "start one with 'vllm-mlx serve', or name one with --url"
    return f"no appliance answers at {door}: {reason}; {hint}"


def event_data(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event of a stream of lines; comments and other fields are skipped.

    The format is WHATWG's server-sent events; an event that the end of the stream cuts is dropped.
    """
    data: list[str] = []
    for line in lines:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        field, _, value = text.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not text and data:
            yield "\n".join(data)
            data = []


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Called by the standard library."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
