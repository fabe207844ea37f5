"""One tokenizer read twice, by us and by transformers; each module names the `folder`."""

from pathlib import Path

import pytest
import transformers

from appliance.chat.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> transformers.PreTrainedTokenizerBase:
    return transformers.AutoTokenizer.from_pretrained(folder)
