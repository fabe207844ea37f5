"""Bring a language model from its folder into memory and find out how to step it."""

import gc
import json
import os
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import dequantize_model, load_model

from appliance.chat.folder import context_tokens
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.body import Report
from appliance.engine.choice import choose_batch
from appliance.engine.device import Device, this_device
from appliance.engine.foreign import CHECKS, FOREIGN_ERRORS
from appliance.engine.language import LanguageBody, LanguageModel
from appliance.engine.prompt import PromptReader
from appliance.engine.ring import Layout, RingLayout, kv_shape, read_layouts
from appliance.engine.row_batch import RowBatch
from appliance.engine.rows import Rows
from appliance.engine.sampling import BatchSampler
from appliance.engine.share import MemoryShare, TokenCosts, apply_limits
from appliance.engine.speed import measure, plan_usual_shapes
from appliance.engine.wire import EngineSettings, Load
from appliance.errors import LoadFailed, SourceError
from appliance.scheduler.pace import Pace

_UNBOUNDED_CONTEXT_TOKENS = 2**20
_MAX_REASON = 300
_MOST_TOGETHER = 32
# Shapes whose attention MLX keeps planned; its own default is 256.
_NUM_PLANS = "1024"
# Scores and their softmax, where attention is not fused.
_SCORE_BYTES = 8
# Logits, their float32 copy, and what the filters make of them.
_SAMPLING_BYTES = 16


def load_body(load: Load, report: Report, device: Device | None = None) -> LanguageBody:
    """Load the model folder that `load` names; reports bytes done. Raises LoadFailed.

    The engine steps as `device` wants it; None asks MLX. Call on the engine thread: it alone may
    touch the arrays made here.
    """
    folder = Path(load.directory)
    os.environ.setdefault("MLX_CUDA_SDPA_CACHE_SIZE", _NUM_PLANS)
    report("starting", 0, 0)
    try:
        model, config = load_model(
            folder, lazy=True, trust_remote_code=load.engine.trust_remote_code
        )
        if _wants_dense_float32(load.engine):
            model = dequantize_model(model)
            model.set_dtype(mx.float32)
        apply_limits(load.limits)
        _read_weights(model, report)
        report("warming", 0, 0)
        tokenizer = Tokenizer.load(folder)
        context = _bound_context(context_tokens(config), load.engine.max_context_tokens)
        return _prepare(model, config, tokenizer, context, load, device or this_device())
    except SourceError as error:
        raise LoadFailed(load.model, error.reason, retryable=False) from error
    except FOREIGN_ERRORS as error:
        raise LoadFailed(load.model, _describe(error), retryable=False) from error


def _prepare(
    model: nn.Module,
    config: dict[str, Any],
    tokenizer: Tokenizer,
    context: int,
    load: Load,
    device: Device,
) -> LanguageBody:
    """Try the model out, and put together everything that steps it."""
    engine = load.engine
    vocab_size, caches = _warm_up(model)
    layouts = read_layouts(caches)
    is_simple = engine.kind == "simple"
    batch = RowBatch(model) if is_simple else choose_batch(model, layouts, engine.max_sequences)
    is_single = isinstance(batch, RowBatch)
    shape = kv_shape(caches)
    del caches
    can_group = not is_single and _is_plain(layouts)
    most_tokens = engine.prefill_chunk_tokens
    ladder, layer_bytes = measure(model, min(most_tokens, context))
    if device.plans_shapes:
        most_together = _MOST_TOGETHER if can_group else 1
        plan_usual_shapes(model, min(most_tokens, context), most_together, context)
    pace = Pace(most_tokens, ladder, has_few_sizes=device.plans_shapes)
    reader = PromptReader(
        model, _MOST_TOGETHER, can_group=can_group, has_few_shapes=can_group and device.plans_shapes
    )
    # A batch that was only tried refers to itself, and would count as the model's own memory.
    gc.collect()
    mx.clear_cache()
    costs = TokenCosts(layer_bytes, _score_bytes(config), _SAMPLING_BYTES * vocab_size)
    share = MemoryShare(int(mx.get_active_memory()), shape, costs)
    share.set_limits(load.limits)
    sampler = BatchSampler(vocab_size, compiled=mx.default_device() != mx.cpu)
    loaded = LanguageModel(
        model, tokenizer, context, vocab_size, Rows(batch, sampler), reader, share, pace
    )
    most = 1 if is_single else engine.max_sequences
    return LanguageBody(loaded, most, runs_ahead=device.runs_ahead)


def _is_plain(layouts: list[Layout] | None) -> bool:
    """Say whether every layer keeps all its keys, so that padding behind a prompt is harmless."""
    return layouts is not None and all(
        isinstance(layout, RingLayout) and layout.window is None for layout in layouts
    )


def _score_bytes(config: dict[str, Any]) -> int:
    """Return what a layer's attention holds for a pair of tokens; 0 where it is fused."""
    if mx.metal.is_available():
        return 0
    heads = config.get("text_config", config).get("num_attention_heads", 0)
    return _SCORE_BYTES * heads if isinstance(heads, int) else 0


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


def _warm_up(model: nn.Module) -> tuple[int, list[Any]]:
    """Run one tiny step, which compiles the kernels.

    Returns the vocabulary's size and the caches, which hold two tokens.
    """
    caches = make_prompt_cache(model)
    logits = model(mx.array([[0, 0]]), cache=caches)
    mx.eval(logits, [cache.state for cache in caches])
    return int(logits.shape[-1]), caches


def _bound_context(own: int | None, wanted: int | None) -> int:
    """Return the longest prompt plus answer; recurrent models know no bound of their own."""
    return min((bound for bound in (own, wanted) if bound), default=_UNBOUNDED_CONTEXT_TOKENS)


def _describe(error: BaseException) -> str:
    match error:
        case json.JSONDecodeError():
            text = f"config.json or generation_config.json is not valid JSON: {error}"
        case KeyError():
            text = f"config.json lacks {error}"
        case _ if isinstance(error, CHECKS) and str(error):
            text = str(error)
        case _:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"
