"""Define every frame between the gateway and a worker; both sides decode strictly.

Framing is `appliance.channel`'s. Every frame names its model, so that a worker shared by several
models stays possible. Exactly one row with an `end` is sent per accepted id.
"""

from typing import Literal

import msgspec

from appliance.chat.grammar import Grammar
from appliance.chat.request import SamplingParams, Tool
from appliance.parsing.format import AnswerFormat

PROTOCOL_VERSION = 5

EngineKind = Literal["batched", "simple", "scripted"]
EndReason = Literal["stop", "length", "cancelled", "error"]
ErrorKind = Literal[
    "invalid_request",
    "context_too_long",
    "out_of_memory",
    "deadline",
    "load_failed",
    "step_failed",
    "stopped",
]
LoadPhase = Literal["starting", "weights", "warming"]


class WireError(msgspec.Struct, frozen=True):
    """An error as facts; the gateway turns it into an exception of `appliance.errors`.

    In an end row `retryable` says that the whole engine failed, and not for this request's sake.
    """

    kind: ErrorKind
    message: str
    retryable: bool = False
    param: str | None = None
    limit_tokens: int | None = None
    prompt_tokens: int | None = None
    needed_bytes: int | None = None
    limit_bytes: int | None = None
    limit_seconds: float | None = None


class MemoryLimits(msgspec.Struct, frozen=True):
    """This worker's share in bytes; None leaves MLX's own default."""

    wired_bytes: int | None = None
    cache_bytes: int | None = None
    memory_bytes: int | None = None


class EngineSettings(msgspec.Struct, frozen=True):
    """What a load needs to know of the model's `engine` section.

    `dense_float32` None decides by device: on CPU weights become dense float32.
    """

    kind: EngineKind = "batched"
    max_sequences: int = 32
    prefill_chunk_tokens: int = 2048
    max_context_tokens: int | None = None
    trust_remote_code: bool = False
    dense_float32: bool | None = None


class ScriptPrompt(msgspec.Struct, frozen=True, tag="script"):
    """A prompt for the scripted engine: the last user message, and the words of all messages."""

    text: str
    num_tokens: int


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """A prompt for a language model, special tokens included."""

    ids: list[int]


class ThoughtRule(msgspec.Struct, frozen=True):
    """How the answer's thoughts are told, and the most tokens that all of them together may have.

    Thoughts are what the gateway takes for such, reading an answer of `form` that the prompt has
    `begun` and in which `tools` may be called; with a grammar only the one before it. The form's
    marks are found by their letters, special tokens by their names if they are `shown`. Once
    `budget` tokens were thought, the mark that ends a thought is forced, token by token, and so it
    is whenever another is open. The tokens inside count, neither those of an opening nor those that
    are forced. None = no bound. With 0 nothing but marks comes of thoughts, and an answer with a
    grammar is offered none.
    """

    form: AnswerFormat
    begun: str = ""
    budget: int | None = None
    tools: tuple[Tool, ...] = ()


# --- to the worker ---------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load the model; answered by Progress…, then Ready or Failed. `directory` is the MLX folder,
    or the script file of a scripted model."""

    model: str
    directory: str
    engine: EngineSettings
    limits: MemoryLimits = MemoryLimits()


class Submit(msgspec.Struct, frozen=True, tag="submit", weakref=True):
    """Start one request; answered by Accepted or Refused, then rows in Step frames.

    `stop_token_ids` end the answer beside the model's own end tokens, which `ignore_eos` takes
    away; before `min_tokens` none of either can be sampled. `logprobs` None = none, else how many
    of the likeliest tokens come with each (at most 20). Requests of one `key` wait for each other,
    those of different keys share by `weight`; a higher `priority` goes first. After
    `timeout_seconds` from its receipt, or from when its grammar is compiled, the request ends with
    a `deadline` error.

    `grammar` bounds what follows the thought, or all of the answer if there is none; `thought` must
    be there for either to be told from the other. Up to two line ends may come between them. An end
    token comes exactly where the grammar accepts, so never in a thought; there each of
    `stop_token_ids` may end the answer as well, and elsewhere is text like any other. `min_tokens`
    and `ignore_eos` hold as long as anything else is allowed: a grammar that is complete ends the
    answer. One that cannot be compiled is refused; one that leads nowhere ends in `step_failed`.
    `shown` are marks: a special token whose text is part of one belongs to the answer's text, which
    else has none. A script knows neither grammar nor thought.
    """

    model: str
    id: str
    prompt: TokenPrompt | ScriptPrompt
    max_tokens: int
    sampling: SamplingParams = SamplingParams()
    ignore_eos: bool = False
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    key: str = ""
    weight: float = 1.0
    priority: int = 0
    timeout_seconds: float | None = None
    grammar: Grammar | None = None
    thought: ThoughtRule | None = None
    shown: tuple[str, ...] = ()


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop one request within a step; its end row says `cancelled`. Unknown ids are ignored."""

    model: str
    id: str


