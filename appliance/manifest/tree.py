"""Turn YAML text into plain values that remember on which line each stands."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import yaml

from appliance.manifest.node import MAX_DEPTH, TAG, TreeError, compose
from appliance.manifest.quantity import LARGEST_NUMBER

Loc = tuple[str | int, ...]

MAX_TEXT = 256 * 2**10  # characters; read by the gateway, whose event loop must not wait long
MAX_VALUES = 20_000  # after aliases are followed: a few lines of them can stand for billions

_KEY_TAG = f"{TAG}str"
_MERGE_TAG = f"{TAG}merge"


@dataclass(frozen=True)
class Place:
    """Where a value stands, and what the file says there (None: a list or a mapping)."""

    line: int
    written: str | None = None


@dataclass(frozen=True)
class Flaw:
    """Something wrong at `loc`; `line` is None where the place of `loc` is meant."""

    loc: Loc
    reason: str
    line: int | None = None


@dataclass(frozen=True)
class Tree:
    """A document as dicts, tuples and scalars, with the place of every key and item."""

    value: object
    places: dict[Loc, Place]
    flaws: list[Flaw]

    def line_of(self, loc: Loc) -> int:
        """Return the line of `loc`, or of the nearest thing around it that the file holds."""
        while loc and loc not in self.places:
            loc = loc[:-1]
        return self.places[loc].line


def read_tree(text: str, expand: Callable[[str], str]) -> Tree:
    """Return the one document in `text`; `expand` is applied to every text value (not to keys).

    What is wrong at one place (a repeated key, a tag, an `expand` that raises ValueError) is in the
    tree's flaws. Raises TreeError where nothing can be read.
    """
    if len(text) > MAX_TEXT:
        raise TreeError(0, f"is longer than {MAX_TEXT} characters")
    root = compose(text)
    if root is None or (root.tag == f"{TAG}null" and not root.value):
        raise TreeError(0, "is empty; the least it can hold is 'version: 1'")
    growth = _Growth(expand)
    growth.places[()] = Place(root.start_mark.line + 1)
    value = growth.value(root, ())
    return Tree(value, growth.places, growth.flaws)


@dataclass
class _Growth:
    """The tree while it is built from nodes, by one caller."""

    expand: Callable[[str], str]
    places: dict[Loc, Place] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    num_values: int = 0
    repeated: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, loc: Loc) -> object:
        """Return the plain value of `node`, which stands at `loc`."""
        self._count(node, loc)
        if isinstance(node, yaml.ScalarNode):
            self.places[loc] = Place(self.places[loc].line, node.value)
            return self._scalar(node, loc)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{TAG}seq":
            return tuple(self._items(node, loc))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{TAG}map":
            return self._mapping(node, loc)
        self.flaws.append(_unknown_tag(node, loc))
        return None

    def _count(self, node: yaml.Node, loc: Loc) -> None:
        self.num_values += 1
        line = node.start_mark.line + 1
        if self.num_values > MAX_VALUES:
            raise TreeError(line, f"holds more than {MAX_VALUES} values, aliases followed")
        if len(loc) > MAX_DEPTH:
            raise TreeError(line, "is nested too deeply")

    def _items(self, node: yaml.SequenceNode, loc: Loc) -> Iterator[object]:
        for index, item in enumerate(node.value):
            self.places[*loc, index] = Place(item.start_mark.line + 1)
            yield self.value(item, (*loc, index))

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, object]:
        values = {}
        for key, (key_node, value_node) in self._pairs(node, loc, 0).items():
            self.places[*loc, key] = Place(key_node.start_mark.line + 1)
            values[key] = self.value(value_node, (*loc, key))
        return values

    def _pairs(
        self, node: yaml.MappingNode, loc: Loc, depth: int
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the mapping's pairs by key; its own win over those that `<<` brings in."""
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                for source in self._merge_sources(value_node, loc, depth):
                    merged = self._pairs(source, loc, depth + 1) | merged
            elif not _is_text(key_node):
                self._flaw(key_node, loc, "keys should be text; put this one in quotes")
            elif key_node.value in own:
                first = own[key_node.value][0].start_mark.line + 1
                self._flaw(key_node, (*loc, key_node.value), f"repeated key; first on line {first}")
            else:
                own[key_node.value] = (key_node, value_node)
        return merged | own

    def _merge_sources(self, node: yaml.Node, loc: Loc, depth: int) -> Iterator[yaml.MappingNode]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            self._count(source, loc)
            if depth > MAX_DEPTH:
                raise TreeError(source.start_mark.line + 1, "is nested too deeply")
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                self._flaw(source, loc, "<< should name a mapping, or a list of mappings")

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> object:
        try:
            if node.tag == _KEY_TAG:
                return self._text(node.value)
            if node.tag in _SCALARS:
                return _SCALARS[node.tag](node.value)
            self.flaws.append(_unknown_tag(node, loc))
        except ValueError as error:
            self.flaws.append(Flaw(loc, str(error)))
        return None

    def _text(self, written: str) -> str:
        if _has_surrogate(written):
            raise ValueError("holds half a surrogate pair")
        return self.expand(written)

    def _flaw(self, node: yaml.Node, loc: Loc, reason: str) -> None:
        # An aliased mapping is walked once per use; its own mistakes are told once.
        if id(node) not in self.repeated:
            self.repeated.add(id(node))
            self.flaws.append(Flaw(loc, reason, node.start_mark.line + 1))


def _unknown_tag(node: yaml.Node, loc: Loc) -> Flaw:
    return Flaw(loc, f"the tag {node.tag.replace(TAG, '!!')!r} is not supported")


def _is_text(node: yaml.Node) -> bool:
    is_scalar = isinstance(node, yaml.ScalarNode) and node.tag == _KEY_TAG
    return is_scalar and not _has_surrogate(node.value)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _read_null(_: str) -> None:
    return None


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("should be true or false")
    return text.lower() == "true"


def _read_integer(text: str) -> int:
    # Long texts are refused unread: over 4300 digits Python raises an error of its own.
    if len(text) > 100:
        raise ValueError("is too large")
    try:
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    except ValueError as error:
        raise ValueError("should be a whole number") from error
    if abs(number) > LARGEST_NUMBER:
        raise ValueError("is too large")
    return number


def _read_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise ValueError("should be a number") from error
    if not math.isfinite(number):
        raise ValueError("is too large")
    return number


_SCALARS: dict[str, Callable[[str], object]] = {
    f"{TAG}null": _read_null,
    f"{TAG}bool": _read_bool,
    f"{TAG}int": _read_integer,
    f"{TAG}float": _read_float,
}
