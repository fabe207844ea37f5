"""A model folder with a tokenizer of single bytes, for tests that need no real vocabulary."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from appliance.chat.request import ChatRequest, Message

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content"
    " + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>"]


def write_model(folder: Path, template: str = CHATML, **config: object) -> Path:
    """Write tokenizer.json and tokenizer_config.json into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    entries: dict[str, object] = {"chat_template": template, "eos_token": "<|im_end|>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(entries))
    return folder


def write_byte_pair_model(folder: Path) -> Path:
    """Write config.json and a tokenizer in its old form, vocab.json with merges.txt, into `folder`.

    It is a GPT-2 tokenizer with one merge, `th`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "<|endoftext|>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\n")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    return folder


def ask(*contents: str) -> ChatRequest:
    """Return a request with one user message for each of `contents`."""
    return ChatRequest("any", tuple(Message("user", content) for content in contents))
