"""Check the conversion on a real model: SmolLM2 135M Instruct, as a Q4_1 GGUF file."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import generate, load
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from appliance.engine.convert.conversion import convert
from tests.engine.convert.numpy_llama import NumpyLlama
from tests.packages import smollm2_gguf

pytestmark = [pytest.mark.mlx, pytest.mark.registry, pytest.mark.timeout(300)]

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
HARD = (
    "",
    " ",
    "Hello, y'all! I'll  go\tthere\r\n\r\nnow",
    "我想在apple工作1314151天~ ありがとう 한국어",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2705 \U0001f999 e\u0301 \u00e9",
    "3 33 333 3333 3.14 1/2 \u00bd \u0663",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    'fn main() { println!("{}", x\'y); } // <tag/> & \u0000 \ufeff',
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Both forms of the converted model; removed at once, since they are large."""
    top = tmp_path_factory.mktemp("smollm2")
    made = {form: top / form for form in ("float32", "packed")}
    convert(smollm2_gguf(), made["float32"], "float32", lambda done, total: None)
    convert(smollm2_gguf(), made["packed"], "packed", lambda done, total: None)
    yield made
    shutil.rmtree(top)


@pytest.mark.parametrize("form", ["float32", "packed"])
def test_smollm2_knows_the_capital_of_france(form: str, folders: dict[str, Path]) -> None:
    model, tokenizer = load(str(folders[form]))
    # Half-precision scales are twenty times slower on a CPU, and the numbers stay the same.
    model.set_dtype(mx.float32)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True)

    answer = generate(model, tokenizer, prompt, max_tokens=20)

    assert answer == "The capital of France is Paris."


def test_smollm2_packed_weights_equal_dense_weights_bit_for_bit(folders: dict[str, Path]) -> None:
    dense = load_file(folders["float32"] / "model.safetensors")
    packed = load_file(folders["packed"] / "model.safetensors")
    bits = {"model.embed_tokens.": 8}
    for name, array in dense.items():
        layer = name.removesuffix("weight")
        if f"{layer}scales" not in packed:
            assert np.array_equal(packed[name].astype(np.float32), array)
            continue
        scales, biases = (
            mx.array(packed[layer + part].astype(np.float32)) for part in ("scales", "biases")
        )
        unpacked = mx.dequantize(
            mx.array(packed[name]), scales, biases, group_size=32, bits=bits.get(layer, 4)
        )
        assert np.array_equal(np.array(unpacked), array)


def test_smollm2_logits_equal_numpys(folders: dict[str, Path]) -> None:
    model, tokenizer = load(str(folders["float32"]))
    ids = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True)

    ours = np.array(model(mx.array([ids]))[0])
    theirs = NumpyLlama(smollm2_gguf()).logits(ids)

    assert np.abs(ours - theirs).max() < 1e-3
    assert (ours.argmax(-1) == theirs.argmax(-1)).all()


def test_smollm2_tokenizer_gives_the_ids_of_transformers(folders: dict[str, Path]) -> None:
    tokenizer = Tokenizer.from_file(str(folders["packed"] / "tokenizer.json"))
    reference = AutoTokenizer.from_pretrained(folders["packed"])

    ids = [tokenizer.encode(text).ids for text in HARD]

    assert ids == [reference.encode(text) for text in HARD]
    assert [tokenizer.decode(each, skip_special_tokens=False) for each in ids] == list(HARD)


def test_smollm2_chat_prompt_is_made_of_whole_special_tokens(folders: dict[str, Path]) -> None:
    reference = AutoTokenizer.from_pretrained(folders["packed"])
    settings = json.loads((folders["packed"] / "generation_config.json").read_text())

    text = reference.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    ids = reference.encode(text)

    assert text.count("<|im_start|>") == ids.count(reference.convert_tokens_to_ids("<|im_start|>"))
    assert settings["eos_token_id"] == [reference.convert_tokens_to_ids("<|im_end|>")]
    assert reference.eos_token == "<|im_end|>"
