"""Show items as their types are: with ids, and the fields that OpenAI's clients count on. Pure."""

import re
from typing import Any

from appliance.api.openai.responses.item import item_kind
from appliance.api.openai.responses.wire import Item
from appliance.api.tool import arguments_text
from appliance.errors import InvalidRequest

_MOST_LISTED = 100
_ORIGIN = re.compile(r"[a-z]+_([0-9a-f]{32})_\w+")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_DEFAULTS: dict[str, Item] = {
    "message": {"status": "completed"},
    "function_call": {"status": "completed"},
    "function_call_output": {"status": "completed"},
    "reasoning": {"summary": []},
}
_PART_DEFAULTS: dict[str, Item] = {
    "output_text": {"annotations": []},
    "input_image": {"detail": "auto"},
}


def response_id(request_id: str) -> str:
    """Return the id that clients see of an answer."""
    return f"resp_{request_id}"


def item_id(kind: str, request_id: str, number: int | str) -> str:
    """Return the id of a new item of an answer; `origin_of` finds the answer by it."""
    return f"{_PREFIXES.get(kind, 'item')}_{request_id}_{number}"


def origin_of(item: str) -> str | None:
    """Return the id of the answer that an item is of, as its own id says."""
    match = _ORIGIN.fullmatch(item)
    return None if match is None else response_id(match[1])


def listed_items(items: list[Item], request_id: str) -> list[Item]:
    """Return the input of an answer as it is kept and listed; ids that came stay."""
    return [
        _listed(item, item_id(_kind(item), request_id, f"i{n}")) for n, item in enumerate(items)
    ]


def page(items: list[Item], query: dict[str, str]) -> dict[str, Any]:
    """Return a part of a list as `limit`, `order` and `after` say; raises InvalidRequest."""
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    is_number = limit.isdecimal() and limit.isascii() and len(limit) < 10
    if not (is_number and 1 <= int(limit) <= _MOST_LISTED):
        reason = f"limit should be a number from 1 to {_MOST_LISTED}."
        raise InvalidRequest(reason, param="limit")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order should be 'asc' or 'desc'.", param="order")
    ordered = items if order == "asc" else items[::-1]
    if (after := query.get("after")) is not None:
        ids = [each["id"] for each in ordered]
        if after not in ids:
            raise InvalidRequest(f"after: no item '{after[:128]}' is here.", param="after")
        ordered = ordered[ids.index(after) + 1 :]
    shown = ordered[: int(limit)]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else "",
        "last_id": shown[-1]["id"] if shown else "",
        "has_more": len(shown) < len(ordered),
    }


def _kind(item: Item) -> str:
    return item_kind(item) or ""


def _listed(item: Item, new_id: str) -> Item:
    kind = _kind(item)
    own = item.get("id")
    kept = {key: value for key, value in item.items() if value is not None}
    shown = {**_DEFAULTS.get(kind, {}), **kept, "type": kind}
    if kind == "message":
        shown["content"] = _parts(item.get("content"), item["role"])
    elif kind == "function_call":
        shown["arguments"] = arguments_text(item["arguments"])
    elif kind == "function_call_output" and isinstance(item["output"], list):
        shown["output"] = _parts(item["output"], "user")
    return {"id": own if isinstance(own, str) and own else new_id} | {
        key: value for key, value in shown.items() if key != "id"
    }


def _parts(content: str | list[Item] | None, role: str) -> list[Item]:
    text = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        content = [{"type": text, "text": content}]
    parts = content or []
    return [_part({**part, "type": text} if part["type"] == "text" else part) for part in parts]


def _part(part: Item) -> Item:
    return {**_PART_DEFAULTS.get(part["type"], {}), **part}
