"""Build a tokenizer for SentencePiece vocabularies, which carry a score for each token."""

from tokenizers import Tokenizer, decoders, models, normalizers

from appliance.engine.convert.metadata import Metadata
from appliance.engine.convert.vocabulary import SPACE, TokenKind, Vocabulary, frame


def build_sentence_piece(metadata: Metadata, vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer; characters without a token become byte tokens where there are any."""
    scores = metadata.numbers("tokenizer.ggml.scores", len(vocabulary.tokens))
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(vocabulary.tokens)},
            merges=_merges(vocabulary, scores),
            unk_token=vocabulary.role("unk"),
            fuse_unk=True,
            byte_fallback=any(vocabulary.of_kind(TokenKind.BYTE)),
        )
    )
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE)]
    back: list[decoders.Decoder] = [
        decoders.Replace(SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    if metadata.flag("tokenizer.ggml.add_space_prefix", True):
        steps.insert(0, normalizers.Prepend(SPACE))
        back.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(back)
    tokenizer.post_processor = frame(
        vocabulary,
        "bos" if metadata.flag("tokenizer.ggml.add_bos_token", True) else None,
        "eos" if metadata.flag("tokenizer.ggml.add_eos_token", False) else None,
    )
    return tokenizer


def _merges(vocabulary: Vocabulary, scores: list[float]) -> list[tuple[str, str]]:
    """Return every way to join two tokens into a third, the best-scored result first.

    SentencePiece always joins the pair whose result has the best score, so that this order as a
    merge list makes the same choices.
    """
    ids = {token: number for number, token in vocabulary.of_kind(TokenKind.NORMAL)}
    ranked = []
    for token, number in ids.items():
        for cut in range(1, len(token)):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                ranked.append((-scores[number], number, left, right))
    ranked.sort()
    return [(vocabulary.tokens[left], vocabulary.tokens[right]) for _, _, left, right in ranked]
