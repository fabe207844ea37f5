"""A real model keeps to the form that it is asked for, streamed or not, in a crowd of others."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import pytest

from tests.appliance_server import running_appliance
from tests.dialect.answer import Answer
from tests.dialect.table import BY_PATH, read
from tests.packages import sdist_models_folder, smollm2_directory

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(300)]

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
Json = dict[str, Any]
PERSON: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
NAMED = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
PLAIN_NAMED = {"type": "json_schema", "name": "person", "schema": PERSON}
DATE = r"(19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}"
LARK = 'start: "move " ("north" | "south") " " /[1-9]/'
GBNF = 'root ::= "move " ("north" | "south") " " [1-9]'
CITY: Json = {
    "type": "object",
    "properties": {"city": {"enum": ["Bern", "Rome"]}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "parameters": CITY}
TOOLS: Json = {"tools": [{"type": "function", "function": FUNCTION}]}
ODD: Json = {"pattern": "(?=a)b"}
PLAIN_ODD = {"type": "json_schema", "name": "odd", "schema": ODD}
ODD_FUNCTION = {"name": "f", "strict": True, "parameters": {"properties": {"a": ODD}}}
ODD_TOOLS: Json = {"tools": [{"type": "function", "function": ODD_FUNCTION}]}
FREE: Json = {"max_tokens": 24, "ignore_eos": True}

ASKED: dict[str, tuple[str, Json]] = {
    "schema": (CHAT, {"response_format": NAMED}),
    "schema behind a thought": (CHAT, {"model": "begun", "response_format": NAMED}),
    "schema in messages": (MESSAGES, {"output_config": {"format": PLAIN_NAMED}}),
    "schema in responses": (RESPONSES, {"text": {"format": PLAIN_NAMED}}),
    "schema, cut": (CHAT, {"response_format": NAMED, "max_tokens": 5}),
    "object": (CHAT, {"response_format": {"type": "json_object"}, "max_tokens": 12}),
    "regex": (CHAT, {"guided_regex": DATE}),
    "regex in completions": (TEXT, {"regex": DATE}),
    "choice": (CHAT, {"guided_choice": ["yes", "no", "not yet"]}),
    "choice, stopped": (CHAT, {"guided_choice": ["north wind"], "stop": " w"}),
    "choice, at least": (CHAT, {"guided_choice": ["a", "a b c d e f"], "min_tokens": 4}),
    "Lark": (CHAT, {"guided_grammar": LARK}),
    "GBNF": (CHAT, {"grammar": GBNF}),
    "required": (CHAT, {"model": "thinker", **TOOLS, "tool_choice": "required"}),
    "named": (
        CHAT,
        {
            "model": "begun",
            "max_tokens": 120,
            **TOOLS,
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
        },
    ),
    "model's budget": (CHAT, {"model": "begun", "thinking_token_budget": 1000, **FREE}),
    "budget": (CHAT, {"model": "begun", "thinking_token_budget": 4, **FREE}),
    "no budget": (CHAT, {"model": "begun", "thinking_token_budget": 0, **FREE}),
    "no effort": (CHAT, {"model": "always", "reasoning_effort": "none", **FREE}),
}
"""What is asked of the models, all at once: names of tests, path and fields."""


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    templates = sdist_models_folder() / "templates"
    manifest = f"""\
version: 1
server: {{heartbeat: 5m}}
models:
  - name: plain
    source: path:{smollm2_directory()}
    residency: {{preload: true}}
  - {{name: thinker, like: plain, chat: {{template: "{templates / "Qwen-Qwen3-0.6B.jinja"}"}}}}
  - {{name: always, like: plain, chat: {{template: "{templates / "llama-cpp-deepseek-r1.jinja"}"}}}}
  - name: begun
    like: plain
    chat: {{template: "{templates / "Qwen3.5-4B.jinja"}", thinking_budget: 16}}
