"""A tiny model of gpt-oss' kind that thinks without end, and answers once its thought is ended."""

import json
from pathlib import Path

from appliance.chat.tokenizer import Tokenizer
from tests.chat.tiny import write_model
from tests.tiny_models import write_tiny_model

# As gpt-oss' own, it shows earlier thoughts and calls, and has no switch for thoughts.
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.thinking %}"
    "{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}"
    "{% endif %}"
    "{{ '<|start|>' + message.role + '<|channel|>final<|message|>' + message.content + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
MARKS = {name: f"<|{name}|>" for name in ("start", "channel", "message", "end", "return")}
OPENING = "<|channel|>analysis<|message|>"
SECRET = "secret "
ANSWER = "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"

_CODE = """
import mlx.core as mx
from mlx_lm.models.llama import Model as Llama, ModelArgs

OPENING, SECRET, ANSWER, END = {opening}, {secret}, {answer}, {end}


class Model(Llama):
    def __call__(self, inputs, cache=None):
        logits = super().__call__(inputs, cache)
        if inputs.shape[1] > 1:
            self._coming = None
            return logits
        if inputs.item() == END:
            self._coming = iter(ANSWER)
        elif self._coming is None:
            self._coming = iter(OPENING + 50 * SECRET)
        wanted = next(self._coming, END)
        return mx.where(mx.arange(logits.shape[-1]) == wanted, 1e4, logits)
"""


def write_thinker(folder: Path) -> Path:
    """Write the model and return its folder; it loads with `trust_remote_code` only."""
    write_tiny_model(folder, "llama", vocab_size=264)
    write_model(folder, TEMPLATE, extra_special_tokens=MARKS, eos_token="<|return|>")
    tokenizer = Tokenizer.load(folder)
    opening, secret, answer = map(tokenizer.encode, (OPENING, SECRET, ANSWER))
    (end,) = tokenizer.encode("<|end|>")
    code = _CODE.format(opening=opening, secret=secret, answer=answer, end=end)
    (folder / "thinker.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_file": "thinker.py"}))
    return folder
