"""List the dialects, and ask in any of them."""

import httpx

from tests.dialect.answer import Answer, Dialect, Json
from tests.dialect.chat import CHAT
from tests.dialect.completion import COMPLETION
from tests.dialect.message import MESSAGE
from tests.dialect.response import RESPONSE

DIALECTS = (CHAT, COMPLETION, RESPONSE, MESSAGE)
BY_PATH = {dialect.path: dialect for dialect in DIALECTS}


def ask_whole(client: httpx.Client, dialect: Dialect, text: str, /, **fields: object) -> Answer:
    """Return the answer to a text, not streamed."""
    return read(client.post(dialect.path, json=dialect.ask(text, fields)), dialect)


def ask_stream(client: httpx.Client, dialect: Dialect, text: str, /, **fields: object) -> Answer:
    """Return the answer to a text, streamed."""
    body: Json = dialect.ask(text, {**dialect.stream_fields, **fields})
    return read(client.post(dialect.path, json=body), dialect)


def read(response: httpx.Response, dialect: Dialect) -> Answer:
    """Return what a response says; one of a stream has been read whole."""
    assert response.status_code == 200, response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        return dialect.read_stream(response.content.decode())
    return dialect.read_whole(response.json())
