"""What is found out about templates that are made for it; `test_gallery` has the real ones."""

import pytest

from appliance.chat.probe import find_traits
from appliance.chat.template import ChatTemplate
from appliance.chat.traits import Spelling, Traits
from tests.chat.tiny import CHATML

TURNS = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
CALLS = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or () %}"
    "CALL{% endfor %}\n{% endfor %}"
)
TOOLS = "{{ tools | tojson if tools else '' }}"


def traits(source: str) -> Traits:
    return find_traits(ChatTemplate({"default": source}, {}, "test"))


def calling(call: str) -> str:
    return TOOLS + CALLS.replace("CALL", call)


def refusing(condition: str) -> str:
    return "{% if " + condition + " %}{{ raise_exception('no') }}{% endif %}" + TURNS


STRICT = refusing("messages[1:] | selectattr('role', 'equalto', 'system') | list")
THINKING = TURNS + "{% for m in messages %}{{ m.thinking }}{% endfor %}"


def test_model_without_template_has_the_defaults() -> None:
    assert find_traits(ChatTemplate({}, {}, "test")) == Traits()


def test_simple_template_takes_every_role_and_no_tools() -> None:
    found = traits(CHATML)

    assert found.template == CHATML
    assert (found.system, found.late_system, found.repeats) == ("several", True, True)
    assert (found.answer_first, found.results, found.calls) == (True, True, False)
    assert not (found.shows_tools or found.thinks)


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        (refusing("messages[0].role == 'system'"), "system", "none"),
        (STRICT, "system", "one"),
        (STRICT, "late_system", False),
        (TURNS.replace("{{ m.role }}", "{% if m.role == 'system' and not loop.first %}"
                       "{% continue %}{% endif %}"), "late_system", False),
        (refusing("messages[0].role == messages[-1].role and messages[1:]"), "repeats", False),
        (refusing("messages[0].role == 'assistant'"), "answer_first", False),
        (refusing("not messages | selectattr('role', 'equalto', 'user') | list"),
         "needs_question", True),
        (refusing("messages[-1].role == 'tool'"), "results", False),
        (calling("{{ c.function.arguments | tojson }}"), "calls", True),
        (calling("{{ c.function.arguments | tojson }}{% break %}"), "parallel_calls", False),
        (calling("{{ c.function.arguments | tojson }}"), "shows_tools", True),
        ("{{ tools[9].x.y if tools }}" + TURNS, "shows_tools", False),
    ],
)  # fmt: skip
def test_what_the_template_allows_is_found(source: str, name: str, value: object) -> None:
    assert getattr(traits(source), name) == value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (calling("{{ c.function.arguments | tojson }}"), Spelling()),
        (calling("{% for k, v in c.function.arguments.items() %}{{ v }}{% endfor %}"),
         Spelling(arguments="mapping")),
        (calling("{{ '' + c.function.arguments }}"), Spelling(arguments="text")),
        (calling("{{ c.function.arguments }}"), Spelling(arguments="text")),
        (calling("{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}"
                 "{{ c.function.arguments | tojson }}"), Spelling(ids="short")),
        (calling("<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
                 "{{ c.function.arguments | tojson }}"), Spelling(ids="numbered")),
        ("{% for t in tools or () %}{{ t.name + t.description }}{% endfor %}" + TURNS,
         Spelling(tools="flat", fills_tools=True)),
        ("{{ tools | length }}{{ tools | tojson }}" + TURNS, Spelling(lists_no_tools=True)),
        ("{{ functions + datetime }}" + TURNS, Spelling(has_functions=True)),
        (THINKING, Spelling(thought="thinking")),
    ],
)  # fmt: skip
def test_how_the_template_wants_things_written_is_found(source: str, expected: Spelling) -> None:
    assert traits(source).spelling == expected


@pytest.mark.parametrize(
    ("end", "switch", "effort", "efforts"),
    [
        ("{{ '<think>' if enable_thinking }}", "enable_thinking", None, ()),
        ("{{ '<think>' if thinking }}", "thinking", None, ()),
        ("{{ thinking_mode == 'disabled' }}", "thinking_mode", None, ()),
        ("Effort {{ reasoning_effort }}", None, "reasoning_effort", ("low", "medium", "high")),
        ("{{ 'More!' if reasoning_effort == 'max' }}", None, "reasoning_effort",
         ("low", "medium", "high", "max")),
        ("{% if thinking_effort not in ('low', 'xhigh') and thinking_effort is defined %}"
         "{{ raise_exception('no') }}{% endif %}{{ thinking_effort }}", None, "thinking_effort",
         ("low", "xhigh")),
        ("{{ '' if true else '</think>' }}", None, None, ()),
        ("{% if reasoning_effort in ('low', 'medium', 'high') %}{{ raise_exception('no') }}"
         "{% endif %}{{ reasoning_effort }}</think>", None, None, ()),
    ],
)  # fmt: skip
def test_how_thoughts_are_steered_is_found(
    end: str, switch: str | None, effort: str | None, efforts: tuple[str, ...]
) -> None:
    found = traits(TURNS + end)

    assert found.thinks
    assert (found.thinking_variable, found.effort_variable) == (switch, effort)
    assert found.efforts == efforts


def test_template_that_refuses_everything_is_tried_without_an_error() -> None:
    found = traits("{{ raise_exception('never') }}")

    assert not found.shows_tools
    assert found.system == "none"


def test_template_for_tools_is_a_part_of_the_source() -> None:
    template = ChatTemplate({"default": CHATML, "tool_use": TOOLS, "rag": "x"}, {}, "test")

    found = find_traits(template)

    assert found.template == f"{CHATML}\n{TOOLS}"
    assert found.shows_tools
