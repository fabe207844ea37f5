"""Compose YAML text into nodes: YAML 1.2's plain scalars, bounded depth, errors in one line."""

import re
from contextlib import suppress

import yaml

MAX_DEPTH = 64
TAG = "tag:yaml.org,2002:"


class TreeError(Exception):
    """The text is no YAML document of ours at all; `line` 0 = the whole text."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class _Composer(yaml.composer.Composer, yaml.resolver.BaseResolver):
    """YAML 1.2's plain scalars, as editors read them: `no` and `1:30` are text, 010 is ten."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose as usual, but not deeper than Python's stack can go."""
        if self.depth > MAX_DEPTH:
            event = self.peek_event()  # type: ignore[attr-defined]  # every loader has it
            raise TreeError(event.start_mark.line + 1, "is nested too deeply")
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Composer.yaml_implicit_resolvers = {}  # not the inherited ones, which are YAML 1.1's
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Composer.add_implicit_resolver(f"{TAG}{_kind}", re.compile(rf"(?:{_pattern})\Z"), _first)


class _Loader(_Composer, yaml.SafeLoader):
    """Reads in Python, and says in full sentences what is wrong."""


if yaml.__with_libyaml__:

    class _FastLoader(_Composer, yaml.CSafeLoader):
        """Reads in C, ten times as fast."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            yaml.composer.Composer.__init__(self)


_READ_OTHERWISE = re.compile(r".\ufeff|!(?![^\s,])", re.DOTALL)
"""Where libyaml differs: it skips a byte order mark after any line break, where that is a character
like others, and takes nothing behind a tag without a name for text."""


def compose(text: str) -> yaml.Node | None:
    """Return the root of the one document in `text`, None if it holds none; raises TreeError."""
    if yaml.__with_libyaml__ and not _READ_OTHERWISE.search(text):
        # What it refuses is read again, since its sentences are terse.
        with suppress(yaml.YAMLError, ValueError, TreeError):
            return _FastLoader(text).get_single_node()
    return compose_exactly(text)


def compose_exactly(text: str) -> yaml.Node | None:
    """Return what `compose` does, slowly: raises TreeError with a sentence about what is wrong."""
    try:
        return _single_node(_Loader(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise TreeError(mark.line + 1 if mark else 0, _reason(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TreeError(line, f"holds the character U+{error.character:04X}") from error


def _single_node(loader: _Loader) -> yaml.Node | None:
    try:
        return loader.get_single_node()
    except (ValueError, OverflowError) as error:
        # The scanner does not guard chr() against "\UFFFFFFFF".
        raise TreeError(loader.line + 1, "holds an escape that is no character") from error
    finally:
        loader.dispose()


def _reason(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "cannot be read"
    if isinstance(error, yaml.composer.ComposerError):
        if "alias" in problem:
            # The name is not repeated: it may be a secret that begins with a star.
            return "*name refers to no &name above; text that begins with * needs quotes"
        if "another document" in problem:
            return "a second document begins here; the manifest is one document"
    context = f"{error.context}: " if error.context else ""
    return " ".join(f"is not valid YAML: {context}{problem}".split())
