"""The manifest of a first start."""

from appliance.manifest.builtin import load_builtin
from appliance.manifest.source import WheelSource


def test_builtin_serves_one_small_model_by_default() -> None:
    loaded = load_builtin()

    (model,) = loaded.manifest.models
    source = model.parsed_source()
    assert loaded.file is None
    assert (model.name, model.aliases) == ("smollm2", ("default",))
    assert model.residency.preload
    assert isinstance(source, WheelSource)
    assert source.sha256 is not None
