"""Answer `vllm-mlx chat`: a conversation with one model, line by line, in the terminal."""

import contextlib
import sys
from collections.abc import Generator
from urllib.parse import quote

from appliance.cli.output import CommandFailed, Exit, complain, printable, say
from appliance.cli.reach import ApplianceClient, decoded, find_door
from appliance.cli.wire import Chunk, ModelEntry, ModelPage

_HELP = "/reset forgets the conversation; /exit or Ctrl-D leaves; Ctrl-C stops an answer"
_DONE = "[DONE]"


def run_chat(
    *,
    model: str | None,
    system: str | None,
    temperature: float | None,
    max_tokens: int | None,
    url: str | None,
    state_dir: str | None,
) -> Exit:
    """Talk with `model` (None = the first one served) until the input ends.

    On a terminal an error ends one answer; with piped input it is raised and ends the command.
    """
    client = ApplianceClient(find_door(url, state_dir))
    entry = _choose(client, model)
    wishes = {"temperature": temperature, "max_tokens": max_tokens}
    given = {name: value for name, value in wishes.items() if value is not None}
    conversation = Conversation(client, {"model": entry.id, **given}, system)
    if sys.stdin.isatty():
        _welcome(entry)
        _talk(conversation)
    else:
        _answer_lines(conversation)
    return Exit.OK


class Conversation:
    """The messages so far. A turn that was cut short, however, leaves no trace. One thread."""

    def __init__(
        self, client: ApplianceClient, options: dict[str, object], system: str | None
    ) -> None:
        self._client = client
        self._options = options
        self._start = [{"role": "system", "content": _well_formed(system)}] if system else []
        self._messages = list(self._start)

    def reset(self) -> None:
        """Forget every turn, not the system message."""
        self._messages = list(self._start)

    def turn(self, text: str) -> Generator[str]:
        """Yield the pieces of the answer to `text`; raises CommandFailed. Closing it cancels."""
        messages = [*self._messages, {"role": "user", "content": _well_formed(text)}]
        body = {**self._options, "messages": messages, "stream": True}
        pieces = []
        with self._client.post("/v1/chat/completions", body) as answer:
            for data in answer.events():
                if data == _DONE:
                    break
                piece = _piece(data)
                pieces.append(piece)
                yield piece
            else:
                raise CommandFailed("the answer ended before its end")
        self._messages = [*messages, {"role": "assistant", "content": "".join(pieces)}]


def _piece(data: str) -> str:
    chunk = decoded(data, Chunk, "the stream holds something unknown")
    if chunk.error is not None:
        raise CommandFailed(chunk.error.message)
    return "".join(choice.delta.content or "" for choice in chunk.choices)


def _choose(client: ApplianceClient, model: str | None) -> ModelEntry:
    if model is not None:
        return client.get(f"/v1/models/{quote(model, errors='replace')}", ModelEntry)
    models = client.get("/v1/models", ModelPage).data
    if not models:
        raise CommandFailed("the appliance serves no model that you may use")
    return models[0]


def _welcome(entry: ModelEntry) -> None:
    say(f"Talking with {printable(entry.id)}. {_HELP}.")
    if entry.state not in ("ready", "absent"):
        say(f"It is {printable(entry.state)}; an answer may have to wait for it.")


def _talk(conversation: Conversation) -> None:
    # Importing it gives input() line editing and history.
    import readline  # noqa: F401, PLC0415

    while (text := _ask()) is not None and text != "/exit":
        try:
            _take_line(conversation, text)
        except KeyboardInterrupt:
            continue
        except CommandFailed as error:
            complain(*error.lines)


def _ask() -> str | None:
    """Return the next line, None at the end of the input; Ctrl-C drops what was typed."""
    try:
        return input("> ").strip()
    except KeyboardInterrupt:
        say()
        return ""
    except EOFError:
        say()
        return None


def _answer_lines(conversation: Conversation) -> None:
    for line in sys.stdin:
        text = line.strip()
        if text == "/exit":
            return
        _take_line(conversation, text)


def _take_line(conversation: Conversation, text: str) -> None:
    if text == "/reset":
        conversation.reset()
    elif text in ("/help", "/?"):
        say(_HELP)
    elif text:
        _print_answer(conversation, text)


def _print_answer(conversation: Conversation, text: str) -> None:
    with contextlib.closing(conversation.turn(text)) as pieces:
        try:
            for piece in pieces:
                say(printable(piece), end="")
        finally:
            say()


def _well_formed(text: str) -> str:
    """Return `text` without the half characters that stand for bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
