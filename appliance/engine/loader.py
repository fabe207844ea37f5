"""Bring a language model from its folder into memory and choose how it is stepped."""

import json
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import dequantize_model, load_model

from appliance.chat.folder import context_tokens
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.batched import BatchedBody, can_batch
from appliance.engine.body import Report
from appliance.engine.mlx_body import LoadedModel
from appliance.engine.sequential import SequentialBody
from appliance.engine.wire import EngineSettings, Load
from appliance.errors import LoadFailed, SourceError

_UNBOUNDED_CONTEXT_TOKENS = 2**20
_MAX_REASON = 300
# What mlx and mlx-lm raise on bad files: their own checks, JSON, missing keys and odd shapes.
_CHECKS = (OSError, ValueError, RuntimeError, ImportError)
# And what a model's own code, or theirs with numbers it did not expect, may raise beside these.
_FOREIGN = (
    *_CHECKS,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    NameError,
    SyntaxError,
    SystemExit,
    TypeError,
)


def load_body(load: Load, report: Report) -> BatchedBody | SequentialBody:
    """Load the model folder that `load` names; reports bytes done. Raises LoadFailed.

    Call on the engine thread: it alone may touch the arrays made here.
    """
    folder = Path(load.directory)
    report("starting", 0, 0)
    try:
        model, config = load_model(
            folder, lazy=True, trust_remote_code=load.engine.trust_remote_code
        )
        if _wants_dense_float32(load.engine):
            model = dequantize_model(model)
            model.set_dtype(mx.float32)
        _read_weights(model, report)
        report("warming", 0, 0)
        loaded = LoadedModel(
            model=model,
            tokenizer=Tokenizer.load(folder),
            context_tokens=_bound_context(context_tokens(config), load.engine.max_context_tokens),
            vocab_size=_warm_up(model),
            footprint_bytes=int(mx.get_active_memory()),
        )
        body = BatchedBody if can_batch(model) else SequentialBody
        return body(loaded, load.engine, load.limits)
    except SourceError as error:
        raise LoadFailed(load.model, error.reason, retryable=False) from error
    except _FOREIGN as error:
        raise LoadFailed(load.model, _describe(error), retryable=False) from error


def _wants_dense_float32(engine: EngineSettings) -> bool:
    if engine.dense_float32 is not None:
        return engine.dense_float32
    return bool(mx.default_device() == mx.cpu)


def _read_weights(model: nn.Module, report: Report) -> None:
    """Evaluate one parameter at a time, so that only one is held twice while it converts."""
    arrays = [array for _, array in tree_flatten(model.parameters())]
    total = sum(array.nbytes for array in arrays)
    done = 0
    percent = -1
    for array in arrays:
        mx.eval(array)
        done += array.nbytes
        if done * 100 // total != percent:
            percent = done * 100 // total
            report("weights", done, total)


def _warm_up(model: nn.Module) -> int:
    """Run one tiny step, which compiles the kernels; return the vocabulary's size."""
    logits = model(mx.array([[0, 0]]), cache=make_prompt_cache(model))
    mx.eval(logits)
    return int(logits.shape[-1])


def _bound_context(own: int | None, wanted: int | None) -> int:
    """Return the longest prompt plus answer; recurrent models know no bound of their own."""
    return min((bound for bound in (own, wanted) if bound), default=_UNBOUNDED_CONTEXT_TOKENS)


def _describe(error: BaseException) -> str:
    match error:
        case json.JSONDecodeError():
            text = f"config.json or generation_config.json is not valid JSON: {error}"
        case KeyError():
            text = f"config.json lacks {error}"
        case _ if isinstance(error, _CHECKS) and str(error):
            text = str(error)
        case _:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"
