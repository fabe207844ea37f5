"""Set up structlog: JSON lines to a stream, or a console format on a terminal."""

import logging
import sys
from typing import Literal, TextIO

import structlog

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure_logging(level: LogLevel, log_format: LogFormat, stream: TextIO = sys.stdout) -> None:
    """Send every event of this process to `stream`, one line each; call once, at start.

    `auto` writes for people on a terminal and JSON elsewhere. Tracebacks never show local
    variables: they may hold prompts or keys.
    """
    console = log_format == "console" or (log_format == "auto" and stream.isatty())
    plain = structlog.dev.plain_traceback
    render: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
