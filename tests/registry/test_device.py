import sys

from appliance.registry.device import guess_device, weight_form


def test_guess_device_imports_no_mlx() -> None:
    before = "mlx" in sys.modules

    guessed = guess_device()

    assert guessed in ("metal", "cuda", "cpu")
    assert ("mlx" in sys.modules) == before


def test_weight_form_is_dense_only_on_cpu() -> None:
    assert [weight_form(device) for device in ("cpu", "metal", "cuda")] == [
        "float32",
        "packed",
        "packed",
    ]
