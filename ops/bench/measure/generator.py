"""Drive mlx-lm's own batch generator, the mark to beat, and read how fast it decodes."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from appliance.engine.blas import preload_blas


class Generator:
    """One mlx-lm BatchGenerator whose whole batch decodes greedily and never ends."""

    def __init__(self, model: Any, rows: int) -> None:
        from mlx_lm.generate import BatchGenerator

        self._generator = BatchGenerator(
            model, max_tokens=10**6, completion_batch_size=rows, prefill_batch_size=rows
        )
        self.made: dict[int, list[int]] = {}

    def insert(self, prompts: list[list[int]], caches: list[Any] | None = None) -> list[int]:
        """Add prompts; with `caches` all but each one's last token has been read into them."""
        if caches is None:
            ids = self._generator.insert(prompts)
        else:
            last = [prompt[-1:] for prompt in prompts]
            before = [prompt[:-1] for prompt in prompts]
            ids = self._generator.insert(last, caches=caches, all_tokens=before)
        self.made |= {number: [] for number in ids}
        return list(ids)

    def step(self) -> int:
        """Make one step and return how many rows got a token."""
        _, responses = self._generator.next()
        for response in responses:
            self.made[response.uid].append(response.token)
        return len(responses)

    def settle(self, rows: int) -> None:
        """Step until so many rows decode."""
        while self.step() < rows:
            pass

    def remove(self, numbers: list[int]) -> None:
        """Take rows out of the batch."""
        self._generator.remove(numbers)

    def close(self) -> None:
        self._generator.close()


class RawChild:
    """mlx-lm alone in a process of its own, which waits asleep between its turns."""

    name = "raw"

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).parents[1] / "engine.py"), "raw", str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.run(["Say one word."], 4)

    def run(self, prompts: list[str], tokens: int) -> dict[str, float]:
        """Answer prompts together; returns tokens a second while all decode, and over all."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"prompts": prompts, "tokens": tokens}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the raw child ended")
        got: dict[str, float] = json.loads(line)
        return got

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def serve_raw(folder: Path) -> None:
    """Answer RawChild on stdin and stdout until it closes them."""
    preload_blas()
    import mlx.core as mx
    from mlx_lm import load

    model, tokenizer = load(str(folder))[:2]
    for line in sys.stdin:
        asked = json.loads(line)
        messages = [[{"role": "user", "content": text}] for text in asked["prompts"]]
        prompts = [
            tokenizer.apply_chat_template(each, add_generation_prompt=True) for each in messages
        ]
        print(json.dumps(_measure(model, prompts, asked["tokens"])), flush=True)
        mx.clear_cache()


def _measure(model: Any, prompts: list[list[int]], tokens: int) -> dict[str, float]:
    rows = len(prompts)
    generator = Generator(model, rows)
    begin = time.perf_counter()
    generator.insert(prompts)
    generator.settle(rows)
    all_decode = time.perf_counter()
    for _ in range(tokens - 1):
        generator.step()
    end = time.perf_counter()
    generator.close()
    return {
        "decode": rows * (tokens - 1) / (end - all_decode),
        "whole": rows * tokens / (end - begin),
        "first": all_decode - begin,
        "prompt_tokens": sum(map(len, prompts)) / rows,
    }
