"""Give a model folder the tokenizer.json that everything here reads, if it can have one."""

from pathlib import Path

from appliance.errors import SourceError

_FAST = "tokenizer.json"
_SENTENCE_PIECE = "tokenizer.model"


def ensure_tokenizer(folder: Path) -> None:
    """Leave a folder with tokenizer.json alone; make one from a SentencePiece tokenizer.model.

    Raises SourceError with the reason where neither is there, or it cannot be converted.
    """
    if (folder / _FAST).exists():
        return
    if not (folder / _SENTENCE_PIECE).exists():
        reason = f"has no {_FAST} and no {_SENTENCE_PIECE} to make one from"
        raise SourceError(folder.name, reason)
    # Imported here: it takes a second, and most folders do not need it.
    from transformers import AutoTokenizer  # noqa: PLC0415

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (ImportError, OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
        raise SourceError(folder.name, f"its {_SENTENCE_PIECE} cannot be used: {error}") from error
    partial = folder / (_FAST + ".partial")
    tokenizer.backend_tokenizer.save(str(partial))
    partial.replace(folder / _FAST)
