"""Throughput through HTTP at many streams, ours and the peers', beside mlx-lm's raw batch."""

import statistics
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from measure.generator import RawChild
from measure.server import Peers, Server, start_servers, stop_servers
from measure.stream import make_prompt
from measure.table import Results, median, milliseconds, quantile, ratio

_ROUND_SECONDS = 3600


@dataclass(frozen=True)
class Workload:
    """What each round asks: streams at once, tokens an answer, words a prompt; and how often."""

    streams: int
    tokens: int
    words: int
    rounds: int


@dataclass
class Taken:
    """What the rounds of one contender gave: tokens a second and seconds to the first token.

    `whole` counts all tokens over the whole round; `decode` sums each stream's own rate after its
    first token.
    """

    whole: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    prompt_tokens: list[float] = field(default_factory=list)
    answer_tokens: list[float] = field(default_factory=list)

    def add(self, more: "Taken") -> None:
        self.whole += more.whole
        self.decode += more.decode
        self.first += more.first
        self.prompt_tokens += more.prompt_tokens
        self.answer_tokens += more.answer_tokens


def run_throughput(
    folder: Path, load: Workload, names: list[str], peers: Peers, work: Path, results: Results
) -> None:
    """Measure one number of streams: raw, then each server, then all the other way round."""
    raw = RawChild(folder)
    servers: list[Server] = []
    try:
        servers = start_servers(names, folder, load.streams, peers, work)
        taken = _take_rounds([raw, *servers], load)
    finally:
        stop_servers(servers)
        raw.stop()
    _report(load, taken, results)


def _take_rounds(contenders: list[Server | RawChild], load: Workload) -> dict[str, Taken]:
    taken = {each.name: Taken() for each in contenders}
    numbers = count()
    for turn in range(-1, load.rounds):
        for each in contenders if turn % 2 == 0 else reversed(contenders):
            prompts = [make_prompt(next(numbers), load.words) for _ in range(load.streams)]
            one = _take_round(each, prompts, load.tokens)
            if turn >= 0:  # the first turn warms up
                taken[each.name].add(one)
    return taken


def _take_round(who: Server | RawChild, prompts: list[str], tokens: int) -> Taken:
    if isinstance(who, RawChild):
        got = who.run(prompts, tokens)
        return Taken(
            whole=[got["whole"]],
            decode=[got["decode"]],
            first=[got["first"]],
            prompt_tokens=[got["prompt_tokens"]],
            answer_tokens=[tokens],
        )
    with who:
        begin = time.perf_counter()
        streams = [who.client.ask(prompt, tokens) for prompt in prompts]
        who.client.read(lambda: False, _ROUND_SECONDS)
        seconds = time.perf_counter() - begin
    timed = [each for each in streams if each.times and each.times[-1] > each.times[0]]
    own_rates = [(each.tokens - 1) / (each.times[-1] - each.times[0]) for each in timed]
    return Taken(
        whole=[sum(each.tokens for each in streams) / seconds],
        decode=[sum(own_rates)],
        first=[each.first for each in streams if each.times],
        prompt_tokens=[each.prompt_tokens for each in streams],
        answer_tokens=[each.tokens for each in streams],
    )


def _report(load: Workload, taken: dict[str, Taken], results: Results) -> None:
    raw = taken["raw"]
    for name, each in taken.items():
        whole, decode = median(each.whole), median(each.decode)
        results.add(
            streams=load.streams,
            who=name,
            prompt_tokens=statistics.mean(each.prompt_tokens),
            answer_tokens=statistics.mean(each.answer_tokens),
            tok_s=round(whole, 2),
            decode_tok_s=round(decode, 2),
            ttft_p50_ms=milliseconds(median(each.first)),
            ttft_p95_ms=milliseconds(quantile(each.first, 0.95)),
            to_raw_whole=ratio(whole, median(raw.whole)),
            to_raw_decode=ratio(whole, median(raw.decode)),
            decode_to_raw_decode=ratio(decode, median(raw.decode)),
            rounds_tok_s=[round(rate, 1) for rate in each.whole],
        )
    peers = {name: each for name, each in taken.items() if name not in ("raw", "ours")}
    if peers and "ours" in taken:
        best = max(peers, key=lambda name: median(peers[name].whole))
        quick = min(peers, key=lambda name: median(peers[name].first))
        results.add(
            streams=load.streams,
            who=f"ours / {best}",
            tok_s=ratio(median(taken["ours"].whole), median(peers[best].whole)),
            decode_tok_s=ratio(median(taken["ours"].decode), median(peers[best].decode)),
            ttft_p50_ms=ratio(median(taken["ours"].first), median(peers[quick].first)),
            fastest_first=quick,
        )
