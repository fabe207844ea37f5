"""Turn messages as Chat Completions writes them into messages of no dialect. Pure."""

from appliance.api.content import Content, file_url
from appliance.api.openai.chat.wire import (
    Call,
    File,
    FilePart,
    ImagePart,
    MediaUrl,
    Part,
    VideoPart,
    WireMessage,
)
from appliance.api.openai.part import add_part
from appliance.api.tool import arguments_text
from appliance.chat.request import Media, Message, ToolCall
from appliance.errors import InvalidRequest


def to_message(index: int, message: WireMessage) -> Message:
    """Return message number `index`; raises InvalidRequest naming the part that is wrong."""
    text = message.content
    media: tuple[Media, ...] = ()
    if isinstance(text, list):
        content = Content()
        for number, part in enumerate(text):
            _add(content, part, f"messages[{index}].content[{number}]")
        text, media = content.text, content.media
    return Message(
        role=message.role,
        content=message.refusal if text is None else text,
        name=message.name,
        tool_calls=tuple(map(_call, message.tool_calls)) if message.tool_calls else (),
        tool_call_id=message.tool_call_id,
        thought=message.reasoning_content or message.reasoning,
        media=media,
    )


def unserved_history(messages: list[WireMessage]) -> tuple[str, ...]:
    """Return the places of what an earlier answer had and no model here can be told."""
    return tuple(
        f"messages[{index}].{'function_call' if each.audio is None else 'audio'}"
        for index, each in enumerate(messages)
        if each.function_call is not None or each.audio is not None
    )


def _call(call: Call) -> ToolCall:
    function = call.function
    arguments = "{}" if function.arguments is None else function.arguments
    return ToolCall(call.id or "", function.name, arguments_text(arguments))


def _add(content: Content, part: Part, place: str) -> None:
    match part:
        case ImagePart():
            content.add_media("image", _url(part.image_url), place)
        case VideoPart():
            content.add_media("video", _url(part.video_url), place)
        case FilePart():
            content.add_media("file", _file_url(part.file, f"{place}.file"), place)
        case _:
            add_part(content, part, place)


def _url(url: MediaUrl | str) -> str:
    return url if isinstance(url, str) else url.url


def _file_url(file: File, place: str) -> str:
    if file.file_data is None:
        reason = "a file is sent as file_data: this server keeps no files that an id could mean."
        raise InvalidRequest(f"{place}: {reason}", param=place)
    return file_url(file.file_data)
