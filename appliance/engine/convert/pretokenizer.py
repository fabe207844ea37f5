"""Say how each named pre-tokenizer of GGUF files cuts text into words: a table, nothing else.

The patterns are those of the models' own tokenizer.json files; the names are the ones that
`tokenizer.ggml.pre` uses. Each pattern cuts the pieces that the one before it left, and what no
pattern matches stays a piece of its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PreTokenizer:
    """One row of the table.

    `byte_level`: the vocabulary is written in GPT-2's byte alphabet; otherwise in plain text with
    U+2581 for a space and `<0x..>` for a byte. `ignore_merges`: a word that is a token as a whole
    is taken before merging. `nfc`: text is composed first. `bos`: begin with the bos token where
    the file does not say.
    """

    patterns: tuple[str, ...]
    byte_level: bool = True
    ignore_merges: bool = False
    nfc: bool = False
    bos: bool = False


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_THREE_DIGITS = "[0-9][0-9][0-9]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LINE_BREAK = "[\r\n]"
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Cased letters as an older Unicode knew them: a property class would cut newer letters differently.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
)
_DEEPSEEK_PUNCTUATION = "[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"


def _words(letters: str, digits: str, others: str) -> str:
    """The common shape since GPT-4: contractions, words with one lead character, numbers, rest."""
    return rf"{_CONTRACTION}|{_LEAD}{letters}+|{digits}| ?{others}+[\r\n]*|{_SPACES}"


def _cased_words(suffix: str, digits: str) -> str:
    """GPT-4o's shape: a word ends where lower case turns to upper case."""
    word = rf"{_LEAD}{_UPPER}*{_LOWER}+{suffix}|{_LEAD}{_UPPER}+{_LOWER}*{suffix}"
    return rf"{word}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


_LLAMA3 = PreTokenizer(
    (_words(r"\p{L}", r"\p{N}{1,3}", r"[^\s\p{L}\p{N}]"),), ignore_merges=True, bos=True
)
_GPT4O = PreTokenizer((_cased_words(_CONTRACTION + "?", r"\p{N}{1,3}"),))
_DIGITS_FIRST = PreTokenizer((_DIGIT, _GPT2))

PRE_TOKENIZERS = {
    "default": PreTokenizer(
        (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", _THREE_DIGITS),
    ),
    "gpt-2": PreTokenizer((_GPT2,)),
    "mpt": PreTokenizer((_GPT2,), nfc=True),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, _THREE_DIGITS)),
    "smollm": _DIGITS_FIRST,
    "starcoder": _DIGITS_FIRST,
    "refact": _DIGITS_FIRST,
    "command-r": PreTokenizer((_DIGIT, _GPT2), nfc=True),
    "deepseek-llm": PreTokenizer(
        (
            _LINE_BREAK,
            rf"\s?[{_DEEPSEEK_LETTERS}]+",
            rf"\s?{_DEEPSEEK_PUNCTUATION}",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": PreTokenizer((_LINE_BREAK, r"\s?\p{L}+", r"\s?\p{P}+", _CJK, _DIGIT)),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "falcon3": _LLAMA3,
    "qwen2": PreTokenizer((_words(r"\p{L}", _DIGIT, r"[^\s\p{L}\p{N}]"),), nfc=True),
    # Without composition, although qwen2 has it: the expected ids keep decomposed letters apart.
    "qwen35": PreTokenizer((_words(r"[\p{L}\p{M}]", _DIGIT, r"[^\s\p{L}\p{M}\p{N}]"),)),
    "gpt-4o": _GPT4O,
    "llama4": _GPT4O,
    "tekken": PreTokenizer((_cased_words("", _DIGIT),), ignore_merges=True, bos=True),
    "gemma4": PreTokenizer((r"[^\n]+|\n+",), byte_level=False, bos=True),
}
"""Every name that can be converted; a missing name means `default`."""
