"""What a family's own template writes for calls is what its model is bound to."""

import pytest

from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.parsing.grammar.answer import answer_grammar
from tests.parsing.grammar.trial import allowed_start
from tests.parsing.proof.call_set import CallSet
from tests.parsing.proof.family import family, names

pytestmark = pytest.mark.registry

_TOOLS = (
    Tool("day_of", parameters={"type": "object", "properties": {"day": {"type": "integer"}}}),
    Tool("now"),
)
_OTHERWISE = {
    "CohereForAI-c4ai-command-r-plus-tool_use": "arguments are written on many lines",
    "Kimi-K3": "an empty answer stands before the calls",
    "openai-gpt-oss-120b": "its models write the header in the order of their prompts",
    "upstage-Solar-Open-100B": "the ids of calls are made up by the model",
}
"""Templates that write what their models do not, or need not."""


@pytest.mark.parametrize("name", names())
def test_template_writes_what_is_allowed(name: str) -> None:
    each = family(name)
    thought = each.form.thought
    request = ChatRequest("m", tools=_TOOLS, tool_choice=ToolChoice("required"))

    text = each.write(CallSet(_TOOLS, (("day_of", {"day": 3}),)))
    grammar = answer_grammar(request, each.form)

    text = (text.rpartition(thought.closing)[2] if thought else text).rstrip()
    ways = {text.lstrip(), text.lstrip("\r\n")}
    assert grammar is not None
    is_allowed = any(allowed_start(grammar, way) == way for way in ways)
    assert is_allowed is (name not in _OTHERWISE)
