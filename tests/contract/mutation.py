"""Spoil valid request bodies in every way that a broken or hostile client might, from a seed."""

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

Json: TypeAlias = Any

BODIES: dict[str, tuple[dict[str, Any], ...]] = {
    "/v1/chat/completions": (
        {
            "model": "echo",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"at": 1}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "look", "parameters": {"type": "object"}},
                }
            ],
            "tool_choice": "auto",
            "temperature": 0.5,
            "logit_bias": {"5": 1},
            "stop": ["x"],
            "n": 2,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 20,
        },
        {"model": "echo", "messages": [{"role": "user", "content": "hi"}], "logprobs": True},
    ),
    "/v1/completions": (
        {"model": "echo", "prompt": ["one", "two"], "echo": True, "n": 2, "max_tokens": 9},
        {"model": "echo", "prompt": [[1, 2], [3]], "stream": True, "logprobs": 2, "stop": "b"},
    ),
    "/v1/messages": (
        {
            "model": "echo",
            "max_tokens": 30,
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "toolu_1",
                            "content": [{"type": "text", "text": "seen"}],
                        }
                    ],
                },
            ],
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto"},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "stop_sequences": ["x"],
            "stream": True,
        },
    ),
    "/v1/messages/count_tokens": (
        {"model": "echo", "messages": [{"role": "user", "content": "hi"}], "system": "s"},
    ),
    "/v1/responses": (
        {
            "model": "echo",
            "instructions": "be brief",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            ],
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "reasoning": {"effort": "low"},
            "max_output_tokens": 20,
            "stream": True,
        },
        {"model": "echo", "input": "hi", "store": True, "metadata": {"a": "b"}},
    ),
    "/tokenize": (
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
            "chat_template_kwargs": {"a": 1},
        },
        {"model": "tiny", "prompt": "hi", "return_token_strs": True},
    ),
    "/detokenize": ({"model": "tiny", "tokens": [1, 2, 3]},),
}
"""Valid bodies of every route that takes a prompt; `tiny` is a model of real tokens."""

_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    7,
    1.5,
    0.0,
    1e308,
    2**31,
    2**63,
    -(2**64),
    10**400,
    "",
    "true",
    "echo",
    "user",
    "text",
    "<tool_call>",
    "\x00",
    "\ud800",
    "\u2028\ufeff\u202e👋🏽",
    "x" * 20_000,
    [],
    [None],
    {},
    {"": {}},
)
"""What anything may be replaced with; the lone surrogate is written as an escape."""

_DEEP = 20_000


def mutated_bodies(path: str, count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` spoilt bodies for a route; the same ones for the same seed."""
    random = Random(f"{seed} {path}")
    for _ in range(count):
        body = copy.deepcopy(random.choice(BODIES[path]))
        for _ in range(random.choice((1, 1, 2, 3))):
            random.choice(_CHANGES)(body, random)
        yield _spoil_bytes(json.dumps(body).encode(), random)


def _replace(body: Json, random: Random) -> None:
    parent, key = _pick(body, random)
    parent[key] = copy.deepcopy(random.choice(_VALUES))


def _replace_alike(body: Json, random: Random) -> None:
    """Leave the type as it is, so that the body is read, and what follows has to bear it."""
    parent, key = _pick(body, random)
    alike = [value for value in _VALUES if type(value) is type(parent[key])]
    parent[key] = copy.deepcopy(random.choice(alike or [None]))


def _delete(body: Json, random: Random) -> None:
    parent, key = _pick(body, random)
    del parent[key]


def _transplant(body: Json, random: Random) -> None:
    """Put a part where another belongs."""
    source, name = _pick(body, random)
    parent, key = _pick(body, random)
    parent[key] = copy.deepcopy(source[name])


def _repeat(body: Json, random: Random) -> None:
    parent, key = _pick(body, random)
    parent[key] = [copy.deepcopy(parent[key]) for _ in range(random.choice((2, 50)))]


def _add(body: Json, random: Random) -> None:
    parent, _ = _pick(body, random)
    value = copy.deepcopy(random.choice(_VALUES))
    if isinstance(parent, dict):
        parent[random.choice(("type", "content", "role", "name", "zzz"))] = value
    else:
        parent.append(value)


_CHANGES: tuple[Callable[[Any, Random], None], ...] = (
    _replace,
    _replace_alike,
    _replace_alike,
    _replace_alike,
    _delete,
    _transplant,
    _repeat,
    _add,
)


def _pick(body: Json, random: Random) -> tuple[Any, Any]:
    """Return a container within `body`, and a key of it; a body without any gets one."""
    places = list(_places(body))
    if not places:
        body["model"] = "echo"
        return body, "model"
    return random.choice(places)


def _places(value: Json) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _spoil_bytes(body: bytes, random: Random) -> bytes:
    place = random.randrange(len(body))
    match random.randrange(24):
        case 0:
            return body[:place]
        case 1:
            return body[:place] + bytes([random.randrange(256)]) + body[place + 1 :]
        case 2:
            return body[:place] + b"\xff\xfe" + body[place:]
        case 3:
            return body.replace(b"1", b"NaN", 1).replace(b"true", b"Infinity", 1)
        case 4:
            opening = random.choice((b"[", b'{"a":'))
            return body[:-1] + b',"metadata":' + opening * _DEEP
        case 5:
            return body[:-1] + b',"tools":' + b"[" * 500 + b"]" * 500 + b"}"
        case _:
            return body
