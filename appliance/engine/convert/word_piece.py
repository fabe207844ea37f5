"""Build a tokenizer for BERT's vocabularies: whole words, then the longest pieces that fit."""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from appliance.engine.convert.metadata import Metadata
from appliance.engine.convert.vocabulary import SPACE, TokenKind, Vocabulary, frame
from appliance.errors import SourceError

_CONTINUES = "##"


def build_word_piece(metadata: Metadata, vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer; a word that no pieces make up becomes the unknown token."""
    unknown = vocabulary.role("unk")
    if unknown is None:
        raise SourceError(metadata.source, "its vocabulary has no unknown token")
    lowercase = metadata.flag("tokenizer.ggml.normalizer.lowercase", True)
    strip_accents = metadata.flag("tokenizer.ggml.normalizer.strip_accents", lowercase)
    tokenizer = Tokenizer(
        models.WordPiece(
            vocab={token: number for number, token in enumerate(_spell(vocabulary))},
            unk_token=unknown,
            continuing_subword_prefix=_CONTINUES,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(_CONTINUES)
    tokenizer.post_processor = frame(
        vocabulary, "cls" if "cls" in vocabulary.roles else "bos", "sep"
    )
    return tokenizer


def _spell(vocabulary: Vocabulary) -> list[str]:
    """Return the tokens as BERT writes them: GGUF marks word starts, BERT marks continuations."""
    normal = dict(vocabulary.of_kind(TokenKind.NORMAL))
    return [
        token
        if number not in normal
        else token.removeprefix(SPACE)
        if token.startswith(SPACE)
        else _CONTINUES + token
        for number, token in enumerate(vocabulary.tokens)
    ]
