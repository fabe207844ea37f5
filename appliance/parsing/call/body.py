"""Read one call: its head first, and then step by step what is in it. Pure."""

from abc import ABC, abstractmethod
from typing import Any

from appliance.parsing.call.head import HeadMarks, HeadReader
from appliance.parsing.call.plain_value import ValueReader
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed
from appliance.parsing.syntax import Stage
from appliance.parsing.toolbox import Toolbox


class BodyReader(ABC):
    """What the readers of calls with plain values share; see CallReader."""

    opens = None

    def __init__(
        self, marks: HeadMarks, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        self.stage = Stage.HEAD
        self.is_broken = False
        self._head = HeadReader(marks, opening, tools)
        self._tools = tools
        self._pieces = pieces
        self._taken: list[str] = []
        """JSON text that is not given away yet."""
        self._schema: dict[str, Any] = {}
        """That of the function's parameters."""
        self._value: ValueReader | None = None
        """The value that is being read."""
        self._is_waiting = False
        """More text is wanted."""

    def passes(self, text: str) -> bool:
        """Take what is the same in JSON as in a value; see CallReader."""
        return self._value is not None and self._value.passes(text)

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on; see CallReader."""
        if self.stage is Stage.HEAD:
            at = self._head.read(text, at, is_last=is_last)
            self._open()
        self._is_waiting = False
        while self.stage is Stage.BODY and not self._is_waiting:
            at = self._step(text, at, is_last)
        if self.stage is Stage.BODY and is_last:
            self._taken.append(self._value.cut() if self._value else "")
            self._close(is_sound=False)
            at = len(text)
        self._give()
        return at

    @abstractmethod
    def _step(self, text: str, at: int, is_last: bool) -> int:
        """Read on from `at` and return how far it came; if it came to a stop `_is_waiting`."""

    def _read_value(self, value: ValueReader, text: str, at: int, is_last: bool) -> int:
        at = value.read(text, at, is_last=is_last)
        self._taken.append(value.taken)
        self._is_waiting = not value.is_done
        self._value = None if value.is_done else value
        return at

    def _open(self) -> None:
        name = self._head.name
        if name is not None:
            self.stage = Stage.BODY
            self._schema = self._tools.parameters(name)
            self._pieces.append(CallOpened(name))
        elif self._head.is_text:
            self.stage = Stage.TEXT

    def _close(self, *, is_sound: bool) -> None:
        self.stage = Stage.OVER
        self.is_broken = not is_sound
        self._give()
        self._pieces.append(CallClosed(is_sound))

    def _give(self) -> None:
        arguments = "".join(self._taken)
        self._taken.clear()
        if arguments:
            self._pieces.append(CallArguments(arguments))
