"""Answer what the small JSON files beside the weights say of tokens, templates and stopping."""

from appliance.engine.convert.metadata import Metadata
from appliance.engine.convert.vocabulary import TokenKind, Vocabulary

_TEMPLATE = "tokenizer.chat_template"
# Tokens that end a turn in known templates: some files name only the end of a document as eos.
_TURN_ENDS = frozenset({"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"})


def generation_config(vocabulary: Vocabulary) -> dict[str, object]:
    """Return generation_config.json: the ids that begin, pad and end an answer."""
    ends = {vocabulary.roles[role] for role in ("eos", "eot", "eom") if role in vocabulary.roles}
    ends |= {
        number for number, token in vocabulary.of_kind(TokenKind.CONTROL) if token in _TURN_ENDS
    }
    ids = {f"{role}_token_id": vocabulary.roles.get(role) for role in ("bos", "pad")}
    named = {key: number for key, number in ids.items() if number is not None}
    return named | ({"eos_token_id": sorted(ends)} if ends else {})


def tokenizer_config(
    metadata: Metadata, vocabulary: Vocabulary, context_tokens: int
) -> dict[str, object]:
    """Return tokenizer_config.json, with the chat templates that the file carries."""
    roles = {
        f"{role}_token": vocabulary.role(role) for role in ("bos", "eos", "unk", "pad", "mask")
    }
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_tokens,
        "clean_up_tokenization_spaces": False,
    }
    config |= {key: token for key, token in roles.items() if token is not None}
    template = metadata.text(_TEMPLATE, None)
    return config | ({"chat_template": template} if template is not None else {})
