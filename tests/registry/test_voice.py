"""Prompts can be made for a model whose files are here, whether it is in memory or not."""

import asyncio
from pathlib import Path

import pytest

from appliance.chat.client import TextProcess
from appliance.errors import ModelNotFound, ModelNotReady
from appliance.registry.phase import Phase
from tests.registry.stand import Stand, play, profile, spec


class NotedText(TextProcess):
    """A text process that only notes whose files it was told to read, by its own names."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Path] = {}
        self.num_asked = 0

    async def configure(self, model: str, directory: Path, template_file: Path | None) -> None:
        self.num_asked += 1
        await asyncio.sleep(0)
        self.known[model] = directory

    async def forget(self, model: str) -> None:
        self.known.pop(model, None)


def write_model(folder: Path) -> Path:
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def test_files_are_read_once_for_all_who_ask(tmp_path: Path) -> None:
    text = NotedText()
    model = write_model(tmp_path / "model")

    async def test(stand: Stand) -> None:
        base = spec(source="path:model")
        stand.serve(base, profile("fast", base))

        voices = await asyncio.gather(
            *(stand.registry.voice(name) for name in ("chat", "chat", "fast"))
        )

        assert {voice.text_name for voice in voices} == set(text.known)
        assert [voice.spec.name for voice in voices] == ["chat", "chat", "fast"]
        assert (list(text.known.values()), text.num_asked) == ([model], 1)
        assert stand.seen().phase is Phase.ABSENT

    play(tmp_path, test, text)


def test_files_that_are_not_here_are_not_fetched(tmp_path: Path) -> None:
    async def test(stand: Stand) -> None:
        stand.serve(spec(source="path:model"))

        with pytest.raises(ModelNotReady, match="files are not on this machine"):
            await stand.registry.voice("chat")
        write_model(tmp_path / "model")

        assert (await stand.registry.voice("chat")).text_name

    play(tmp_path, test, NotedText())


def test_script_has_no_name_in_the_text_process(tmp_path: Path) -> None:
    text = NotedText()

    async def test(stand: Stand) -> None:
        stand.serve(spec())

        assert (await stand.registry.voice("chat")).text_name == ""
        assert text.num_asked == 0
        with pytest.raises(ModelNotFound):
            await stand.registry.voice("nobody")

    play(tmp_path, test, text)


def test_another_source_is_read_anew_and_the_old_one_forgotten(tmp_path: Path) -> None:
    text = NotedText()
    write_model(tmp_path / "model")
    other = write_model(tmp_path / "other")

    async def test(stand: Stand) -> None:
        stand.serve(spec(source="path:model"))
        before = await stand.registry.voice("chat")
        stand.serve(spec(source="path:other"))

        after = await stand.registry.voice("chat")

        assert before.text_name != after.text_name
        assert text.known == {after.text_name: other}

    play(tmp_path, test, text)


def test_model_that_is_served_no_more_is_forgotten(tmp_path: Path) -> None:
    text = NotedText()
    write_model(tmp_path / "model")

    async def test(stand: Stand) -> None:
        stand.serve(spec(source="path:model"))
        await stand.registry.voice("chat")
        assert len(text.known) == 1

        stand.serve()
        await asyncio.sleep(0)

        assert text.known == {}
        assert stand.registry.observed() == ()

    play(tmp_path, test, text)


def test_model_that_is_not_in_memory_is_forgotten_after_its_idle_time(tmp_path: Path) -> None:
    text = NotedText()
    write_model(tmp_path / "model")

    async def test(stand: Stand) -> None:
        stand.serve(spec(source="path:model", residency={"idle_unload": 0.05}))
        before = await stand.registry.voice("chat")
        async with asyncio.timeout(10):
            while text.known:
                await asyncio.sleep(0.005)

        after = await stand.registry.voice("chat")

        assert before.text_name != after.text_name
        assert set(text.known) == {after.text_name}

    play(tmp_path, test, text)
