"""Build a tokenizer from a GGUF file's vocabulary.

It knows more kinds of vocabulary than the Llama family's models have: what proves it right is the
vocabularies that the ggml project records with texts and their ids, and those are of all kinds.
"""

from tokenizers import Tokenizer

from appliance.engine.convert.byte_pair import build_byte_pair
from appliance.engine.convert.metadata import Metadata
from appliance.engine.convert.sentence_piece import build_sentence_piece
from appliance.engine.convert.vocabulary import Vocabulary, add_whole_tokens
from appliance.engine.convert.word_piece import build_word_piece
from appliance.errors import SourceError

_BUILDERS = {
    "gpt2": lambda metadata, vocabulary: build_byte_pair(metadata, vocabulary, "default"),
    "gemma4": lambda metadata, vocabulary: build_byte_pair(metadata, vocabulary, "gemma4"),
    "llama": build_sentence_piece,
    "bert": build_word_piece,
}


def build_tokenizer(metadata: Metadata, vocabulary: Vocabulary) -> Tokenizer:
    """Return a tokenizer that gives the ids of the file's own; raises SourceError if none can."""
    model = metadata.text("tokenizer.ggml.model")
    if model not in _BUILDERS:
        reason = f"its tokenizer '{model}' is not supported; supported are {', '.join(_BUILDERS)}"
        raise SourceError(metadata.source, reason)
    try:
        tokenizer = _BUILDERS[model](metadata, vocabulary)
    except ValueError as error:
        raise SourceError(metadata.source, f"its tokenizer does not fit: {error}") from error
    add_whole_tokens(tokenizer, vocabulary)
    return tokenizer
