"""What every real template does with what clients send: see `golden/templates.txt`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from appliance.chat.probe import find_traits
from appliance.chat.request import Message
from appliance.errors import InvalidRequest
from tests.chat.gallery import CONVERSATIONS, GOLDEN, Template, print_gallery, read_gallery
from tests.chat.test_normalise import any_message

pytestmark = [pytest.mark.registry, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def gallery() -> dict[str, Template]:
    return {each.name: each for each in read_gallery()}


def test_templates_do_what_the_golden_file_says(gallery: dict[str, Template]) -> None:
    # Which differ: `python -m tests.chat.gallery` writes the file anew.
    assert print_gallery(gallery.values()) == GOLDEN.read_text()


def test_every_template_shows_what_clients_send_most(gallery: dict[str, Template]) -> None:
    assert len(gallery) == 70

    for name in ("plain", "two systems", "late system", "developers", "call and answer"):
        for each in gallery.values():
            assert each.render(CONVERSATIONS[name])


def test_trying_a_template_costs_milliseconds(gallery: dict[str, Template]) -> None:
    started = time.process_time()

    for each in gallery.values():
        find_traits(each.template)

    assert time.process_time() - started < 0.030 * len(gallery)


def test_thought_before_a_call_is_shown_before_it_and_only_while_it_matters(
    gallery: dict[str, Template],
) -> None:
    ask, do, got, say, again = CONVERSATIONS["call and answer"]
    qwen = gallery["Qwen-Qwen3-0.6B"]
    messages: tuple[Message, ...] = (ask, replace(do, thought="musing"), got)

    running = qwen.render(messages)
    later = qwen.render((*messages, say, again))

    assert running.index("musing") < running.index("Bern")
    assert "musing" not in later
    assert "Bern" in later


def test_thoughts_of_earlier_turns_are_kept_if_the_caller_asks_the_template_for_it(
    gallery: dict[str, Template],
) -> None:
    ask, do, got, say, again = CONVERSATIONS["call and answer"]
    messages: tuple[Message, ...] = (ask, replace(do, thought="musing"), got, say, again)
    template = gallery["LFM2.5-8B-A1B"]

    assert "musing" not in template.render(messages)
    assert "musing" in template.render(messages, preserve_thinking=True)


@given(messages=st.lists(any_message(), max_size=8).map(tuple), data=st.data())
def test_any_conversation_is_rendered_or_refused(
    gallery: dict[str, Template], messages: tuple[Message, ...], data: st.DataObject
) -> None:
    each = gallery[data.draw(st.sampled_from(sorted(gallery)))]

    try:
        text = each.render(messages)
    except InvalidRequest as error:
        assert error.param == "messages"
    else:
        assert text


def test_template_without_system_role_tells_the_rules_in_the_question(
    gallery: dict[str, Template],
) -> None:
    text = gallery["google-gemma-2-2b-it"].render(CONVERSATIONS["late system"])

    assert "<start_of_turn>user\nfirst rules\n\nlater rules\n\nfirst question<end_of_turn>" in text


def test_strict_template_has_all_rules_at_the_start(gallery: dict[str, Template]) -> None:
    text = gallery["Qwen3.5-4B"].render(CONVERSATIONS["developers"])

    assert text.startswith("<|im_start|>system\nfirst rules\n\nlater rules<|im_end|>")
