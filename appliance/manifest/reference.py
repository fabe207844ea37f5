"""Find names that are given twice and names that lead nowhere. Pure, and works on broken files."""

from collections.abc import Iterable, Iterator

from appliance.manifest.reason import path_text, shown, suggestion
from appliance.manifest.tree import Flaw, Loc, Tree


def find_name_flaws(tree: Tree) -> Iterator[Flaw]:
    """Yield a flaw for every model, alias or key name used again, and every unknown model name."""
    models = [named for index, model in entries(tree, "models") for named in _names(index, model)]
    yield from _repeated(tree, models)
    keys = list(entries(tree, "auth_keys"))
    key_names = [(("auth_keys", index, "name"), key.get("name")) for index, key in keys]
    yield from _repeated(tree, key_names)
    known = {name: tree.places[loc].written or "" for loc, name in models if isinstance(name, str)}
    for index, key in keys:
        for loc, name in _listed(("auth_keys", index, "models"), key.get("models")):
            if isinstance(name, str) and name not in known:
                reason = f"no model or alias is called {shown(tree, loc)}"
                written = tree.places[loc].written or ""
                yield Flaw(loc, reason + suggestion(written, known.values()))


def entries(tree: Tree, section: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the mappings in the list called `section`, with their indexes."""
    found = tree.value.get(section) if isinstance(tree.value, dict) else None
    for index, entry in enumerate(found if isinstance(found, tuple) else ()):
        if isinstance(entry, dict):
            yield index, entry


def _names(index: int, model: dict[str, object]) -> Iterator[tuple[Loc, object]]:
    yield ("models", index, "name"), model.get("name")
    yield from _listed(("models", index, "aliases"), model.get("aliases"))


def _listed(loc: Loc, values: object) -> Iterator[tuple[Loc, object]]:
    for index, value in enumerate(values if isinstance(values, tuple) else ()):
        yield (*loc, index), value


def _repeated(tree: Tree, named: Iterable[tuple[Loc, object]]) -> Iterator[Flaw]:
    first: dict[str, Loc] = {}
    for loc, name in named:
        if not isinstance(name, str):
            continue
        if name in first:
            before = first[name]
            where = f"{path_text(before)} (line {tree.line_of(before)})"
            yield Flaw(loc, f"the name {shown(tree, loc)} is taken by {where}")
        first.setdefault(name, loc)
