"""Write token log-probabilities as Completions has them: lists of equal length."""

import codecs
from typing import Any

from appliance.api.openai.choice import finite_logprob
from appliance.chat.event import TokenLogprob


class LogprobWriter:
    """Where the next token of one choice's text begins. Owned by the choice's codec."""

    def __init__(self) -> None:
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def body(self, tokens: tuple[TokenLogprob, ...]) -> dict[str, Any]:
        """Return the answer's next tokens; `text_offset` counts characters of its whole text."""
        return {
            "tokens": [_token_text(each) for each in tokens],
            "token_logprobs": [finite_logprob(each) for each in tokens],
            "top_logprobs": [_tops(each) for each in tokens],
            "text_offset": [self._next_offset(each.token) for each in tokens],
        }

    def _next_offset(self, token: bytes) -> int:
        offset = self._offset
        self._offset += len(self._decoder.decode(token))
        return offset


def _tops(token: TokenLogprob) -> dict[str, float]:
    """Return the likeliest tokens in a token's place, and always the token itself."""
    tops = {_token_text(each): finite_logprob(each) for each in token.top}
    return tops | {_token_text(token): finite_logprob(token)}


def _token_text(token: TokenLogprob) -> str:
    r"""Return a token as OpenAI writes it: what is no whole character as `bytes:\xe2…`."""
    try:
        return token.token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.token)
