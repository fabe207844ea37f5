"""One tokenizer read twice, by us and by transformers; each module names the `folder`."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appliance.chat.tokenizer import Tokenizer

if TYPE_CHECKING:
    import transformers


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> "transformers.PreTrainedTokenizerBase":
    from transformers import AutoTokenizer  # noqa: PLC0415 - takes a second, for few tests

    return AutoTokenizer.from_pretrained(folder)
