"""Converted weights give the logits that numpy finds in the file they came from."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind
from mlx_lm.utils import load_model
from safetensors.numpy import load_file

from appliance.engine.convert.conversion import convert
from appliance.engine.convert.weight import WeightForm
from tests.engine.convert.numpy_llama import NumpyLlama
from tests.engine.convert.tiny_gguf import TinyLlama

pytestmark = pytest.mark.mlx

IDS = list(range(40, 60))
# By the rule of Llama 3.1 for eight frequencies of base 500 000 and factor 8.
LLAMA31_FACTORS = [1.0, 1.0, 1.0, 1.0, 2.69453, 8.0, 8.0, 8.0]


def converted(path: Path, dest: Path, form: WeightForm = "float32") -> Path:
    convert(path, dest, form, lambda done, total: None)
    return dest


def assert_same_logits(path: Path, folder: Path) -> None:
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)

    ours = np.array(model(mx.array([IDS]))[0])
    theirs = NumpyLlama(path).logits(IDS)

    assert np.abs(ours - theirs).max() < 1e-3
    assert (ours.argmax(-1) == theirs.argmax(-1)).all()


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.Q8_0, Kind.Q4_1, Kind.Q4_0])
@pytest.mark.parametrize("form", ["float32", "packed"])
def test_conversion_keeps_the_logits(kind: Kind, form: WeightForm, tmp_path: Path) -> None:
    path = TinyLlama(kind=kind).write(tmp_path / "tiny.gguf")

    folder = converted(path, tmp_path / "mlx", form)

    assert_same_logits(path, folder)


@pytest.mark.parametrize(
    "tiny",
    [
        pytest.param(TinyLlama(is_tied=False), id="own head"),
        pytest.param(TinyLlama(has_bias=True), id="biases"),
        pytest.param(
            TinyLlama(keys={"llama.rope.freq_base": 5e5}, rope_factors=LLAMA31_FACTORS),
            id="llama 3.1 rotary factors",
        ),
    ],
)
def test_conversion_keeps_the_logits_of_a_variant(tiny: TinyLlama, tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "tiny.gguf")

    folder = converted(path, tmp_path / "mlx")

    assert_same_logits(path, folder)


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_1, Kind.Q4_0])
def test_packed_weights_equal_dense_weights_bit_for_bit(kind: Kind, tmp_path: Path) -> None:
    path = TinyLlama(kind=kind).write(tmp_path / "tiny.gguf")

    dense = load_file(converted(path, tmp_path / "dense") / "model.safetensors")
    packed = load_file(converted(path, tmp_path / "packed", "packed") / "model.safetensors")

    bits = 8 if kind == Kind.Q8_0 else 4
    layers = [name.removesuffix("scales") for name in packed if name.endswith("scales")]
    assert len(layers) == 15
    for layer in layers:
        scales, biases = (
            mx.array(packed[layer + part].astype(np.float32)) for part in ("scales", "biases")
        )
        weight = mx.array(packed[f"{layer}weight"])
        unpacked = mx.dequantize(weight, scales, biases, group_size=32, bits=bits)
        assert np.array_equal(np.array(unpacked), dense[f"{layer}weight"])
