import json
from pathlib import Path

import pytest

from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
from appliance.errors import InvalidRequest, SourceError

USER = Message("user", "tell nobody")
TOOL = Tool("look", parameters={"é": "<b>"})


def render(source: str, *messages: Message, **kwargs: object) -> str:
    return compiled(source).render(messages or (USER,), (), kwargs)


def compiled(source: str) -> ChatTemplate:
    return ChatTemplate({"default": source}, {"bos_token": "<s>"}, "test")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ bos_token }}{{ eos_token }}", "<s>", id="special tokens"),
        pytest.param(
            "{{ tools is none }}{{ documents is none }}", "TrueTrue", id="nothing is none"
        ),
        pytest.param("{{ add_generation_prompt }}", "True", id="generation prompt"),
        pytest.param("  {% if true %}\nx\n  {% endif %}\ny", "x\ny", id="blocks are trimmed"),
        pytest.param(
            "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
            "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "013",
            id="loop controls",
        ),
        pytest.param(
            "{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}",
            "21",
            id="generation block",
        ),
        pytest.param("{{ '<é>' | tojson }}", '"<é>"', id="tojson escapes nothing"),
        pytest.param(
            "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}', id="sort"
        ),
        pytest.param("{{ [1] | tojson(indent=1) }}", "[\n 1\n]", id="indent"),
        pytest.param("{{ 3 * 'ab' ~ 2 ** 3 }}", "ababab8", id="watched operators"),
        pytest.param(
            "{% set x = [1] %}{{ x.append(2) }}{{ x.pop(0) }}{{ x }}", "None1[2]", id="lists grow"
        ),
        pytest.param(
            "{{ messages | map(attribute='role') | tojson }}", '["user"]', id="tojson lists"
        ),
        pytest.param("{{ strftime_now('%Y') | length }}", "4", id="date"),
    ],
)
def test_template_sees_what_transformers_shows(source: str, expected: str) -> None:
    assert render(source) == expected


def test_template_kwargs_become_variables_and_override() -> None:
    source = "{{ enable_thinking }} {{ bos_token }} {{ add_generation_prompt }}"

    text = render(source, enable_thinking=False, bos_token="B", add_generation_prompt=0)

    assert text == "False B 0"


@pytest.mark.parametrize("name", ["messages", "tools"])
def test_template_kwargs_cannot_replace_the_conversation(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        render("x", **{name: []})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 3}', {"a": 3}),
        ("[1]", "[1]"),
        ("not json", "not json"),
        (" ", {}),
        ("null", {}),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_tool_arguments_are_a_mapping_if_they_are_an_object_or_none(
    arguments: str, expected: object
) -> None:
    call = Message("assistant", tool_calls=(ToolCall("c1", "look", arguments),))

    text = render("{{ messages | tojson }}", call)

    function = {"name": "look", "arguments": expected}
    assert json.loads(text) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
    ]


def test_message_shows_only_what_it_has() -> None:
    answer = Message("tool", "18C", name="look", tool_call_id="c1")

    template = compiled("{{ messages | tojson }}{{ tools | tojson }}")

    text = template.render((USER, answer), (TOOL,))

    assert text == (
        '[{"role": "user", "content": "tell nobody"}, '
        '{"role": "tool", "content": "18C", "name": "look", "tool_call_id": "c1"}]'
        '[{"type": "function", "function": {"name": "look", "parameters": {"é": "<b>"}}}]'
    )


def test_refusal_of_the_template_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"chat template refuses.*: roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("\n{{ {}[messages[0].content].x }}", id="undefined"),
        pytest.param("\n{{ messages[0].content + 1 }}", id="type"),
        pytest.param("\n{{ 1 / 0 }}", id="arithmetic"),
        pytest.param("\n{{ messages[0].__class__ }}{{ messages.clear() }}", id="sandbox"),
        pytest.param("\n{{ range(10 ** 9) | list }}", id="range"),
        pytest.param("\n{{ 'a' * 10 ** 12 }}", id="long text"),
        pytest.param("\n{{ 10 ** (10 ** 10) }}", id="large number"),
        pytest.param("{% macro f() %}\n{{ f() }}{% endmacro %}{{ f() }}", id="recursion"),
        pytest.param("\n{% include 'x' %}", id="loader"),
    ],
)
def test_failure_of_the_template_tells_its_line_and_no_prompt_text(source: str) -> None:
    with pytest.raises(InvalidRequest, match="chat template fails on these messages: ") as caught:
        render(source)

    assert "line 2" in str(caught.value)
    assert "nobody" not in str(caught.value)


def test_no_message_at_all_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="at least one message"):
        compiled("x").render(())


@pytest.mark.parametrize("source", ["{% if %}", "{{ x | no_such_filter }}", "{% for %}", "{{"])
def test_wrong_template_is_named_at_load(tmp_path: Path, source: str) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(source)

    with pytest.raises(SourceError, match=r"own\.jinja: the chat template is wrong in line 1"):
        ChatTemplate.load(tmp_path, {}, file)


def test_template_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"own\.jinja: does not exist"):
        ChatTemplate.load(tmp_path, {}, tmp_path / "own.jinja")


def test_folder_without_template_loads_and_refuses_to_render(tmp_path: Path) -> None:
    template = ChatTemplate.load(tmp_path, {})

    with pytest.raises(InvalidRequest, match="no chat template"):
        template.render((USER,))
