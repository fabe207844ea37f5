"""A scripted worker process does what its file says, and only that."""

import socket
import time
from pathlib import Path

import msgspec
import pytest

from appliance.chat.grammar import Grammar
from appliance.engine.script import load_script
from appliance.engine.wire import EngineSettings, Failed, Load, Step, ThoughtRule, WireError
from appliance.errors import SourceError
from appliance.parsing.format import AnswerFormat
from tests.engine.worker_client import MODEL, WorkerClient, cancel, words

pytestmark = pytest.mark.slow

_WEATHER = """
- match: "weather in (Rome|Paris)"
  pieces: ["It ", "is ", "sunny."]
- match: "weather"
  pieces: ["Where?"]
  finish: length
- match: "long"
  pieces: ["a", "b"]
  repeat: 3
- match: "empty"
  pieces: []
- match: "fail now"
  pieces: ["never"]
  fail_at: 0
- match: "fail late"
  pieces: ["one ", "two "]
  fail_at: 2
- match: "slow"
  pieces: ["x"]
  first_delay: 50ms
  piece_delay: 0.02
  repeat: 5
- match: "endless"
  pieces: ["x"]
  piece_delay: 5ms
  repeat: 1000000
- match: "later"
  pieces: ["x"]
  first_delay: 1h
"""


@pytest.fixture
def scripted(worker: WorkerClient, script: Path) -> WorkerClient:
    script.write_text(_WEATHER)
    worker.load(script, EngineSettings(kind="scripted", max_sequences=2))
    return worker


@pytest.mark.parametrize(
    ("message", "text", "reason"),
    [
        pytest.param("the weather in Rome?", "It is sunny.", "stop", id="first rule wins"),
        pytest.param("weather?", "Where?", "length", id="finish"),
        pytest.param("long", "ababab", "stop", id="repeat"),
        pytest.param("empty", "", "stop", id="no pieces"),
        pytest.param("  hi  there\nyou ", "  hi  there\nyou ", "stop", id="echo"),
        pytest.param("", "", "stop", id="empty echo"),
        pytest.param(" \n ", " \n ", "stop", id="echo of blanks"),
    ],
)
def test_scripted_answer_follows_the_first_matching_rule(
    scripted: WorkerClient, message: str, text: str, reason: str
) -> None:
    (answer,) = scripted.ask(words("id", message))

    assert (answer.text, answer.end.reason) == (text, reason)
    assert answer.end.completion_tokens == answer.tokens


def test_scripted_echo_has_one_piece_for_each_word(scripted: WorkerClient) -> None:
    scripted.ask(words("id", " a bb  ccc\n"))

    rows = [row.text for step in scripted.steps() for row in step.rows]
    assert rows == [" a ", "bb  ", "ccc\n"]
    assert scripted.answers["id"].accepted is not None
    assert scripted.answers["id"].accepted.prompt_tokens == 3


def test_scripted_max_tokens_counts_pieces(scripted: WorkerClient) -> None:
    cut, exact = scripted.ask(words("cut", "long", 4), words("exact", "long", 6))

    assert (cut.text, cut.end.reason) == ("abab", "length")
    assert (exact.text, exact.end.reason) == ("ababab", "stop")


def test_scripted_answer_knows_no_grammar(scripted: WorkerClient) -> None:
    rule = ThoughtRule(AnswerFormat("qwen3"), "<think>", 0)
    asked = msgspec.structs.replace(
        words("grammar", "a b c"), grammar=Grammar("start: nothing"), thought=rule, shown=("b",)
    )

    (answer,) = scripted.ask(asked)

    assert answer.text.split() == ["a", "b", "c"]
    assert answer.end.reason == "stop"


@pytest.mark.parametrize(("message", "text"), [("fail now", ""), ("fail late", "one two ")])
def test_scripted_failure_comes_in_the_place_of_its_piece(
    scripted: WorkerClient, message: str, text: str
) -> None:
    (answer,) = scripted.ask(words("id", message))

    assert (answer.text, answer.end.reason) == (text, "error")
    assert isinstance(answer.end.error, WireError)
    assert answer.end.error.kind == "step_failed"
    assert scripted.ask(words("next", "empty"))[0].end.reason == "stop"


def test_scripted_delays_are_kept(scripted: WorkerClient) -> None:
    begin = time.monotonic()

    scripted.ask(words("one", "slow"), words("two", "slow"))

    assert time.monotonic() - begin >= 0.13