class Limits(msgspec.Struct, frozen=True, tag="limits"):
    """Change the worker's memory share."""

    model: str
    limits: MemoryLimits


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Refuse new requests from now on; running ones go on."""

    model: str


class Close(msgspec.Struct, frozen=True, tag="close"):
    """End every request with an error, free the model and exit."""

    model: str


# --- from the worker -------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first frame of a worker."""

    version: int
    pid: int


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """How far a load has come; `total` 0 = unknown."""

    model: str
    phase: LoadPhase
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded: bytes it holds, and the longest prompt plus answer in tokens."""

    model: str
    footprint_bytes: int
    context_tokens: int


class Accepted(msgspec.Struct, frozen=True, tag="accepted"):
    """The request is in the worker's scheduler."""

    model: str
    id: str
    prompt_tokens: int
    cached_tokens: int = 0


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The request never entered; nothing more follows for this id."""

    model: str
    id: str
    error: WireError


class End(msgspec.Struct, frozen=True, array_like=True):
    """Why a request ended, and how many tokens it produced in all, the end token included."""

    reason: EndReason
    completion_tokens: int
    error: WireError | None = None


class TokenLogprob(msgspec.Struct, array_like=True):
    """A token's natural log-probability before penalties, bias and temperature.

    `token` is what it stands for, bytes of an unfinished character included; the reader thread
    fills it in. `top` are the likeliest tokens in falling order, without tops of their own.
    """

    id: int
    logprob: float
    token: bytes = b""
    top: "list[TokenLogprob]" = []


class Row(msgspec.Struct, array_like=True):
    """What one request got in this step (or in the steps merged since the last frame).

    `tokens` counts what `text` and `ids` hold; text of an unfinished character comes later.
    `logprobs` has an entry for each id, if they were asked for. `lengths` says how many characters
    further on than each token's text the next one's begins; of a token that only goes on with a
    character, or has no text, that is 0. The token that a `stop` ends with is in neither.
    """

    id: str
    text: str
    tokens: int
    ids: list[int] = []
    end: End | None = None
    logprobs: list[TokenLogprob] = []
    lengths: list[int] = []


class Step(msgspec.Struct, frozen=True, tag="step"):
    """One engine step: seconds by phase (`prefill`, `decode`), sequences in the batch and waiting
    for it after the step, bytes in use, and a row for each request that got something.

    `started` are the requests whose wait ended, `preempted` those sent back to wait. One that
    was preempted starts again later; in merged steps either may name it several times."""

    model: str
    number: int
    seconds: dict[str, float]
    batch_size: int
    waiting: int
    memory_bytes: int
    rows: list[Row]
    started: list[str] = []
    preempted: list[str] = []


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The load or the whole engine failed; the worker exits after it."""

    model: str
    error: WireError


class Pulse(msgspec.Struct, frozen=True, tag="pulse"):
    """Sent every second by the reader thread: last step begun, and how long it has been running."""

    model: str
    step: int
    seconds_in_step: float


ToWorker = Load | Submit | Cancel | Limits | Drain | Close
FromWorker = Hello | Progress | Ready | Accepted | Refused | Step | Failed | Pulse


def to_worker_decoder() -> msgspec.msgpack.Decoder[ToWorker]:
    """Return a decoder for frames that the gateway sends."""
    return msgspec.msgpack.Decoder(ToWorker)


def from_worker_decoder() -> msgspec.msgpack.Decoder[FromWorker]:
    """Return a decoder for frames that a worker sends."""
    return msgspec.msgpack.Decoder(FromWorker)
