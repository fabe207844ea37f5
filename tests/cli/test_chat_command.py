import signal
import subprocess

import pytest

from appliance.cli.chat import Conversation
from appliance.cli.output import CommandFailed
from appliance.cli.reach import ApplianceClient, Door
from tests.appliance_server import DEADLINE_SECONDS, RunningAppliance, clean_environment
from tests.cli.command import COMMAND, Terminal, run_command
from tests.cli.fake_server import chat_stream, fake_appliance

pytestmark = pytest.mark.slow


def _conversation(url: str, system: str | None = None) -> Conversation:
    return Conversation(ApplianceClient(Door(url)), {"model": "m"}, system)


def test_chat_answers_every_piped_line(echo: RunningAppliance) -> None:
    text = "hello there\n\n/reset\nplease count\n/exit\nnever asked\n"

    done = run_command("chat", "--state-dir", echo.state_dir, text=text)

    assert done.returncode == 0
    assert done.stdout == "hello there\none two three\n"
    assert done.stderr == ""


def test_chat_passes_its_options_on(echo: RunningAppliance) -> None:
    options = ["--max-tokens", "2", "--temperature", "0", "--system", "Be short."]

    done = run_command("chat", "parrot", *options, "--state-dir", echo.state_dir, text="count")

    assert done.stdout == "one two \n"


def test_chat_with_unknown_model_is_told_in_one_line(echo: RunningAppliance) -> None:
    done = run_command("chat", "ecco", "--state-dir", echo.state_dir, text="hello\n")

    assert done.returncode == 1
    assert "'ecco' does not exist" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_chat_whose_answer_breaks_says_so(echo: RunningAppliance) -> None:
    done = run_command("chat", "--state-dir", echo.state_dir, text="break\nhello\n")

    assert done.returncode == 1
    assert done.stdout == "half an \n"
    assert done.stderr.startswith("vllm-mlx: ")
    assert done.stderr.count("\n") == 1


def test_chat_takes_input_that_is_not_utf8(echo: RunningAppliance) -> None:
    with Terminal("chat", "--state-dir", echo.state_dir, env={"LC_ALL": "C.UTF-8"}) as terminal:
        terminal.wait_for("> ")
        terminal.type(b"caf\xe9\n")
        terminal.wait_for("> ")

        assert terminal.process.poll() is None


def test_interrupt_stops_the_answer_and_not_the_program(echo: RunningAppliance) -> None:
    with Terminal("chat", "--state-dir", echo.state_dir) as terminal:
        terminal.wait_for("> ")
        terminal.type("endless\n")
        terminal.wait_for("word word")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("> ")
        terminal.type("half a lin")
        terminal.wait_for("half a lin")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("> ")
        terminal.type("please count\n")
        terminal.wait_for(r"one two three\s+> ")
        terminal.type("/exit\n")

        assert terminal.wait_end() == 0
        assert "Traceback" not in terminal.text


def test_interrupt_ends_a_piped_chat_without_traceback(echo: RunningAppliance) -> None:
    with subprocess.Popen(
        [*COMMAND, "chat", "--state-dir", str(echo.state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"endless\n")
        process.stdin.flush()
        assert process.stdout.read(5) == b"word "
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=DEADLINE_SECONDS)

    assert process.returncode == 130
    assert complaint == b""


def test_error_on_a_terminal_keeps_the_program(echo: RunningAppliance) -> None:
    with Terminal("chat", "--state-dir", echo.state_dir) as terminal:
        terminal.wait_for("> ")
        terminal.type("break\n")
        terminal.wait_for("vllm-mlx: .*\n(.|\n)*> ")
        terminal.type("please count\n")
        terminal.wait_for(r"one two three\s+> ")
        terminal.type("\x04")

        assert terminal.wait_end() == 0


def test_conversation_sends_what_was_said_before() -> None:
    with fake_appliance((200, chat_stream("A", "1")), (200, chat_stream("A2"))) as fake:
        conversation = _conversation(fake.url, system="S")

        answers = ["".join(conversation.turn(question)) for question in ("Q1", "Q2")]

    assert answers == ["A1", "A2"]
    assert [each["content"] for each in fake.bodies[1]["messages"]] == ["S", "Q1", "A1", "Q2"]


def test_conversation_forgets_on_reset_but_keeps_the_system_message() -> None:
    with fake_appliance((200, chat_stream("A1")), (200, chat_stream("A2"))) as fake:
        conversation = _conversation(fake.url, system="S")
        list(conversation.turn("Q1"))

        conversation.reset()
        list(conversation.turn("Q2"))

    assert [each["content"] for each in fake.bodies[1]["messages"]] == ["S", "Q2"]


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        pytest.param('data: {"error": {"message": "No luck."}}\n\n', "No luck.", id="error event"),
        pytest.param("", "before its end", id="cut"),
        pytest.param("data: {\n\n", "unknown", id="no JSON"),
    ],
)
def test_turn_that_fails_leaves_no_trace(ending: str, told: str) -> None:
    with fake_appliance((200, chat_stream("half", ending=ending)), (200, chat_stream())) as fake:
        conversation = _conversation(fake.url)

        with pytest.raises(CommandFailed, match=told):
            list(conversation.turn("Q1"))
        list(conversation.turn("Q2"))

    assert [each["content"] for each in fake.bodies[1]["messages"]] == ["Q2"]
