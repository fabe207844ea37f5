"""Speak plain HTTP to an appliance, and read streams and metrics strictly."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests import plain_http

PATH = "/v1/chat/completions"


def chat_body(text: str, **fields: object) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **fields}


def post_chat(url: str, body: object, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return plain_http.post(url + PATH, json=body, headers=names, timeout=30)


@contextlib.contextmanager
def stream_chat(url: str, text: str, **fields: object) -> Iterator[httpx.Response]:
    body = chat_body(text, stream=True, **fields)
    with plain_http.stream("POST", url + PATH, json=body, timeout=30) as response:
        yield response


def read_events(raw: str) -> tuple[list[Any], int]:
    """Parse a whole SSE body strictly; return the data of each event, and how many comments."""
    assert raw.endswith("\n\n"), "the last event is not complete"
    events: list[Any] = []
    comments = 0
    for block in raw.removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            comments += 1
            continue
        name, _, value = block.partition(": ")
        assert name == "data" and "\n" not in value, block
        events.append(value if value == "[DONE]" else json.loads(value))
    return events, comments


def metric(url: str, name: str, **labels: str) -> float:
    """Return one sample of /metrics; 0 if it does not exist."""
    text = plain_http.get(f"{url}/metrics").text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return 0.0
