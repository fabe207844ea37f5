"""Build a tokenizer that merges pairs in the order of the file's own merge list."""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from appliance.engine.convert.metadata import Metadata
from appliance.engine.convert.pretokenizer import PRE_TOKENIZERS, PreTokenizer
from appliance.engine.convert.vocabulary import SPACE, TokenKind, Vocabulary, frame
from appliance.errors import SourceError


def build_byte_pair(metadata: Metadata, vocabulary: Vocabulary, default: str) -> Tokenizer:
    """Return the tokenizer for the file's pre-tokenizer, `default` where it names none.

    Raises SourceError for a pre-tokenizer that is not in the table, or merges that do not fit.
    """
    name = metadata.text("tokenizer.ggml.pre", None) or default
    if name not in PRE_TOKENIZERS:
        reason = f"its pre-tokenizer '{name}' is not known; known are {', '.join(PRE_TOKENIZERS)}"
        raise SourceError(metadata.source, reason)
    row = PRE_TOKENIZERS[name]
    tokenizer = Tokenizer(_model(metadata, vocabulary, row))
    _set_text_steps(tokenizer, row)
    tokenizer.post_processor = frame(
        vocabulary,
        "bos" if metadata.flag("tokenizer.ggml.add_bos_token", row.bos) else None,
        "eos" if metadata.flag("tokenizer.ggml.add_eos_token", False) else None,
    )
    return tokenizer


def _model(metadata: Metadata, vocabulary: Vocabulary, row: PreTokenizer) -> models.BPE:
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    has_bytes = not row.byte_level and any(vocabulary.of_kind(TokenKind.BYTE))
    return models.BPE(
        vocab=ids,
        merges=_merges(metadata, ids),
        ignore_merges=row.ignore_merges,
        unk_token=None if row.byte_level else vocabulary.role("unk"),
        fuse_unk=not row.byte_level,
        byte_fallback=has_bytes,
    )


def _merges(metadata: Metadata, ids: dict[str, int]) -> list[tuple[str, str]]:
    merges = []
    for line in metadata.texts("tokenizer.ggml.merges"):
        # A part may itself begin with a space.
        cut = line.find(" ", 1)
        left, right = line[:cut], line[cut + 1 :]
        if cut < 0 or not {left, right, left + right} <= ids.keys():
            raise SourceError(metadata.source, f"its merge '{line}' names no token")
        merges.append((left, right))
    return merges


def _set_text_steps(tokenizer: Tokenizer, row: PreTokenizer) -> None:
    steps: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in row.patterns
    ]
    if row.byte_level:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        tokenizer.decoder = decoders.ByteLevel()
        if row.nfc:
            tokenizer.normalizer = normalizers.NFC()
    else:
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
