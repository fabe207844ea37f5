"""Find what the file asks for and this build cannot do yet. Pure, and works on broken files."""

from collections.abc import Iterator, Mapping
from functools import cache

from appliance.manifest.reason import shown
from appliance.manifest.spec.manifest import Manifest
from appliance.manifest.spec.section import NOT_YET, Later, Section, below, is_section
from appliance.manifest.tree import Flaw, Loc, Tree


def find_later_flaws(tree: Tree) -> Iterator[Flaw]:
    """Yield a flaw for every key marked `Later` whose value asks for something."""
    yield from _flaws(tree, (), tree.value, Manifest)


def _flaws(tree: Tree, loc: Loc, value: object, kind: object) -> Iterator[Flaw]:
    if isinstance(value, tuple):
        item = below(kind, 0)
        for index, inner in enumerate(value if item else ()):
            yield from _flaws(tree, (*loc, index), inner, item)
    if not isinstance(value, dict) or not kind:
        return
    marks = _marks(kind) if is_section(kind) else {}
    for key, inner in value.items():
        mark = marks.get(key)
        if mark is None and isinstance(inner, dict | tuple):
            yield from _flaws(tree, (*loc, key), inner, below(kind, key))
        elif mark is not None and not mark.serves(inner):
            name = repr(key) if mark.names == "key" else shown(tree, (*loc, key))
            yield Flaw((*loc, key), f"{name} {NOT_YET}")


@cache
def _marks(section: type[Section]) -> Mapping[str, Later]:
    return {
        name: mark
        for name, field in section.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Later)
    }
