"""Items are listed with ids, page by page, in either order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.api.openai.responses.listing import item_id, listed_items, origin_of, page
from appliance.errors import InvalidRequest
from tests.api.responses import REQUEST_ID

ITEMS: list[dict[str, Any]] = [{"id": f"i{number}"} for number in range(5)]


def test_id_tells_which_answer_an_item_is_of() -> None:
    (listed,) = listed_items([{"role": "user", "content": "a"}], REQUEST_ID)

    assert origin_of(listed["id"]) == f"resp_{REQUEST_ID}"
    assert origin_of(item_id("reasoning", REQUEST_ID, 3)) == f"resp_{REQUEST_ID}"
    assert origin_of("msg_of_another_server") is None


def test_item_keeps_the_id_it_came_with() -> None:
    item = {"type": "odd", "id": "mine", "field": None, "other": 1}

    assert listed_items([item], REQUEST_ID) == [{"id": "mine", "type": "odd", "other": 1}]


@given(st.integers(1, 7), st.sampled_from(["asc", "desc"]))
def test_pages_are_the_whole_list(limit: int, order: str) -> None:
    query = {"limit": str(limit), "order": order}
    listed: list[dict[str, Any]] = []

    while True:
        got = page(ITEMS, query)
        listed += got["data"]
        if not got["has_more"]:
            break
        query["after"] = got["last_id"]

    assert listed == (ITEMS if order == "asc" else ITEMS[::-1])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "1".zfill(9) + "0" * 5000}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "nothing"}, "after"),
    ],
)
def test_wrong_page_is_named(query: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        page(ITEMS, query)

    assert refusal.value.param == param
