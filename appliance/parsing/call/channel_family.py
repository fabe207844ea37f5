"""Declare how each family that puts a header before all that it says does so."""

from appliance.parsing.call.channel import ChannelSyntax
from appliance.parsing.call.named import NamedSyntax
from appliance.parsing.call.tagged_family import MUSE_GLIMMER

_START = ("<|start|>", "assistant")

HARMONY = ChannelSyntax(
    spelling=NamedSyntax(
        "<|channel|>",
        "<|call|>",
        before=("commentary to=functions.",),
        between=(" ", "<|constrain|>", "json", "<|message|>"),
        gap=_START,
        resumption=_START,
    ),
    thoughts=("analysis",),
    texts=("final",),
    closing="<|call|>",
    inner=("<|channel|>", "<|constrain|>"),
)
"""gpt-oss; it stops behind a call."""

MUSE = ChannelSyntax(
    spelling=NamedSyntax(
        " to=",
        between=("<|message|>",),
        gap=("<|eom|>", *_START),
        resumption=_START,
        body=MUSE_GLIMMER,
    ),
    thoughts=("to=self",),
    texts=("to=user",),
)
"""Muse: the header names the function, and what it heads is a call in tags."""
