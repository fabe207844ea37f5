"""Turn an engine's rows into events and counts, cut where the caller wants an end."""

import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass, replace

from appliance.chat import event
from appliance.chat.event import (
    Delta,
    Finished,
    FinishReason,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from appliance.chat.request import ChatRequest
from appliance.engine.wire import Accepted, Row, TokenLogprob
from appliance.parsing.format import AnswerFormat
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.repetition import RepetitionGuard
from appliance.parsing.stop import StopCutter
from appliance.parsing.toolbox import Toolbox
from appliance.pipeline.token import TokenLine

_LETTERS = string.ascii_letters + string.digits
_PLAIN = AnswerFormat()
_USUAL_ID = ("call_", 24)
"""An id in OpenAI's form: what it begins with, and how many letters follow."""
_SHORT_ID = ("", 9)
"""An id as templates want it that take no other."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How an answer is read; the defaults take it all for text.

    `begun` is the mark with which the prompt began it. `has_short_ids`: its model's template takes
    no longer ones for calls. `guards_repetition`: it ends where it goes round in circles.
    """

    form: AnswerFormat = _PLAIN
    begun: str = ""
    has_short_ids: bool = False
    guards_repetition: bool = False


AS_TEXT = Reading()


class Answer:
    """One answer as it may leave. One instance per try; pure but for the ids of calls.

    Stop strings are looked for in the text alone, not in thoughts and calls. With logprobs asked
    for, each token of the text leaves with the first of it, one without text with the next that has
    some; tokens of marks, thoughts and calls are left out, and all that comes behind a cut.
    `is_cut`: a stop string, or the one call that is wanted, has ended the answer.
    `reasoning_tokens` are those that begin in a thought's text. `has_broken_call`: there is a call
    whose arguments are no JSON object; it is the last.
    `is_repetition`: it was ended for going round in circles, with all that had come by then.
    `finish_reason` None: its end was not read yet.
    """

    def __init__(self, request: ChatRequest, reading: Reading = AS_TEXT) -> None:
        form = _form_of(request, reading)
        toolbox = Toolbox(request.tools if request.tool_choice.mode != "none" else ())
        is_plain = form.thought is None and not form.syntaxes(has_tools=bool(toolbox))
        self._parser = None if is_plain else AnswerParser(form, toolbox, begun=reading.begun)
        self._guard = RepetitionGuard() if reading.guards_repetition else None
        self._id_form = _SHORT_ID if reading.has_short_ids else _USUAL_ID
        self._cutter = StopCutter(request.stop)
        self._is_one_call_enough = not request.allows_parallel_calls
        self._has_logprobs = request.logprobs is not None
        has_thoughts = form.thought is not None
        self._tokens = TokenLine() if self._has_logprobs or has_thoughts else None
        # All three count characters of the raw text: received, understood as text, and sent.
        self._received = self._read = self._sent = 0
        self._num_calls = self._num_sound_calls = 0
        self.is_cut = self.is_repetition = False
        self.reasoning_tokens = 0
        self.has_broken_call = False
        self._prompt_tokens = self._cached_tokens = self._completion_tokens = 0
        self.finish_reason: FinishReason | None = None

    @property
    def stop(self) -> str | None:
        """The stop string that cut the answer, if one did."""
        return self._cutter.matched

    @property
    def usage(self) -> Usage:
        """The tokens of the prompt and of the rows read so far."""
        return Usage(
            self._prompt_tokens, self._completion_tokens, self._cached_tokens, self.reasoning_tokens
        )

    def accept(self, accepted: Accepted) -> None:
        """Note what the prompt came to."""
        self._prompt_tokens = accepted.prompt_tokens
        self._cached_tokens = accepted.cached_tokens

    def read(self, rows: Iterable[Row]) -> list[GenerationEvent]:
        """Return what rows come to, with Finished last if the answer ends with them.

        No Finished comes of an end that is a failure; its tokens are counted.
        """
        events: list[GenerationEvent] = []
        tokens = 0
        for row in rows:
            tokens += row.tokens
            events += self.push(row)
            if not self.is_cut and row.end is None and self._repeats(row.text):
                events += self.flush()
                self.is_cut = self.is_repetition = True
            if self.is_cut:
                return [*events, self._finish("stop", tokens)]
            if row.end is not None:
                left = row.end.completion_tokens - self._completion_tokens
                if row.end.reason in ("stop", "length"):
                    events += self.flush()
                    return [*events, self._finish(row.end.reason, left)]
                tokens = left
        self._completion_tokens += tokens
        return events

    def push(self, row: Row) -> list[Delta]:
        """Take a row and return what may leave now."""
        text, at = row.text, self._received
        self._received += len(text)
        is_text = self._parser is None or self._parser.passes_text(text)
        if self._tokens is not None:
            self._tokens.add(row, is_forgotten=is_text and not self._has_logprobs)
        if self._parser is None or is_text:
            return self._add_text(text, at)
        return self._add(self._parser.feed(text))

    def flush(self) -> list[Delta]:
        """Return what is left once the engine has ended the answer."""
        deltas = self._add(self._parser.end()) if self._parser is not None else []
        if self.is_cut:
            return deltas
        text = self._cutter.flush()
        logprobs = self._logprobs_of(text)
        if logprobs is not None and self._tokens is not None and self._read == self._received:
            logprobs += _to_events(self._tokens.take_rest())
        return [*deltas, TextDelta(text, logprobs)] if text or logprobs else deltas

    def reason(self, engine_reason: FinishReason) -> FinishReason:
        """Return why the answer ended: by a cut, or as the engine says.

        It made calls only if it was not cut short and broke none.
        """
        reason = "stop" if self.is_cut else engine_reason
        is_complete = reason == "stop" and not (self.has_broken_call or self.is_repetition)
        return "tool_calls" if is_complete and self._num_sound_calls else reason

    def _finish(self, engine_reason: FinishReason, tokens: int) -> Finished:
        self._completion_tokens += tokens
        self.finish_reason = self.reason(engine_reason)
        return Finished(self.finish_reason, self.usage, self.stop, self.is_repetition)

    def _repeats(self, text: str) -> bool:
        return self._guard is not None and self._guard.push(text)

    def _add(self, pieces: list[Parsed]) -> list[Delta]:
        deltas: list[Delta] = []
        for piece in pieces:
            if self.is_cut:
                break
            if isinstance(piece, Text):
                deltas += self._add_text(piece.text, piece.at)
            else:
                deltas += self._leave_text()
                deltas += self._add_other(piece)
        return deltas

    def _add_text(self, text: str, at: int) -> list[Delta]:
        deltas: list[Delta] = []
        if at != self._read:
            deltas = self._leave_text()
            self._sent = at
        self._read = at + len(text)
        ready = self._cutter.push(text)
        self.is_cut = self._cutter.matched is not None
        if ready:
            deltas.append(TextDelta(ready, self._logprobs_of(ready)))
        return deltas

    def _leave_text(self) -> list[Delta]:
        """Return what may have become a stop string, once it cannot any more."""
        text = self._cutter.flush()
        return [TextDelta(text, self._logprobs_of(text))] if text else []

    def _add_other(self, piece: Thought | CallOpened | CallArguments | CallClosed) -> list[Delta]:
        call = self._num_calls - 1
        match piece:
            case Thought(text=text, at=at):
                if self._tokens is not None:
                    self.reasoning_tokens += len(self._tokens.take(at, at + len(text)))
                return [ReasoningDelta(text)]
            case CallOpened(name=name):
                self._num_calls += 1
                return [ToolCallDelta(call + 1, _new_call_id(*self._id_form), name)]
            case CallArguments(text=text):
                return [ToolCallDelta(call, arguments=text)]
            case CallClosed(is_sound=True):
                self._num_sound_calls += 1
                self.is_cut = self._is_one_call_enough
            case CallClosed():
                self.has_broken_call = True
        return []

    def _logprobs_of(self, text: str) -> tuple[event.TokenLogprob, ...] | None:
        """Return those of the text that leaves now; None if nobody asked for any."""
        start = self._sent
        self._sent += len(text)
        if self._tokens is None or not self._has_logprobs:
            return None
        return _to_events(self._tokens.take(start, self._sent))


def _form_of(request: ChatRequest, reading: Reading) -> AnswerFormat:
    has_structure = request.structure is not None and not request.tool_choice.is_forced
    return replace(reading.form, has_structure=has_structure)


def _to_events(tokens: Iterable[TokenLogprob | None]) -> tuple[event.TokenLogprob, ...]:
    return tuple(
        event.TokenLogprob(each.token, each.logprob, _to_events(each.top))
        for each in tokens
        if each is not None
    )


def _new_call_id(prefix: str, size: int) -> str:
    """Return an id which nobody can guess."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(size))
