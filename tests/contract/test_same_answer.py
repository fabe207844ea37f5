"""One conversation with a real model goes alike through every dialect."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from tests.appliance_server import RunningAppliance
from tests.dialect.answer import Answer, Json
from tests.dialect.chat import CHAT
from tests.dialect.completion import COMPLETION
from tests.dialect.message import MESSAGE
from tests.dialect.response import RESPONSE
from tests.dialect.table import read

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(240)]

SYSTEM = "You are a teacher. Answer in one short sentence."
QUESTIONS = ("What is the capital of France?", "And what of Italy?", "Name a river of each. 🌊")
MOST_TOKENS = 12

Turns = list[Json]
Answerer = Callable[[httpx.Client, Turns], Answer]


@pytest.fixture
def client(smollm2: RunningAppliance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=smollm2.url, timeout=60) as http:
        yield http


def by_chat(client: httpx.Client, turns: Turns) -> Answer:
    messages = [{"role": "system", "content": SYSTEM}, *turns]
    body = {"model": "chat", "messages": messages, "max_tokens": MOST_TOKENS, "temperature": 0}
    return read(client.post(CHAT.path, json=body), CHAT)


def by_responses(client: httpx.Client, turns: Turns) -> Answer:
    body = {"model": "chat", "instructions": SYSTEM, "input": turns, "temperature": 0}
    body["max_output_tokens"] = MOST_TOKENS
    return read(client.post(RESPONSE.path, json=body), RESPONSE)


def by_messages(client: httpx.Client, turns: Turns) -> Answer:
    body = {"model": "chat", "system": SYSTEM, "messages": turns, "max_tokens": MOST_TOKENS}
    body["temperature"] = 0
    return read(client.post(MESSAGE.path, json=body), MESSAGE)


def by_completions(client: httpx.Client, turns: Turns) -> Answer:
    return complete(client, prompt_tokens(client, turns))


def prompt_tokens(client: httpx.Client, turns: Turns) -> list[int]:
    messages = [{"role": "system", "content": SYSTEM}, *turns]
    answer = client.post("/tokenize", json={"model": "chat", "messages": messages}).json()
    tokens: list[int] = answer["tokens"]
    return tokens


def complete(client: httpx.Client, prompt: list[int]) -> Answer:
    body = {"model": "chat", "prompt": prompt, "max_tokens": MOST_TOKENS, "temperature": 0}
    return read(client.post(COMPLETION.path, json=body), COMPLETION)


def talk(client: httpx.Client, answer: Answerer) -> list[Answer]:
    """Ask every question in one conversation, and return what was answered."""
    turns: Turns = []
    answers = []
    for question in QUESTIONS:
        turns.append({"role": "user", "content": question})
        answers.append(answer(client, turns).said)
        turns.append({"role": "assistant", "content": answers[-1].text})
    return answers


def test_conversation_goes_alike_through_every_dialect(client: httpx.Client) -> None:
    answerers = (by_chat, by_completions, by_responses, by_messages)

    with ThreadPoolExecutor(len(answerers)) as pool:
        chat, *others = pool.map(partial(talk, client), answerers)

    assert all(answer.text for answer in chat)
    assert "Paris" in chat[0].text
    assert others == [chat] * 3


def test_wrong_token_of_the_prompt_changes_the_answer(client: httpx.Client) -> None:
    """The dialects could not agree by chance: a prompt that differs is answered differently."""
    turns = [{"role": "user", "content": QUESTIONS[0]}]
    right = prompt_tokens(client, turns)
    (italy,) = client.post("/tokenize", json={"model": "chat", "prompt": " Italy"}).json()["tokens"]
    (france,) = client.post("/tokenize", json={"model": "chat", "prompt": " France"}).json()[
        "tokens"
    ]
    wrong = [italy if token == france else token for token in right]

    answer = complete(client, right).text

    assert wrong != right
    assert complete(client, wrong).text != answer
    assert answer == by_chat(client, turns).text
