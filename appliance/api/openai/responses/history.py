"""Find the items that a request builds on: those of answers before it, and those it points at."""

import msgspec

from appliance.api.body import check_size
from appliance.api.openai.responses.codec import History, given_items
from appliance.api.openai.responses.item import item_kind
from appliance.api.openai.responses.listing import origin_of
from appliance.api.openai.responses.rows import StoredResponse
from appliance.api.openai.responses.store import ResponseStore
from appliance.api.openai.responses.wire import Item, ResponsesBody
from appliance.errors import InvalidRequest, ResponseNotFound

_ENDED = ("completed", "incomplete")


class _Answer(msgspec.Struct):
    """What of an answer later ones build on; the rest is not even decoded."""

    output: list[Item]


_items = msgspec.json.Decoder(list[Item])
_outputs = msgspec.json.Decoder(_Answer)
_answer = msgspec.json.Decoder(Item)


def answer_of(stored: StoredResponse) -> Item:
    """Return an answer as it was given."""
    return _answer.decode(stored.answer)


def items_of(stored: StoredResponse) -> list[Item]:
    """Return the input of an answer, without what came before it."""
    return _items.decode(stored.items)


class HistoryReader:
    """Reads one key's history, no longer than `most_bytes`. Event loop only."""

    def __init__(self, store: ResponseStore, key: str, most_bytes: int) -> None:
        self._store = store
        self._key = key
        self._most_bytes = most_bytes

    async def read(self, body: ResponsesBody) -> History:
        """Return the items that a body builds on.

        Instructions of earlier answers are not among them. Raises ResponseNotFound for what is
        not kept, InvalidRequest for an answer that has not ended well.
        """
        earlier: list[Item] = []
        if body.previous_response_id is not None:
            chain = await self._chain(body.previous_response_id)
            if chain[-1].status not in _ENDED:
                reason = f"This answer cannot be continued: it is {chain[-1].status}."
                raise InvalidRequest(reason, param="previous_response_id")
            earlier = _items_of_all(chain)
        return History(earlier, await self._resolved(given_items(body), earlier))

    async def listed(self, response_id: str) -> list[Item]:
        """Return all input that an answer was given, in order; raises ResponseNotFound."""
        *before, last = await self._chain(response_id)
        return _items_of_all(before) + items_of(last)

    async def _chain(self, response_id: str) -> list[StoredResponse]:
        chain = await self._store.chain(self._key, response_id, self._most_bytes)
        check_size(*(stored.items for stored in chain), what="The conversation")
        return chain

    async def _resolved(self, given: list[Item], earlier: list[Item]) -> list[Item]:
        """Put what references mean in their place; what is there already is not put twice."""
        if all(item_kind(item) != "item_reference" for item in given):
            return given
        known: dict[str, Item] = {}
        present = {item["id"] for item in earlier}
        resolved: list[Item] = []
        for index, item in enumerate(given):
            if item_kind(item) != "item_reference":
                resolved.append(item)
                continue
            wanted = item.get("id")
            if not isinstance(wanted, str):
                place = f"input[{index}].id"
                raise InvalidRequest(f"{place} is missing.", param=place)
            if wanted not in present:
                resolved.append(await self._find(wanted, known))
                present.add(wanted)
        return resolved

    async def _find(self, wanted: str, known: dict[str, Item]) -> Item:
        origin = origin_of(wanted)
        if wanted not in known and origin is not None:
            stored = await self._store.get(self._key, origin)
            known |= {each["id"]: each for each in items_of(stored) + _output(stored)}
        if wanted not in known:
            raise ResponseNotFound(wanted)
        return known[wanted]


def _items_of_all(chain: list[StoredResponse]) -> list[Item]:
    return [item for stored in chain for item in items_of(stored) + _output(stored)]


def _output(stored: StoredResponse) -> list[Item]:
    return _outputs.decode(stored.answer).output
