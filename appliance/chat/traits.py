"""Say what a model's chat template can show, as trying it out found."""

from typing import Literal

import msgspec

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""Words for how much a model should think, from little to much; "none" is not at all."""


class Spelling(msgspec.Struct, frozen=True):
    """How one template wants things to be written in the values that it gets.

    `thought`: the key of a message under which it reads thoughts; "blocks": as a part of the
    content; None: it shows none. `has_null_content`: the content of a call without text is None.
    `arguments`: a call's arguments as a mapping ("object"; "mapping": whatever they are), or as
    JSON text. `ids`: call ids as they came; `short`: nine letters or digits; `numbered`: the call's
    name and its place among all calls, as in `functions.name:0`.
    `tools`: in OpenAI's envelope, or `flat`: with the function's own keys beside it.
    `fills_tools`: no description is an empty one, no parameters are an object without any.
    `lists_no_tools`: no tools are an empty list, not None.
    `has_functions`: tools are also a JSON text named `functions`, and `datetime` is the date.
    """

    thought: str | None = None
    has_null_content: bool = False
    arguments: Literal["object", "mapping", "text"] = "object"
    ids: Literal["any", "short", "numbered"] = "any"
    tools: Literal["nested", "flat"] = "nested"
    fills_tools: bool = False
    lists_no_tools: bool = False
    has_functions: bool = False


class Samples(msgspec.Struct, frozen=True):
    """What one template writes when an assistant answers; "" for what it does not show.

    `thinking_tail`, `plain_tail`: the end of a prompt, with thoughts switched on and off. The rest
    goes on behind the first, and ends as a turn does: `thought`: a thought and an answer, or a call
    if that is where thoughts are shown; `call`: one call; `calls`: two. What is said and called is
    in `sample`.
    """

    thinking_tail: str = ""
    plain_tail: str = ""
    thought: str = ""
    call: str = ""
    calls: str = ""


class Traits(msgspec.Struct, frozen=True):
    """What a model's chat template can do. A model without a template has the defaults.

    `template` is its source. `shows_tools`: declared tools reach the prompt. `thinks`: the model
    has thoughts, or may have them, before it answers; `thinking_variable` of the template switches
    them on and off by the values `thinking_on` and `thinking_off`, and `effort_variable` takes one
    of the words `efforts`. `encodes_suffix`: the tokenizer has tokens for filling in between a text
    and a suffix. `samples` are what it makes of an assistant's answers.

    The rest says which conversations the template shows as they are. `system`: how many messages
    of that role at the start; `late_system`: and anywhere else. `repeats`: two messages of one role
    in a row. `answer_first`: an answer before any question; `needs_question`: there must be one.
    `calls`, `results`: tool calls and what came of them; `parallel_calls`: several in one message;
    `text_beside_call`, `thought_beside_call`: text, and text and thought, in the message of a call;
    `question_after_result`: with no answer between them.
    """

    template: str = ""
    shows_tools: bool = False
    thinks: bool = False
    thinking_variable: str | None = None
    thinking_on: bool | int | str = True
    thinking_off: bool | int | str = False
    effort_variable: str | None = None
    efforts: tuple[str, ...] = ()
    encodes_suffix: bool = False
    system: Literal["none", "one", "several"] = "several"
    late_system: bool = True
    repeats: bool = True
    answer_first: bool = True
    needs_question: bool = False
    calls: bool = True
    results: bool = True
    parallel_calls: bool = True
    text_beside_call: bool = True
    thought_beside_call: bool = True
    question_after_result: bool = True
    spelling: Spelling = Spelling()
    samples: Samples = Samples()
