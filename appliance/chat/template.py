"""Turn a conversation into the prompt text that the model's own chat template makes of it.

Templates see what transformers' `apply_chat_template` shows them, and render to the same text.
"""

import json
import traceback
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from appliance.chat.folder import read_object, read_text
from appliance.chat.request import Message, Tool
from appliance.chat.spelling import message_values, tool_value
from appliance.chat.traits import Spelling
from appliance.errors import InvalidRequest, SourceError

_MOST_ITEMS = 2**26
_MOST_EXPONENT = 1024
_MOST_REASON = 500
_USUAL = Spelling()
_RESERVED = ("messages", "tools")
# What a program of somebody else's may raise when it meets values that it does not expect.
_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """A model's chat templates, compiled. Immutable; `render` may be called from any thread.

    A template is a program: it may run for ever, or ask for all memory. `source` is the text of
    those that `render` uses.
    """

    def __init__(
        self, sources: dict[str, str], special_tokens: dict[str, str], origin: str
    ) -> None:
        """Compile `sources` by name; raises SourceError naming `origin` if one is no template."""
        environment = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _format_now
        self._special_tokens = special_tokens
        names = [name for name in ("default", "tool_use") if name in sources]
        self.source = "\n".join(sources[name] for name in names)
        try:
            self._templates = {
                name: environment.from_string(source) for name, source in sources.items()
            }
        except TemplateSyntaxError as error:
            reason = f"the chat template is wrong in line {error.lineno}: {error.message}"
            raise SourceError(origin, reason) from error
        except _FAILURES as error:
            reason = f"the chat template cannot be compiled: {type(error).__name__}"
            raise SourceError(origin, reason) from error

    @classmethod
    def load(
        cls, directory: Path, special_tokens: dict[str, str], template_file: Path | None = None
    ) -> "ChatTemplate":
        """Read and compile the templates of a model's folder, or `template_file` instead.

        A folder without any is no error; `render` then is. Raises SourceError naming the file.
        """
        if template_file is None:
            return cls(read_sources(directory), special_tokens, str(directory))
        source = read_text(template_file)
        if source is None:
            raise SourceError(str(template_file), "does not exist")
        return cls({"default": source}, special_tokens, str(template_file))

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        template_kwargs: dict[str, Any] | None = None,
        spelling: Spelling = _USUAL,
    ) -> str:
        """Return the prompt text, ending where the assistant's answer begins.

        `template_kwargs` become variables of the template, which sees messages and tools as they
        are, in its `spelling`. Raises InvalidRequest for a
        conversation that the template refuses or fails on; what is in the messages is not told.
        """
        wishes = template_kwargs or {}
        for name in _RESERVED:
            if name in wishes:
                raise InvalidRequest(f"A template has no use for '{name}' of its own.", param=name)
        if not messages:
            raise InvalidRequest("There must be at least one message.", param="messages")
        template = self._choose(has_tools=bool(tools))
        try:
            variables = _defaults(tools, spelling) | self._special_tokens | wishes
            variables["messages"] = message_values(messages, spelling)
            values = [tool_value(tool, spelling) for tool in tools]
            variables["tools"] = values if values or spelling.lists_no_tools else None
            return template.render(variables)
        except _Refusal as error:
            reason = f"The chat template refuses these messages: {str(error)[:_MOST_REASON]}"
            raise InvalidRequest(reason, param="messages") from error
        except _FAILURES as error:
            reason = f"The chat template fails on these messages: {_describe(error)}"
            raise InvalidRequest(reason, param="messages") from error

    def _choose(self, *, has_tools: bool) -> Template:
        name = "tool_use" if has_tools and "tool_use" in self._templates else "default"
        template = self._templates.get(name)
        if template is None:
            raise InvalidRequest("The model has no chat template.", param="messages")
        return template


def _defaults(tools: Sequence[Tool], spelling: Spelling) -> dict[str, Any]:
    """Return the variables that a caller's own may replace."""
    values: dict[str, Any] = {"documents": None, "add_generation_prompt": True}
    if spelling.has_functions:
        functions = [tool_value(tool, spelling) for tool in tools]
        values["functions"] = json.dumps(functions, ensure_ascii=False, indent=4)
        values["datetime"] = _format_now("%Y-%m-%d")
    return values


class _Refusal(TemplateError):
    """The template called raise_exception."""


class _GenerationBlock(Extension):
    """`{% generation %}` marks what the assistant wrote, for training; here it only renders."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as an attribute of the instance

    def parse(self, parser: Parser) -> nodes.Node:
        """Called by jinja2. A call block, since names set inside do not outlive it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("emit"), [], [], body).set_lineno(line)

    def emit(self, caller: Macro) -> str:
        """Return what the block renders to."""
        return caller()


class _Sandbox(ImmutableSandboxedEnvironment):
    """Refuses the operations that could fill memory, or run for ever, in a single step.

    Intercepted operators are also not computed while compiling. Lists may be appended to and
    popped from, which some models' templates do: every render has lists of its own.
    """

    intercepted_binops = frozenset(("*", "**"))

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Called by jinja2 for each attribute."""
        if isinstance(obj, list) and attr in ("append", "pop"):
            return True
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Called by jinja2 for each intercepted operator."""
        if operator == "**":
            if isinstance(right, int | float) and abs(right) > _MOST_EXPONENT:
                raise SecurityError(f"an exponent over {_MOST_EXPONENT}")
        else:
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int):
                    _check_length(len(many) * times)
        return super().call_binop(context, operator, left, right)


def _check_length(length: int) -> None:
    if length > _MOST_ITEMS:
        raise SecurityError(f"a text or list of {length} items")


def _refuse(message: object) -> None:
    raise _Refusal(str(message))


def _format_now(pattern: str) -> str:
    # Templates mean the local date, as transformers gives them.
    return datetime.now().strftime(pattern)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_list_items,
    )


def _list_items(value: object) -> object:
    """Return what a filter such as `map` makes as a list; transformers fails on it."""
    if isinstance(value, Iterator):
        return list(value)
    raise TypeError(type(value).__name__)


def _describe(error: BaseException) -> str:
    """Return the kind of failure and its line, since messages may quote the conversation."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == "<template>"
    ]
    where = f" in line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}{where}"


def read_sources(directory: Path) -> dict[str, str]:
    """Return template texts by name; files of their own go before an entry in a config."""
    sources = {}
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        sources[path.stem] = read_text(path)
    sources["default"] = read_text(directory / "chat_template.jinja")
    found = {name: source for name, source in sources.items() if source is not None}
    if found:
        return found
    for name in ("tokenizer_config.json", "chat_template.json"):
        path = directory / name
        found = _named_sources(read_object(path).get("chat_template"), path)
        if found:
            return found
    return {}


def _named_sources(entry: object, path: Path) -> dict[str, str]:
    """Return the templates of a config's `chat_template`: one text, or a list with names."""
    if entry is None:
        return {}
    if isinstance(entry, str):
        return {"default": entry}
    wrong = SourceError(str(path), "chat_template should be a text or a list of named texts")
    if not isinstance(entry, list):
        raise wrong
    try:
        return {str(item["name"]): str(item["template"]) for item in entry}
    except (KeyError, TypeError) as error:
        raise wrong from error
