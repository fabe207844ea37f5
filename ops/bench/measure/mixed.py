"""How running streams feel a long prompt, and how long that prompt takes beside them."""

from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

from measure.server import Peers, Server, start_servers, stop_servers
from measure.stream import Stream, make_prompt
from measure.table import Results, median, milliseconds, quantile, ratio

_SECONDS = 3600
_RUNNING_WORDS = 40


@dataclass(frozen=True)
class Mix:
    """Streams that run, words of the long prompt, gaps seen of each stream before it, rounds."""

    streams: int
    words: int
    gaps: int
    rounds: int


@dataclass
class Round:
    """Seconds: the gaps before and during the long prompt, and its first token alone and beside."""

    before: list[float]
    during: list[float]
    alone: float
    beside: float
    prompt_tokens: int


def run_mixed(
    folder: Path, mix: Mix, names: list[str], peers: Peers, work: Path, results: Results
) -> None:
    """Measure each server in rounds of its own; what is compared comes from the same round."""
    numbers = count(10**6)
    servers = start_servers(names, folder, mix.streams + 1, peers, work)
    try:
        for server in servers:
            with server:
                rounds = [_take_round(server, mix, numbers) for _ in range(mix.rounds + 1)]
            _report(server.name, mix, rounds[1:], results)
    finally:
        stop_servers(servers)


def _take_round(server: Server, mix: Mix, numbers: "count[int]") -> Round:
    alone = _ask_long(server, mix, next(numbers))
    server.client.read(lambda: alone.is_done, _SECONDS)
    # Long enough for the slowest prompt; what is left over is cancelled.
    tokens = 50 * mix.gaps
    running = [
        server.client.ask(make_prompt(next(numbers), _RUNNING_WORDS), tokens)
        for _ in range(mix.streams)
    ]
    server.client.read(lambda: all(stream.times for stream in running), _SECONDS)
    steady = [len(stream.times) for stream in running]
    server.client.read(
        lambda: all(
            len(stream.times) > begin + mix.gaps
            for stream, begin in zip(running, steady, strict=True)
        ),
        _SECONDS,
    )
    long = _ask_long(server, mix, next(numbers))
    server.client.read(lambda: bool(long.times), _SECONDS)
    end = long.times[0]
    server.client.read(
        lambda: all(stream.is_done or stream.times[-1] > end for stream in running), _SECONDS
    )
    for stream in running:
        if stream.is_done:
            raise RuntimeError("a running stream ended before the long prompt was read")
    began = max(stream.times[begin] for stream, begin in zip(running, steady, strict=True))
    before = _gaps(running, began, long.asked)
    during = _gaps(running, long.asked, end)
    server.client.drop()
    return Round(before, during, alone.first, long.first, alone.prompt_tokens)


def _ask_long(server: Server, mix: Mix, number: int) -> Stream:
    return server.client.ask(make_prompt(number, mix.words), 1)


def _gaps(streams: list[Stream], begin: float, end: float) -> list[float]:
    """Return the gaps of which a part lies between two moments."""
    return [
        after - before
        for stream in streams
        for before, after in pairwise(stream.times)
        if begin < after and before < end
    ]


def _report(name: str, mix: Mix, rounds: list[Round], results: Results) -> None:
    gap_ratios = [quantile(each.during, 0.99) / median(each.before) for each in rounds]
    prefill_ratios = [each.beside / each.alone for each in rounds]
    results.add(
        who=name,
        streams=mix.streams,
        prompt_tokens=rounds[0].prompt_tokens,
        gap_before_p50_ms=milliseconds(median(median(each.before) for each in rounds)),
        gap_before_p99_ms=milliseconds(median(quantile(each.before, 0.99) for each in rounds)),
        gap_during_p50_ms=milliseconds(median(median(each.during) for each in rounds)),
        gap_during_p99_ms=milliseconds(median(quantile(each.during, 0.99) for each in rounds)),
        num_gaps=sum(len(each.during) for each in rounds),
        p99_gap_ratio=ratio(median(gap_ratios), 1.0),
        alone_ms=milliseconds(median(each.alone for each in rounds)),
        beside_ms=milliseconds(median(each.beside for each in rounds)),
        prefill_ratio=ratio(median(prefill_ratios), 1.0),
    )