def test_scripted_cancel_ends_waiting_delayed_and_running_requests(scripted: WorkerClient) -> None:
    scripted.send(words("runs", "endless"), words("delayed", "later"), words("waits", "endless"))
    scripted.until(lambda frame: isinstance(frame, Step) and bool(frame.rows))

    scripted.send(cancel("waits"), cancel("delayed"), cancel("runs"), cancel("unknown"))
    scripted.until_ended(["runs", "delayed", "waits"])

    ends = [scripted.answers[name].end.reason for name in ("runs", "delayed", "waits")]
    last = scripted.steps()[-1]
    assert ends == ["cancelled"] * 3
    assert (last.batch_size, last.waiting) == (0, 0)
    assert scripted.answers["runs"].end.completion_tokens == scripted.answers["runs"].tokens


def test_scripted_requests_beyond_the_slots_wait_in_order(scripted: WorkerClient) -> None:
    scripted.send(words("a", "later"), words("b", "later"), words("c", "x"), words("d", "x"))
    scripted.until(lambda frame: isinstance(frame, Step) and frame.waiting == 2)

    scripted.send(cancel("a"))
    scripted.until_ended(["a", "c", "d"])

    rows = [row.id for step in scripted.steps() for row in step.rows]
    assert rows == ["a", "c", "d"]


def test_scripted_engine_waits_for_a_slow_reader(scripted: WorkerClient) -> None:
    scripted.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    scripted.send(words("slow", "word " * 50_000, max_tokens=50_000))
    scripted.until(lambda frame: isinstance(frame, Step) and frame.number > 10)

    # Cancelled while pieces are still due, since nothing was read in between.
    scripted.send(cancel("slow"))
    scripted.until_ended(["slow"])

    answer = scripted.answers["slow"]
    assert answer.end.reason == "cancelled"
    assert 10 < answer.tokens < 50_000
    assert {row.tokens for step in scripted.steps() for row in step.rows} <= {0, 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "a script is a list of rules", id="empty"),
        pytest.param("a: 1", "a script is a list of rules", id="not a list"),
        pytest.param("- {match: x, pieces: [a], colour: red}", "rule 1: .*colour", id="unknown"),
        pytest.param("- {match: x}", "rule 1: .*pieces", id="missing"),
        pytest.param(
            "- {match: x, pieces: []}\n- {match: '(', pieces: []}",
            "rule 2: match: not a regular expression",
            id="bad expression",
        ),
        pytest.param("- {match: x, pieces: [1]}", "rule 1: .*str", id="piece is a number"),
        pytest.param(
            '- {match: x, pieces: ["\\ud83d"]}', "rule 1: pieces: .*half", id="half a character"
        ),
        pytest.param(
            "- {match: x, pieces: [a], piece_delay: -1}", "rule 1: piece_delay", id="negative"
        ),
        pytest.param("- {match: x, pieces: [], first_delay: 5}\n- 3", "rule 2:", id="no mapping"),
        pytest.param(
            "- {match: x, pieces: [], first_delay: 5 minutes}", "rule 1: first_delay", id="delay"
        ),
        pytest.param(
            "- {match: x, pieces: [a], fail_at: 2}", "rule 1: fail_at: 2, .* 1 pieces", id="fail_at"
        ),
        pytest.param("- {match: x, pieces: [a], repeat: 0}", "rule 1: .*repeat", id="repeat"),
        pytest.param("- {match: x, pieces: [], finish: halt}", "rule 1: .*finish", id="finish"),
        pytest.param("- {match: x, match: y, pieces: []}", "'match' is repeated", id="repeated"),
        pytest.param("- [", "not valid YAML", id="syntax"),
    ],
)
def test_script_with_a_mistake_is_refused(script: Path, text: str, reason: str) -> None:
    script.write_text(text)

    with pytest.raises(SourceError, match=reason) as raised:
        load_script(script)

    assert str(script) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_worker_reports_a_script_that_is_missing_and_exits(worker: WorkerClient) -> None:
    engine = EngineSettings(kind="scripted")
    worker.send(Load(model=MODEL, directory="/nowhere/script.yaml", engine=engine))

    frame = worker.until(lambda frame: isinstance(frame, Failed))

    assert isinstance(frame, Failed)
    assert frame.error.kind == "load_failed"
    assert "/nowhere/script.yaml" in frame.error.message
    assert worker.process is not None
    assert worker.process.wait(timeout=10) == 0
