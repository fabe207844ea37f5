"""Set up structlog: JSON lines to a stream, or a console format on a terminal."""

import logging
import sys
from typing import Literal, TextIO

import structlog

from appliance.telemetry.tail import LogTail

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_threshold = [logging.INFO]
"""The level in force, in its only place."""


def configure_logging(
    level: LogLevel,
    log_format: LogFormat,
    stream: TextIO = sys.stdout,
    tail: LogTail | None = None,
) -> None:
    """Send every event of this process to `stream`, one line each; call once, at start.

    `auto` writes for people on a terminal and JSON elsewhere. Tracebacks never show local
    variables: they may hold prompts or keys. `tail` keeps the newest events, if given.
    """
    set_log_level(level)
    console = log_format == "console" or (log_format == "auto" and stream.isatty())
    plain = structlog.dev.plain_traceback
    render: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            _drop_below,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([tail] if tail else []),
            *render,
        ],
        # Everything gets as far as `_drop_below`: loggers in use keep what they were made with.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )


def set_log_level(level: LogLevel) -> None:
    """Log nothing less severe than `level` from now on. Any thread."""
    _threshold[0] = _LEVELS[level]


def _drop_below(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if _LEVELS.get(name, logging.ERROR) < _threshold[0]:
        raise structlog.DropEvent
    return event
