"""A model whose load changes is replaced without losing a request, or not at all."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests import plain_http
from tests.appliance_server import RunningAppliance, running_appliance, wait_until
from tests.contract.admin import model_status, plan, post, put, status, wait_number
from tests.contract.http import chat_body, post_chat
from tests.packages import smollm2_directory

pytestmark = pytest.mark.slow

GIB = 2**30
MANIFEST = """\
version: 1
memory: {budget: 10GiB, reserve: 0}
models:
  - name: chat
    source: scripted:a.yaml
    engine: {memory: 4GiB}
    residency: {preload: true}
"""
SWAPPED = MANIFEST.replace("a.yaml", "b.yaml")
FILES = {
    "a.yaml": '- {match: who, pieces: ["I ", "am ", "a"], piece_delay: 10ms}\n',
    "b.yaml": '- {match: who, pieces: ["I ", "am ", "b"], piece_delay: 10ms}\n',
}
VERIFIED = SWAPPED.replace(
    "residency:", 'verify: {prompts: [{ask: "who", expect: "am c"}]}\n    residency:'
)


@pytest.fixture
def running() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, FILES) as appliance:
        wait_number(appliance, 1)
        yield appliance


def _ask(running: RunningAppliance) -> str:
    answer = post_chat(running.url, chat_body("who"))
    answer.raise_for_status()
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def _keep_asking(running: RunningAppliance, stop: threading.Event) -> list[str]:
    answers = []
    while not stop.is_set():
        answers.append(_ask(running))
    return answers


def test_swap_under_load_fails_nobody_and_switches_over(running: RunningAppliance) -> None:
    old = model_status(running, "chat")["worker_pid"]
    stop = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(_keep_asking, running, stop) for _ in range(8)]
        assert plan(running, SWAPPED)["chat"]["verb"] == "swap"

        put(running, SWAPPED).raise_for_status()
        wait_number(running, 2)
        wait_until(lambda: _ask(running) == "I am b", what="the new answers")
        stop.set()
        answers = [each.result() for each in asking]

    assert {text for each in answers for text in each} == {"I am a", "I am b"}
    assert all(each == sorted(each) for each in answers)
    wait_until(lambda: not psutil.pid_exists(old), what="the old worker is gone")


def test_reload_when_one_copy_fits_lets_requests_wait(running: RunningAppliance) -> None:
    large = SWAPPED.replace("4GiB", "8GiB")
    assert plan(running, large)["chat"]["verb"] == "reload"

    put(running, large).raise_for_status()

    assert _ask(running) == "I am b"
    wait_number(running, 2)


def test_what_does_not_fit_is_refused_with_the_missing_bytes(running: RunningAppliance) -> None:
    huge = SWAPPED.replace("4GiB", "12GiB")
    action = plan(running, huge)["chat"]

    put(running, huge).raise_for_status()
    wait_number(running, 2, "degraded")

    assert (action["verb"], action["missing_bytes"]) == ("refuse", 2 * GIB)
    assert _ask(running) == "I am a"
    assert "2.0 GiB" in model_status(running, "chat")["reason"]


@pytest.mark.parametrize("size", ["4GiB", "8GiB"], ids=["both fit", "one fits"])
def test_copy_that_does_not_verify_never_serves(running: RunningAppliance, size: str) -> None:
    put(running, VERIFIED.replace("4GiB", size)).raise_for_status()
    wait_until(lambda: model_status(running, "chat")["last_error"], what="the failure")
    wait_until(lambda: model_status(running, "chat")["phase"] == "ready", what="the old one")

    assert _ask(running) == "I am a"
    report = model_status(running, "chat")
    assert "verify prompt 1" in report["last_error"]
    assert report["observed_key"] != report["desired_key"]
    assert status(running)["state"] != "converged"

    post(running, "rollback", {}).raise_for_status()
    wait_number(running, 3)
    assert _ask(running) == "I am a"


def test_removed_model_drains_and_goes(running: RunningAppliance) -> None:
    pid = model_status(running, "chat")["worker_pid"]

    put(running, "version: 1\nmodels: []\n").raise_for_status()

    wait_until(lambda: not psutil.pid_exists(pid), what="the worker is gone")
    wait_until(lambda: status(running)["models"] == [], what="nothing is left")
    text = plain_http.get(f"{running.url}/metrics").text
    assert 'model="chat"' not in text


def test_requests_wake_models_and_send_idle_ones_away() -> None:
    manifest = """\
version: 1
memory: {budget: 10GiB, reserve: 0, contention: {wait: 10s}}
models:
  - {name: chat, source: "scripted:a.yaml", engine: {memory: 6GiB}}
  - {name: other, source: "scripted:b.yaml", engine: {memory: 6GiB}}
"""
    with running_appliance(manifest, FILES) as running:
        assert _ask(running) == "I am a"

        answer = post_chat(running.url, {**chat_body("who"), "model": "other"})

        assert answer.json()["choices"][0]["message"]["content"] == "I am b"
        wait_until(lambda: model_status(running, "chat")["phase"] == "absent", what="it went")


@pytest.mark.mlx
@pytest.mark.registry
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_real_model_is_swapped_while_it_answers() -> None:
    manifest = f"""\
version: 1
models:
  - name: chat
    source: path:{smollm2_directory()}
    engine: {{max_sequences: 4}}
    sampling: {{temperature: 0}}
    residency: {{preload: true}}
    verify: {{prompts: [{{ask: "What is the capital of France?", expect: Paris}}]}}
"""
    question = chat_body("What is the capital of France?", max_tokens=16)
    with (
        running_appliance(manifest, {}, is_ready=False) as running,
        ThreadPoolExecutor(4) as pool,
    ):
        running.wait_ready(120)
        old = model_status(running, "chat")["worker_pid"]
        stop = threading.Event()
        asking = [pool.submit(_keep_posting, running, question, stop) for _ in range(4)]

        put(running, manifest.replace("max_sequences: 4", "max_sequences: 3")).raise_for_status()
        wait_number(running, 2, seconds=120)
        stop.set()
        texts = {text for each in asking for text in each.result()}

        assert texts == {"The capital of France is Paris."}
        wait_until(lambda: not psutil.pid_exists(old), what="the old worker is gone")


def _keep_posting(
    running: RunningAppliance, body: dict[str, object], stop: threading.Event
) -> list[str]:
    texts = []
    while not stop.is_set():
        answer = post_chat(running.url, body)
        answer.raise_for_status()
        texts.append(answer.json()["choices"][0]["message"]["content"])
    return texts
