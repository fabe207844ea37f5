"""Ask a person before something changes."""

import sys

from appliance.cli.output import CommandFailed, Exit, say


def require_person(*, is_agreed: bool) -> None:
    """Raise CommandFailed, as wrong usage, unless it is agreed or somebody is there to ask."""
    if not (is_agreed or (sys.stdin.isatty() and sys.stdout.isatty())):
        raise CommandFailed("without a terminal nobody can be asked: add --yes", code=Exit.USAGE)


def ask(question: str) -> bool:
    """Ask on the terminal; anything but yes means no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        say()
        return False
    except KeyboardInterrupt:
        say()
        raise
