"""What the loader makes of good and broken model folders."""

import json
import re
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model, quantize_model, save_model

from appliance.engine.language import LanguageBody
from appliance.engine.loader import load_body
from appliance.engine.wire import EngineSettings, Load, LoadPhase
from appliance.errors import LoadFailed
from tests.tiny_models import ARCHITECTURES, write_tiny_model

pytestmark = pytest.mark.mlx


def _ignore(phase: LoadPhase, done: int, total: int) -> None:
    pass


def _load(folder: Path, engine: EngineSettings | None = None) -> LanguageBody:
    return load_body(Load("tiny", str(folder), engine or EngineSettings()), _ignore)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loader_batches_every_model_whose_caches_allow_it(
    tmp_path: Path, architecture: str
) -> None:
    body = _load(write_tiny_model(tmp_path, architecture))

    assert body.max_sequences == (1 if architecture == "llama4" else 32)
    assert body.context_tokens == 256
    assert body.footprint_bytes > 0
    body.close()


@pytest.mark.parametrize(("wanted", "expected"), [(100, 100), (1000, 256), (None, 256)])
def test_loader_bounds_the_context(tmp_path: Path, wanted: int | None, expected: int) -> None:
    folder = write_tiny_model(tmp_path, "llama")

    body = _load(folder, EngineSettings(max_context_tokens=wanted))

    assert body.context_tokens == expected
    body.close()


def _edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _quantize(folder: Path) -> None:
    model, config = load_model(folder)
    model.set_dtype(mx.bfloat16)
    model, config = quantize_model(model, config, group_size=32, bits=4)
    save_model(folder, model)
    _edit_config(folder, quantization=config["quantization"])


@pytest.mark.parametrize("dense", [True, False])
def test_loader_makes_quantised_weights_dense_float32_on_cpu(tmp_path: Path, dense: bool) -> None:
    folder = write_tiny_model(tmp_path, "llama", hidden_size=64)
    _quantize(folder)

    weights = load_model(folder)[0].parameters()
    num_packed = sum(array.nbytes for _, array in tree_flatten(weights))
    del weights
    before = mx.get_active_memory()

    body = _load(folder, EngineSettings(dense_float32=None if dense else False))

    grown = body.footprint_bytes - before
    assert (grown > 4 * num_packed) is dense
    assert (grown < 2 * num_packed) is not dense
    body.close()


def test_loader_reports_how_far_it_is(tmp_path: Path) -> None:
    reports: list[tuple[LoadPhase, int, int]] = []
    load = Load("tiny", str(write_tiny_model(tmp_path, "llama")), EngineSettings())

    load_body(load, lambda *report: reports.append(report)).close()

    weights = [(done, total) for phase, done, total in reports if phase == "weights"]
    assert [phase for phase, _, _ in reports][:: len(reports) - 1] == ["starting", "warming"]
    assert weights[-1][0] == weights[-1][1] > 0
    assert weights == sorted(weights)


def _break_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not tensors")


def _lose(name: str) -> object:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(_lose("config.json"), "config.json", id="no config"),
        pytest.param(_lose("model.safetensors"), "No safetensors", id="no weights"),
        pytest.param(_lose("tokenizer.json"), "does not exist", id="no tokenizer"),
        pytest.param(_break_weights, "safetensors", id="broken weights"),
        pytest.param(
            lambda folder: _edit_config(folder, model_type="perceptron"),
            "Model type perceptron not supported",
            id="unknown type",
        ),
        pytest.param(
            lambda folder: _edit_config(folder, num_hidden_layers=3), "issing", id="missing weights"
        ),
        pytest.param(
            lambda folder: _edit_config(folder, intermediate_size=40), "shape", id="wrong shape"
        ),
        pytest.param(
            lambda folder: _edit_config(folder, model_file="own.py"), "trust", id="own code"
        ),
        pytest.param(
            lambda folder: (folder / "config.json").write_text("{}"),
            "config.json lacks 'model_type'",
            id="empty config",
        ),
        pytest.param(
            lambda folder: (folder / "config.json").write_text("{"),
            "config.json .* not valid JSON",
            id="config no JSON",
        ),
    ],
)
def test_loader_says_in_one_line_what_is_wrong(tmp_path: Path, spoil: object, reason: str) -> None:
    folder = write_tiny_model(tmp_path, "llama")
    assert callable(spoil)
    spoil(folder)

    with pytest.raises(LoadFailed, match=reason) as raised:
        _load(folder)

    assert "\n" not in raised.value.reason
    assert 0 < len(raised.value.reason) <= 301
    assert not raised.value.retryable


_OWN_MODEL = """
from mlx_lm.models.llama import Model as Llama, ModelArgs
from mlx_lm.models.cache import KVCache

class Model(Llama):
    made = 0

    def make_cache(self):
        Model.made += 1
        if Model.made > 1:
            raise LookupError("only one cache")
        return [KVCache() for _ in self.layers]
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param("1 / 0", "^ZeroDivisionError: ", id="division"),
        pytest.param("[][0]", "^IndexError: ", id="index"),
        pytest.param("assert False", "^AssertionError$", id="assertion"),
        pytest.param("def (", "^SyntaxError: .*own.py, line 1", id="syntax"),
        pytest.param("nowhere", "^NameError: .*nowhere", id="name"),
        pytest.param("raise SystemExit(3)", "^SystemExit: 3$", id="exit"),
        pytest.param(_OWN_MODEL, "^LookupError: only one cache$", id="caches"),
    ],
)
def test_loader_says_how_a_models_own_code_failed(tmp_path: Path, code: str, reason: str) -> None:
    folder = write_tiny_model(tmp_path, "llama")
    (folder / "own.py").write_text(code)
    _edit_config(folder, model_file="own.py")

    with pytest.raises(LoadFailed) as raised:
        _load(folder, EngineSettings(trust_remote_code=True))

    assert re.search(reason, raised.value.reason)
    assert not raised.value.retryable


def test_loader_refuses_a_config_that_divides_by_zero(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path, "llama")
    _edit_config(folder, num_attention_heads=0, head_dim=None)

    with pytest.raises(LoadFailed) as raised:
        _load(folder)

    assert not raised.value.retryable
