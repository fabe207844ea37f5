"""Time chunks of a prompt at load: how fast a model reads, and what memory a token takes."""

import math
import time

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache

_TIMED_TOKENS = (32, 128, 512, 2048)
_SHORT_SECONDS = 0.1
_USUAL_PROMPT = 4096
_USUAL_CHUNK = 512
_USUAL_END = 128


def measure(model: nn.Module, most_tokens: int) -> tuple[list[tuple[int, float]], int]:
    """Time chunks of up to `most_tokens`, larger ones until size tells.

    Returns sizes and seconds, and the bytes that a token takes while it is read.
    """
    first = min(_TIMED_TOKENS[0], most_tokens)
    seconds, layer_bytes = _time_chunk(model, first)
    ladder = [(first, seconds)]
    for size in _TIMED_TOKENS[1:]:
        if size > most_tokens or ladder[-1][1] > 2 * ladder[0][1]:
            break
        seconds, layer_bytes = _time_chunk(model, size)
        ladder.append((size, seconds))
    return ladder, layer_bytes


def plan_usual_shapes(
    model: nn.Module, most_tokens: int, most_together: int, context_tokens: int
) -> None:
    """Read some prompts as they usually are, where attention over a new shape is planned first.

    A long one, as far as the context goes, in chunks as beside others and as alone; and short ones
    together.
    """
    for size in {min(_USUAL_CHUNK, most_tokens), most_tokens}:
        _read(model, 1, size, min(_USUAL_PROMPT, context_tokens) // size)
    rows = 1
    while rows <= most_together and rows * _USUAL_END <= most_tokens:
        _read(model, rows, _USUAL_END, 1)
        rows *= 2


def _read(model: nn.Module, rows: int, size: int, count: int) -> None:
    caches = make_prompt_cache(model)
    for _ in range(count):
        model(mx.zeros((rows, size), mx.int32), cache=caches)
        mx.eval([cache.state for cache in caches])


def _time_chunk(model: nn.Module, size: int) -> tuple[float, int]:
    """Return the seconds a prompt of `size` tokens takes, and the bytes for each meanwhile.

    The better of two: the first one may have to compile, but on CPU, where a long one is not
    repeated.
    """
    best = math.inf
    layer_bytes = 0
    for _ in range(2):
        if mx.default_device() == mx.cpu and math.inf > best > _SHORT_SECONDS:
            break
        caches = make_prompt_cache(model)
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        begin = time.perf_counter()
        model(mx.zeros((1, size), mx.int32), cache=caches)
        mx.eval([cache.state for cache in caches])
        best = min(best, time.perf_counter() - begin)
        layer_bytes = max(0, mx.get_peak_memory() - before) // size
    return best, layer_bytes
