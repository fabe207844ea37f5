"""How a completion body is read: the forms of a prompt, and what only this dialect has."""

import msgspec
import pytest

from appliance.api.openai.completion.codec import DEFAULT_TOKENS, to_chat_requests
from appliance.api.openai.completion.wire import CompletionBody
from appliance.api.openai.refusal import refused_fields
from appliance.chat.request import ChatRequest
from appliance.errors import InvalidRequest

REFUSED = refused_fields(CompletionBody)
OPTIONAL = [
    field.name
    for field in msgspec.structs.fields(CompletionBody)
    if field.name not in ("model", "prompt")
]


def requests_of(**fields: object) -> tuple[ChatRequest, ...]:
    body = {"model": "m", "prompt": "hi", **fields}
    return to_chat_requests(msgspec.json.decode(msgspec.json.encode(body), type=CompletionBody))


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        pytest.param("hi", ["hi"], id="a text"),
        pytest.param("", [""], id="no text"),
        pytest.param(["hi", "ho"], ["hi", "ho"], id="texts"),
        pytest.param([5, 6], [(5, 6)], id="token ids"),
        pytest.param([[5, 6], [7]], [(5, 6), (7,)], id="lists of token ids"),
    ],
)
def test_prompt_has_four_forms(prompt: object, prompts: list[object]) -> None:
    assert [each.prompt for each in requests_of(prompt=prompt)] == prompts


@pytest.mark.parametrize("prompt", [["hi", 5], [5, [6]], ["hi", [5]]])
def test_mixed_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        requests_of(prompt=prompt)

    assert refusal.value.param == "prompt"


@pytest.mark.parametrize("prompt", [[], [[]], [True], [-1], [1.5], [None], 5, None, {}])
def test_prompt_of_another_form_does_not_decode(prompt: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        requests_of(prompt=prompt)


def test_more_choices_than_fit_are_refused() -> None:
    assert len(requests_of(prompt=["x"] * 64, n=2)) == 64
    with pytest.raises(InvalidRequest) as refusal:
        requests_of(prompt=["x"] * 65, n=2)

    assert refusal.value.param == "prompt"


def test_answer_is_short_unless_asked_for_more() -> None:
    (short,) = requests_of()
    (asked,) = requests_of(max_tokens=100)

    assert (short.max_tokens, short.clamps_max_tokens) == (DEFAULT_TOKENS, True)
    assert (asked.max_tokens, asked.clamps_max_tokens) == (100, False)


def test_fields_of_this_dialect_are_read() -> None:
    (request,) = requests_of(suffix=" end", logprobs=3, stop="x", seed=7, best_of=2, n=2)

    assert (request.suffix, request.logprobs, request.stop) == (" end", 3, ("x",))
    assert request.sampling.seed == 7
    assert request.unserved == ()
    assert requests_of(suffix="", logprobs=0)[0].suffix is None
    assert requests_of(logprobs=0)[0].logprobs == 0


@pytest.mark.parametrize("fields", [{"best_of": 2}, {"best_of": 1, "n": 2}])
def test_best_of_more_than_is_answered_is_named(fields: dict[str, object]) -> None:
    assert requests_of(**fields)[0].unserved == ("best_of",)


def test_echo_with_logprobs_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        requests_of(echo=True, logprobs=0)

    assert refusal.value.param == "logprobs"


@pytest.mark.parametrize("name", REFUSED)
def test_field_not_served_yet_is_named_unless_neutral(name: str) -> None:
    assert requests_of(**{name: {"odd": [1]}})[0].unserved == (name,)
    for neutral in (None, *REFUSED[name]):
        assert requests_of(**{name: neutral}) == requests_of()


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_as_if_left_out(name: str) -> None:
    assert requests_of(**{name: None}) == requests_of()
