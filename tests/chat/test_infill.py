import pytest

from appliance.chat.infill import find_infill


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
         "<|fim_prefix|>A<|fim_suffix|>B<|fim_middle|>"),
        (("▁<PRE>", "▁<SUF>", "▁<MID>"), "▁<PRE>A▁<SUF>B▁<MID>"),
        (("[PREFIX]", "[SUFFIX]"), "[SUFFIX]B[PREFIX]A"),
    ],
)  # fmt: skip
def test_infill_is_in_the_tokens_that_there_are(tokens: tuple[str, ...], expected: str) -> None:
    infill = find_infill(set(tokens).__contains__)

    assert infill is not None
    assert infill.join("A", "B") == expected


def test_infill_needs_every_token() -> None:
    assert find_infill({"<fim_prefix>", "<fim_suffix>"}.__contains__) is None
