"""Compare ids and texts with transformers' own, with SmolLM2's real tokenizer."""

from pathlib import Path

import pytest
import transformers

from appliance.chat.request import Message
from appliance.chat.template import ChatTemplate
from appliance.chat.tokenizer import Tokenizer
from tests.chat.conversation import HARD_TEXTS, as_dict, hard_conversations
from tests.packages import smollm2_directory

pytestmark = [pytest.mark.registry, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder() -> Path:
    return smollm2_directory()


def test_prompt_ids_are_those_of_transformers(
    folder: Path, tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    template = ChatTemplate.load(folder, tokenizer.special_tokens)

    for messages in hard_conversations():
        ids = tokenizer.encode(template.render(messages))
        chat = [as_dict(message) for message in messages]
        expected = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert ids == expected


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_texts_are_those_of_transformers(
    tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase, text: str
) -> None:
    ids = tokenizer.encode(text)

    assert ids == theirs.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_special_tokens_are_those_of_transformers(
    tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    assert tokenizer.special_tokens == theirs.special_tokens_map
    assert theirs.eos_token_id in tokenizer.eos_token_ids


def test_default_system_message_comes_from_the_template(folder: Path, tokenizer: Tokenizer) -> None:
    template = ChatTemplate.load(folder, tokenizer.special_tokens)

    assert template.render((Message("user", "hi"),)).startswith("<|im_start|>system\n")
