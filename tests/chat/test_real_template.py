"""Compare our rendering with transformers' own, over the templates of 70 real models."""

import pytest
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from appliance.chat.template import ChatTemplate
from appliance.errors import InvalidRequest
from tests.chat.conversation import CONVERSATIONS, Conversation, as_dict, tool_dicts
from tests.packages import sdist_models_folder

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
REFUSED = "refused"
MORE_THAN_THEIRS = ("Kimi-K2-Instruct", "Kimi-K2-Thinking", "llama-cpp-deepseek-r1")
SYSTEM = next(case for case in CONVERSATIONS if case.name == "system")
TRIP = next(case for case in CONVERSATIONS if case.name == "round trip")

pytestmark = [pytest.mark.registry, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    folder = sdist_models_folder() / "templates"
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}


@pytest.fixture(scope="module")
def templates(sources: dict[str, str]) -> dict[str, ChatTemplate]:
    return {
        name: ChatTemplate({"default": source}, SPECIAL_TOKENS, name)
        for name, source in sources.items()
    }


def theirs(source: str, conversation: Conversation) -> str:
    chat = [as_dict(message) for message in conversation.messages]
    try:
        texts, _ = render_jinja_template(
            [chat],
            tools=tool_dicts(conversation),
            chat_template=source,
            add_generation_prompt=True,
            **SPECIAL_TOKENS,
        )
    except (TemplateError, TypeError):
        return REFUSED
    return str(texts[0])


def ours(template: ChatTemplate, conversation: Conversation) -> str:
    try:
        return template.render(conversation.messages, conversation.tools)
    except InvalidRequest:
        return REFUSED


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda case: case.name)
def test_template_renders_as_in_transformers(
    sources: dict[str, str], templates: dict[str, ChatTemplate], conversation: Conversation
) -> None:
    different = []
    for name, source in sources.items():
        # Twice, since some templates tell the time.
        before = theirs(source, conversation)
        text = ours(templates[name], conversation)
        if text not in (before, theirs(source, conversation)):
            different.append(name)

    # These append to lists, or write what a filter yields as JSON; transformers refuses both.
    assert [name for name in different if name not in MORE_THAN_THEIRS] == []


def test_most_templates_render(templates: dict[str, ChatTemplate]) -> None:
    assert len(templates) == 70

    rendered = {
        case.name: sum(ours(template, case) != REFUSED for template in templates.values())
        for case in CONVERSATIONS
    }

    assert min(rendered["plain"], rendered["system"], rendered["tools"]) >= 65
    assert rendered["round trip"] >= 63


def test_templates_see_the_call_of_a_tool(templates: dict[str, ChatTemplate]) -> None:
    texts = [ours(template, TRIP) for template in templates.values()]

    assert sum(text.count("Zürich") >= 2 for text in texts) >= 55
    assert not any("None" in text for text in texts)


def test_gemma_2_tells_that_it_has_no_system_role(templates: dict[str, ChatTemplate]) -> None:
    with pytest.raises(InvalidRequest, match="System role not supported"):
        templates["google-gemma-2-2b-it"].render(SYSTEM.messages)
