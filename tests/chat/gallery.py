"""Say what each real chat template does with the conversations that clients send.

`python -m tests.chat.gallery` writes `golden/templates.txt` anew, for you to check.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict, replace

from appliance.chat.normalise import normalise
from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.template import ChatTemplate
from appliance.chat.traits import Traits
from appliance.errors import InvalidRequest
from tests.packages import sdist_models_folder

GOLDEN = Path(__file__).parent / "golden" / "templates.txt"
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
_THOUGHT = "private musing"

_SYSTEM = Message("system", "first rules")
_LATER = Message("system", "later rules")
_ASK = Message("user", "first question")
_AGAIN = Message("user", "second question")
_SAY = Message("assistant", "first answer")
_MORE = Message("assistant", "second answer")
_ID, _OTHER_ID = "call_0123456789abcdefABCDEFGH", "call_hgfedcbaHGFEDCBA98765432"
_DO = Message("assistant", tool_calls=(ToolCall(_ID, "look", '{"city": "Bern"}'),))
_BOTH = Message(
    "assistant", tool_calls=(*_DO.tool_calls, ToolCall(_OTHER_ID, "look", '{"city": "Rome"}'))
)
_GOT = Message("tool", "first result", tool_call_id=_ID)
_GOT_NEXT = Message("tool", "second result", tool_call_id=_OTHER_ID)
_BROKEN = Message("assistant", tool_calls=(ToolCall(_ID, "look", "Bern"),))
_BARE = Message("assistant", tool_calls=(ToolCall(_ID, "look", ""),))

_TOOL = Tool(
    "look",
    "Look around",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where"}},
        "required": ["city"],
    },
)
_BARE_TOOL = Tool("look")

CONVERSATIONS: dict[str, tuple[Message, ...]] = {
    "plain": (_ASK,),
    "history": (_SYSTEM, _ASK, _SAY, _AGAIN),
    "two systems": (_SYSTEM, _LATER, _ASK),
    "late system": (_SYSTEM, _ASK, _SAY, _LATER, _AGAIN),
    "late system only": (_ASK, _SAY, _LATER, _AGAIN),
    "system at the end": (_SYSTEM, _ASK, _SAY, _AGAIN, _LATER),
    "developers": (replace(_SYSTEM, role="developer"), _ASK, replace(_LATER, role="developer")),
    "system alone": (_SYSTEM,),
    "questions in a row": (_ASK, _AGAIN),
    "answers in a row": (_ASK, _SAY, _MORE, _AGAIN),
    "answer first": (_SAY, _ASK),
    "empty turns": (Message("user", ""), Message("assistant"), _ASK, Message("assistant", "")),
    "call": (_SYSTEM, _ASK, _DO, _GOT),
    "call and answer": (_ASK, _DO, _GOT, _SAY, _AGAIN),
    "text beside call": (_ASK, replace(_DO, content="first answer"), _GOT),
    "thought beside call": (_ASK, replace(_DO, content="first answer", thought=_THOUGHT), _GOT),
    "two calls": (_ASK, _BOTH, _GOT_NEXT, _GOT),
    "calls in a row": (_ASK, _DO, _GOT, replace(_BOTH, tool_calls=_BOTH.tool_calls[1:]), _GOT_NEXT),
    "call first": (_SYSTEM, _DO, _GOT),
    "question behind result": (_ASK, _DO, _GOT, _AGAIN),
    "result before call": (_ASK, _GOT, _DO),
    "result without call": (_ASK, _SAY, _GOT),
    "call without result": (_ASK, _DO, _AGAIN),
    "broken arguments": (_ASK, _BROKEN, _GOT),
    "no arguments": (_ASK, _BARE, _GOT),
}


class Template(NamedTuple):
    """One real template, and what was found about it."""

    name: str
    template: ChatTemplate
    traits: Traits

    def render(self, messages: tuple[Message, ...], *tools: Tool, **values: object) -> str:
        """Return the prompt that the text process makes."""
        messages = normalise(messages, self.traits)
        return self.template.render(messages, tools, values, self.traits.spelling)


def read_sources() -> dict[str, str]:
    """Return the real templates by name."""
    folder = sdist_models_folder() / "templates"
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}


def read_gallery() -> list[Template]:
    """Return all templates, compiled and tried."""
    gallery = []
    for name, source in read_sources().items():
        template = ChatTemplate({"default": source}, SPECIAL_TOKENS, name)
        gallery.append(Template(name, template, find_traits(template)))
    return gallery


def print_gallery(gallery: Iterable[Template]) -> str:
    """Return the text of the golden file."""
    return "\n".join(line for each in gallery for line in _lines(each))


def _lines(each: Template) -> Iterator[str]:
    yield each.name
    yield f"  answer begins   {_answer_start(each)!r}"
    yield f"  traits          {_deviations(each.traits)}"
    yield f"  prompt so far   {_prefix(each)}"
    yield f"  thoughts shown  {_thoughts(each)}"
    for name, messages in CONVERSATIONS.items():
        yield from _outcome(each, name, messages)
    if each.traits.shows_tools:
        yield from _outcome(each, "bare tool", (_ASK,), _BARE_TOOL)
    yield ""


def _answer_start(each: Template) -> str:
    """Return what the template writes so that the assistant answers."""
    whole = each.render((_ASK,))
    pairs = enumerate(zip(whole, _unanswered(each, (_ASK,)) + "\0" * len(whole), strict=False))
    return whole[next((at for at, (ours, theirs) in pairs if ours != theirs), len(whole)) :]


def _unanswered(each: Template, messages: tuple[Message, ...], *tools: Tool) -> str:
    return each.render(messages, *tools, add_generation_prompt=False)


def _prefix(each: Template) -> str:
    """Say at which step of a conversation with a call the prompt so far does not stay as it was."""
    tools = (_TOOL,) if each.traits.shows_tools else ()
    steps = {
        "the call": (_SYSTEM, _ASK, _DO, _GOT),
        "the answer": (_SYSTEM, _ASK, _DO, _GOT, _SAY, _AGAIN),
        "the next answer": (_SYSTEM, _ASK, _DO, _GOT, _SAY, _AGAIN, _MORE, _ASK),
    }
    before = _unanswered(each, (_SYSTEM, _ASK), *tools)
    changes = []
    for step, messages in steps.items():
        after = _unanswered(each, messages, *tools)
        if not after.startswith(before):
            changes.append(step)
        before = after
    return f"changes with {', '.join(changes)}" if changes else "stays"


def _deviations(traits: Traits) -> str:
    same = {key: getattr(traits, key) for key in ("template", "spelling", "samples")}
    usual = asdict(Traits(**same))
    values = {key: value for key, value in asdict(traits).items() if value != usual[key]}
    plain = asdict(type(traits.spelling)())
    values |= {key: v for key, v in asdict(traits.spelling).items() if v != plain[key]}
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "-"


def _thoughts(each: Template) -> str:
    """Say in which places of a conversation the template shows what the assistant thought."""
    variable = each.traits.thinking_variable
    values = {variable: each.traits.thinking_on} if variable else {}
    tools = (_TOOL,) if each.traits.shows_tools else ()
    places = {
        "before a call": (_ASK, replace(_DO, thought=_THOUGHT), _GOT),
        "before an answer": (_ASK, replace(_SAY, thought=_THOUGHT), _AGAIN),
    }
    shown = [
        place
        for place, messages in places.items()
        if _THOUGHT in each.render(messages, *tools, **values)
    ]
    return ", ".join(shown) or "-"


def _outcome(
    each: Template, name: str, messages: tuple[Message, ...], *tools: Tool
) -> Iterator[str]:
    """Yield a line if the template refuses the conversation, or leaves something out."""
    if not tools and each.traits.shows_tools:
        tools = (_TOOL,)
    try:
        text = each.render(messages, *tools)
    except InvalidRequest as error:
        yield f"  refuses         {name}: {error}"
        return
    lost = [mark for mark in _marks(messages, tools) if mark not in text]
    if lost:
        yield f"  leaves out      {name}: {', '.join(lost)}"


def _marks(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> Iterator[str]:
    for message in messages:
        if message.content:
            yield message.content
        for call in message.tool_calls:
            yield call.name
            if call.arguments:
                yield "Rome" if "Rome" in call.arguments else "Bern"
    for tool in tools:
        yield tool.name


if __name__ == "__main__":
    GOLDEN.write_text(print_gallery(read_gallery()))
