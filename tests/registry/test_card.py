"""A model's small files tell of it before it is loaded, and again when they change."""

import json
from pathlib import Path

import pytest

from appliance.manifest.spec import ModelSpec
from appliance.registry.card import CardIndex, ModelCard
from appliance.registry.store import ModelStore

NESTED = {"text_config": {"max_position_embeddings": 40960}, "max_position_embeddings": 1}


def write_model(folder: Path, config: object = NESTED, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    named = {"config.json": json.dumps(config), "tokenizer.json": "{}"} | files
    for name, text in named.items():
        (folder / name).write_text(text, encoding="utf-8")


def spec(bound: int | None = None, **fields: object) -> ModelSpec:
    engine = {"max_context_tokens": bound}
    return ModelSpec.model_validate(
        {"name": "chat", "source": "path:model", "engine": engine, **fields}
    )


@pytest.fixture
def cards(tmp_path: Path) -> CardIndex:
    return CardIndex(ModelStore(tmp_path / "state"), tmp_path)


@pytest.mark.parametrize(
    ("bound", "expected"), [(None, 40960), (8192, 8192), (50_000, 40960)], ids=str
)
def test_context_is_the_language_parts_within_the_operators_bound(
    cards: CardIndex, tmp_path: Path, bound: int | None, expected: int
) -> None:
    write_model(tmp_path / "model")

    assert cards.read(spec(bound)).context_tokens == expected


def test_files_that_are_not_here_say_nothing(cards: CardIndex) -> None:
    assert cards.read(spec()) == ModelCard()
    assert cards.read(spec(4096)) == ModelCard(4096)


def test_template_is_the_folders_or_the_manifests(cards: CardIndex, tmp_path: Path) -> None:
    write_model(tmp_path / "model", **{"chat_template.jinja": "folder's"})
    (tmp_path / "own.jinja").write_text("own", encoding="utf-8")

    read = [cards.read(spec(chat={"template": each})).template for each in ("auto", "own.jinja")]

    assert read == ["folder's", "own"]


def test_model_without_a_template_has_an_empty_one(cards: CardIndex, tmp_path: Path) -> None:
    write_model(tmp_path / "model")

    assert cards.read(spec()).template == ""


def test_files_that_cannot_be_read_are_silent(cards: CardIndex, tmp_path: Path) -> None:
    write_model(tmp_path / "model", **{"config.json": "{", "tokenizer_config.json": "["})

    assert cards.read(spec()) == ModelCard()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], True),
        (
            [
                "<\uff5cfim\u2581begin\uff5c>",
                "<\uff5cfim\u2581hole\uff5c>",
                "<\uff5cfim\u2581end\uff5c>",
            ],
            True,
        ),
        (["<|fim_prefix|>", "<|fim_suffix|>"], False),
    ],
)
@pytest.mark.parametrize("escapes", [True, False])
def test_tokenizer_that_knows_the_tokens_fills_in(
    cards: CardIndex, tmp_path: Path, tokens: list[str], expected: bool, escapes: bool
) -> None:
    vocabulary = json.dumps({"vocab": dict.fromkeys(tokens, 1)}, ensure_ascii=escapes)
    write_model(tmp_path / "model", **{"tokenizer.json": vocabulary})

    assert cards.read(spec()).fills_in == expected


def test_card_is_read_again_when_a_file_changes(cards: CardIndex, tmp_path: Path) -> None:
    write_model(tmp_path / "model", {"max_position_embeddings": 1024})
    first = cards.read(spec())

    write_model(tmp_path / "model", {"max_position_embeddings": 16_384})

    assert cards.read(spec(chat={"template": "auto"})).context_tokens == 16_384
    assert first.context_tokens == 1024
