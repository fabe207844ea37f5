"""What a config.json says about the length of a context."""

from typing import Any

import pytest

from appliance.chat.folder import context_tokens


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"n_positions": 1024}, 1024),
        ({"max_seq_len": 2048}, 2048),
        ({"text_config": {"max_position_embeddings": 32768}}, 32768),
        ({"max_position_embeddings": 77, "text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"max_position_embeddings": 77, "text_config": {}}, 77),
        ({"thinker_config": {"text_config": {"n_ctx": 7}}}, 7),
        ({"vision_config": {"max_position_embeddings": 5}, "llm_config": {"n_ctx": 7}}, 7),
        ({"vision_config": {"max_position_embeddings": 5}}, None),
        ({"max_position_embeddings": None, "n_ctx": True, "text_config": None}, None),
        ({"max_position_embeddings": 0, "n_positions": "9"}, None),
        ({}, None),
    ],
)
def test_context_is_the_language_models(config: dict[str, Any], expected: int | None) -> None:
    assert context_tokens(config) == expected


def test_context_of_a_config_nested_without_end_is_unknown() -> None:
    config: dict[str, Any] = {}
    config["text_config"] = config

    assert context_tokens(config) is None
