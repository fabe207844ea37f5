"""Give a model folder the tokenizer.json that everything here reads, if it can have one."""

from pathlib import Path

from tokenizers import Tokenizer

from appliance.disk import publish
from appliance.errors import SourceError

_FAST = "tokenizer.json"
_SENTENCE_PIECE = ("tokenizer.model",)
_BYTE_PAIR = ("vocab.json", "merges.txt")


def ensure_tokenizer(folder: Path) -> None:
    """Leave a folder with tokenizer.json alone; make one from the files of older tokenizers.

    These are tokenizer.model, or vocab.json with merges.txt. Runs no code of the folder's. Raises
    SourceError with the reason where neither is there, or it cannot be converted.
    """
    if (folder / _FAST).exists():
        return
    for names in (_SENTENCE_PIECE, _BYTE_PAIR):
        if all((folder / name).exists() for name in names):
            tokenizer = _load(folder, " and ".join(names))
            break
    else:
        reason = f"has no {_FAST}, and no {_SENTENCE_PIECE[0]} or {' with '.join(_BYTE_PAIR)}"
        raise SourceError(folder.name, f"{reason} to make one from")
    partial = folder / (_FAST + ".partial")
    tokenizer.save(str(partial))
    publish(partial, folder / _FAST)


def _load(folder: Path, origin: str) -> Tokenizer:
    # Imported here: it takes a second, and most folders do not need it.
    from transformers import AutoTokenizer  # noqa: PLC0415

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the libraries raise nothing narrower
        raise SourceError(folder.name, f"its {origin} cannot be used: {error}") from error
    # Classes that are written in Python have none.
    backend: Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        kind = type(tokenizer).__name__
        raise SourceError(folder.name, f"its {origin} cannot be used: {kind} makes no {_FAST}")
    return backend
