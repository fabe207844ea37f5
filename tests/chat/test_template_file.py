import json
from pathlib import Path

import pytest

from appliance.chat.request import Message, Tool
from appliance.chat.template import ChatTemplate
from appliance.errors import SourceError

USER = Message("user", "hello")
NAMED = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]


def write(folder: Path, **files: object) -> None:
    for name, value in files.items():
        path = folder / name.replace("__", "/").replace("_json", ".json").replace(
            "_jinja", ".jinja"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))


def texts(folder: Path) -> tuple[str, str]:
    """Return what the folder's templates make of a conversation without and with tools."""
    template = ChatTemplate.load(folder, {})
    return template.render((USER,)), template.render((USER,), (Tool("look"),))


def test_config_holds_the_template(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config_json={"chat_template": "config"})

    assert texts(tmp_path) == ("config", "config")


def test_config_holds_a_template_for_tools(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config_json={"chat_template": NAMED})

    assert texts(tmp_path) == ("plain", "tools")


def test_template_file_of_the_folder_goes_before_the_config(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config_json={"chat_template": NAMED}, chat_template_jinja="file")

    assert texts(tmp_path) == ("file", "file")


def test_additional_templates_are_files_with_names(tmp_path: Path) -> None:
    write(tmp_path, chat_template_jinja="file")
    write(tmp_path, additional_chat_templates__tool_use_jinja="tool file")

    assert texts(tmp_path) == ("file", "tool file")


def test_processor_template_is_used_if_there_is_no_other(tmp_path: Path) -> None:
    write(tmp_path, chat_template_json={"chat_template": "processor"})

    assert texts(tmp_path) == ("processor", "processor")


def test_own_template_file_replaces_them_all(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config_json={"chat_template": NAMED}, own_jinja="own")

    template = ChatTemplate.load(tmp_path, {}, tmp_path / "own.jinja")

    assert template.render((USER,), (Tool("look"),)) == "own"


@pytest.mark.parametrize("entry", [7, ["plain"], [{"name": "default"}], {"default": "plain"}])
def test_config_with_an_unknown_form_of_template_is_named(tmp_path: Path, entry: object) -> None:
    write(tmp_path, tokenizer_config_json={"chat_template": entry})

    with pytest.raises(SourceError, match=r"tokenizer_config\.json: chat_template should be"):
        ChatTemplate.load(tmp_path, {})
