"""Say who sent a request, what share of a model they have, and how the request is known."""

from dataclasses import dataclass, replace

import msgspec

from appliance.chat.request import ChatRequest, Thinking

_NO_WISH = Thinking(is_firm=False)


@dataclass(frozen=True, slots=True)
class Sender:
    """The key that sent a request, its share when keys compete, and how urgent it may be.

    `thinking` are its wishes about thoughts, for requests that do not say.
    """

    key_name: str = ""
    weight: float = 1.0
    priority: int = 0
    thinking: Thinking = _NO_WISH

    def lowered_priority(self, asked: int | None) -> int:
        """Return the priority of a request: what it asked for, if that is lower."""
        return self.priority if asked is None else min(self.priority, asked)

    def completed(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the key's wishes about thoughts where it has none of its own."""
        own, usual = request.thinking, self.thinking
        wish = usual if own.is_enabled is None and own.effort is None else own
        bound = usual if own.budget is None else own
        thinking = msgspec.structs.replace(
            wish, budget=bound.budget, budget_param=bound.budget_param
        )
        return msgspec.structs.replace(request, thinking=thinking)


@dataclass(frozen=True, slots=True)
class RequestIds:
    """How a request is known: by our own id, its client's, who sent it, and in which dialect.

    `whole` is the id of the request that this is one choice of; None = it is all of it.
    """

    own: str
    client: str | None
    sender: Sender
    api: str = "chat"
    whole: str | None = None

    def of_choice(self, number: int) -> "RequestIds":
        """Return the ids of one of the request's generations; the first has the request's own."""
        own = self.own if number == 0 else f"{self.own}.{number}"
        return replace(self, own=own, whole=self.own)

    @property
    def request(self) -> str:
        """The id that all choices of the request share."""
        return self.whole or self.own