"""
    with (
        running_appliance(manifest, {}, is_ready=False) as running,
        httpx.Client(base_url=running.url, timeout=240) as client,
    ):
        running.wait_ready(120)
        yield client


def body_of(path: str, fields: Json) -> Json:
    question = "Who is Anna?"
    body: Json = {"model": "plain", "temperature": 1, "parallel_tool_calls": False}
    body["max_output_tokens" if path == RESPONSES else "max_tokens"] = 60
    if path in (CHAT, MESSAGES):
        body["messages"] = [{"role": "user", "content": question}]
    else:
        body["input" if path == RESPONSES else "prompt"] = question
    return body | fields


@pytest.fixture(scope="module")
def responses(http: httpx.Client) -> dict[tuple[str, bool], httpx.Response]:
    """Return the response to each of what is asked, streamed and not."""

    def post(key: tuple[str, bool]) -> httpx.Response:
        path, fields = ASKED[key[0]]
        streamed = BY_PATH[path].stream_fields if key[1] else {}
        return http.post(path, json=body_of(path, fields) | streamed)

    keys = [(name, is_streamed) for name in ASKED for is_streamed in (False, True)]
    with ThreadPoolExecutor(len(keys)) as crowd:
        return dict(zip(keys, crowd.map(post, keys), strict=True))


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def answers(
    request: pytest.FixtureRequest, responses: dict[tuple[str, bool], httpx.Response]
) -> dict[str, Answer]:
    """Return what was answered to each, in one of the two ways."""
    return {name: read(responses[name, request.param], BY_PATH[ASKED[name][0]]) for name in ASKED}


@pytest.mark.parametrize("name", [name for name in ASKED if name.startswith("schema")][:-1])
def test_answer_is_valid_for_its_schema(answers: dict[str, Answer], name: str) -> None:
    answer = answers[name]

    assert answer.finish == "stop"
    jsonschema.validate(json.loads(answer.text), PERSON)
    assert bool(answer.thought) == (name == "schema behind a thought")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("regex", DATE),
        ("regex in completions", DATE),
        ("choice", "yes|no|not yet"),
        ("Lark", "move (north|south) [1-9]"),
        ("GBNF", "move (north|south) [1-9]"),
    ],
)
def test_answer_is_what_was_asked_for(answers: dict[str, Answer], name: str, pattern: str) -> None:
    assert answers[name].finish == "stop"
    assert re.fullmatch(pattern, answers[name].text)


def test_object_and_what_is_cut_short_say_so(answers: dict[str, Answer]) -> None:
    cut, whole = answers["schema, cut"], answers["object"]

    assert cut.finish == "length"
    assert whole.text.lstrip().startswith("{")
    assert whole.finish == "length" or isinstance(json.loads(whole.text), dict)


def test_stop_and_least_tokens_hold_within_a_form(answers: dict[str, Answer]) -> None:
    stopped, longer = answers["choice, stopped"], answers["choice, at least"]

    assert (stopped.text, stopped.finish) == ("north", "stop")
    assert (longer.text, longer.finish) == ("a b c d e f", "stop")


@pytest.mark.parametrize("name", ["required", "named"])
def test_call_that_is_a_must_has_right_arguments(answers: dict[str, Answer], name: str) -> None:
    answer = answers[name]

    (call,) = answer.calls
    assert (answer.finish, call.name, answer.text) == ("tool_calls", "weather", "")
    jsonschema.validate(call.arguments, CITY)


@pytest.mark.parametrize(("name", "most"), [("model's budget", 16), ("budget", 4)])
def test_thought_ends_at_the_lower_budget(
    responses: dict[tuple[str, bool], httpx.Response],
    answers: dict[str, Answer],
    name: str,
    most: int,
) -> None:
    usage = responses[name, False].json()["usage"]

    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] <= most
    assert answers[name].thought and answers[name].text


@pytest.mark.parametrize("name", ["no budget", "no effort"])
def test_thought_that_is_not_wanted_does_not_come(answers: dict[str, Answer], name: str) -> None:
    assert answers[name].thought == ""
    assert answers[name].text


def test_several_choices_have_the_form_and_their_logprobs(http: httpx.Client) -> None:
    fields = {"guided_choice": ["yes", "no", "not yet"], "n": 3, "seed": 7, "logprobs": True}

    first, again = (http.post(CHAT, json=body_of(CHAT, fields)).json() for _ in range(2))

    texts = [choice["message"]["content"] for choice in first["choices"]]
    assert set(texts) <= {"yes", "no", "not yet"}
    assert [choice["message"]["content"] for choice in again["choices"]] == texts
    tokens = [choice["logprobs"]["content"] for choice in first["choices"]]
    assert ["".join(token["token"] for token in each) for each in tokens] == texts


def test_model_without_tools_in_its_template_is_refused_them(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=body_of(CHAT, TOOLS | {"tool_choice": "required"}))

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")


@pytest.mark.parametrize(
    ("path", "fields", "param", "word"),
    [
        (CHAT, {"guided_regex": "("}, "guided_regex", "regex"),
        (CHAT, {"guided_grammar": "start: nothing"}, "guided_grammar", "nothing"),
        (TEXT, {"json_schema": ODD}, "json_schema", "'pattern' at #"),
        (MESSAGES, {"output_config": {"format": PLAIN_ODD}}, None, "'pattern' at #"),
        (RESPONSES, {"text": {"format": PLAIN_ODD}}, "text.format.schema", "'pattern' at #"),
        (CHAT, {"model": "thinker", **ODD_TOOLS}, "tools", "'pattern' at #/properties/a"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_form_that_cannot_be_kept_is_refused_before_anything_is_sent(
    http: httpx.Client, path: str, fields: Json, param: str | None, word: str, *, is_streamed: bool
) -> None:
    answer = http.post(path, json=body_of(path, fields) | {"stream": is_streamed})

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].get("param") == param
    assert word in answer.json()["error"]["message"]
