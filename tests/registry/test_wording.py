"""The text process has a tokenizer for each copy and each template that is in use."""

import asyncio
from pathlib import Path

import pytest

from appliance.chat.client import TextProcess
from appliance.errors import ApplianceError, ModelNotReady, SourceError, TextProcessFailed
from appliance.registry.wording import Wording

FOLDER, FILES = Path("/manifest"), Path("/files")


class NotedText(TextProcess):
    """A text process that only notes what it is told, and fails as its test says."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Path | None] = {}
        self.num_asked = 0
        self.error: ApplianceError | None = None

    async def configure(self, model: str, directory: Path, template_file: Path | None) -> None:
        self.num_asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.known[model] = template_file

    async def forget(self, model: str) -> None:
        self.known.pop(model, None)


def test_copies_of_one_model_have_tokenizers_of_their_own() -> None:
    async def main() -> None:
        text = NotedText()
        old, new = Wording("chat", text, FOLDER), Wording("chat", text, FOLDER)

        await old.begin(FILES, "auto")
        await new.begin(FILES, "auto")
        assert set(text.known) == {old.name("auto"), new.name("auto")}
        await old.forget()

        assert set(text.known) == {new.name("auto")}

    asyncio.run(main())


def test_templates_are_read_once_relative_to_the_manifest() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        wording.want(["auto", "own.jinja"])
        await wording.begin(FILES, "auto")

        await asyncio.gather(*(wording.ready("own.jinja") for _ in range(3)))

        assert text.num_asked == 2
        assert text.known == {
            wording.name("auto"): None,
            wording.name("own.jinja"): FOLDER / "own.jinja",
        }

    asyncio.run(main())


def test_templates_nobody_wants_are_forgotten_when_nobody_may_use_them() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        wording.want(["auto"])
        await wording.begin(FILES, "auto")
        wording.want(["new.jinja"])
        await wording.ready("new.jinja")
        assert len(text.known) == 2

        wording.sweep()
        await asyncio.sleep(0)

        assert set(text.known) == {wording.name("new.jinja")}

    asyncio.run(main())


def test_template_that_is_no_good_is_not_read_for_every_request() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        await wording.begin(FILES, "auto")
        text.error = SourceError("own.jinja", "line 3: unknown tag")

        for _ in range(3):
            with pytest.raises(ModelNotReady):
                await wording.ready("own.jinja")
        assert text.num_asked == 2
        text.error = None
        wording.forgive()

        await wording.ready("own.jinja")

    asyncio.run(main())


def test_template_is_read_again_after_the_text_process_failed() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        await wording.begin(FILES, "auto")
        text.error = TextProcessFailed("died twice")
        with pytest.raises(ModelNotReady):
            await wording.ready("own.jinja")
        text.error = None

        await wording.ready("own.jinja")

    asyncio.run(main())


def test_copy_that_is_read_before_its_load_is_read_anew_under_the_same_name() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        wording.open(FILES)
        await wording.ready("own.jinja")
        before = wording.name("own.jinja")

        await wording.begin(FILES, "auto")

        assert wording.is_open
        assert text.num_asked == 2
        assert text.known == {wording.name("auto"): None}
        assert before == wording.name("own.jinja")

    asyncio.run(main())


def test_who_waits_for_a_template_that_is_read_anew_waits_for_the_new_one() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        wording.open(FILES)
        text.error = TextProcessFailed("forgotten meanwhile")
        waiting = asyncio.create_task(wording.ready("auto"))
        await asyncio.sleep(0)
        beginning = asyncio.create_task(wording.begin(FILES, "auto"))
        await asyncio.sleep(0)
        text.error = None

        await beginning
        await waiting

        assert text.known == {wording.name("auto"): None}

    asyncio.run(main())


def test_copy_that_is_let_go_can_be_read_again_at_once() -> None:
    async def main() -> None:
        text = NotedText()
        wording = Wording("chat", text, FOLDER)
        wording.open(FILES)
        await wording.ready("auto")

        wording.forget_soon()
        wording.open(FILES)
        await wording.ready("auto")
        await asyncio.sleep(0)

        assert text.known == {wording.name("auto"): None}

    asyncio.run(main())
