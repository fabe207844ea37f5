"""Find names that are given twice and names that lead nowhere. Pure, and works on broken files."""

from collections.abc import Iterable, Iterator, Mapping

from appliance.manifest.reason import path_text, shown, suggestion, value_at
from appliance.manifest.spec.model import OF_BASE
from appliance.manifest.tree import Flaw, Loc, Tree

_DOORS = ("chat", "embeddings", "rerank", "audio")


def find_name_flaws(tree: Tree) -> Iterator[Flaw]:
    """Yield a flaw for every model, alias or key name used again, and every unknown name."""
    models = list(entries(tree, "models"))
    names = [named for index, model in models for named in _names(index, model)]
    yield from _repeated(tree, names)
    keys = list(entries(tree, "auth_keys"))
    yield from _repeated(tree, [(("auth_keys", i, "name"), key.get("name")) for i, key in keys])

    lists: list[Loc] = [("auth_keys", index, "models") for index, _ in keys]
    lists += [("server", "endpoints", door, "models") for door in _DOORS]
    wanted = [item for loc in lists for item in _items(loc, value_at(tree.value, loc))]
    yield from _unknown(tree, wanted, _written(tree, names), "model or alias")


def find_cache_flaws(tree: Tree) -> Iterator[Flaw]:
    """Yield a flaw for every cache policy named that is none; 'none' is always there."""
    found = value_at(tree.value, ("cache_policies",))
    policies = {"none": {"kind": "none"}} | (found if isinstance(found, dict) else {})
    if value_at(policies, ("none", "kind")) in ("prefix", "paged"):
        yield Flaw(
            ("cache_policies", "none", "kind"), "should be 'none', as the policy's name says"
        )

    locs: list[Loc] = [("models", index, "cache") for index, _ in entries(tree, "models")]
    caches = [(loc, value_at(tree.value, loc)) for loc in (("defaults", "cache"), *locs)]
    yield from _unknown(tree, caches, {name: name for name in policies}, "cache policy")


def find_profile_flaws(tree: Tree) -> Iterator[Flaw]:
    """Yield a flaw for every model without a source, and for what is wrong with a profile."""
    models = list(entries(tree, "models"))
    for index, model in models:
        if not _is_profile(model) and "source" not in model:
            yield Flaw(("models", index, "source"), "is missing")
        for key in OF_BASE:
            if _is_profile(model) and key in model:
                reason = "cannot be set beside 'like': a profile has that of its model"
                yield Flaw(("models", index, key), reason)
    yield from _like_flaws(tree, models)


def entries(tree: Tree, section: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the mappings in the list called `section`, with their indexes."""
    found = tree.value.get(section) if isinstance(tree.value, dict) else None
    for index, entry in enumerate(found if isinstance(found, tuple) else ()):
        if isinstance(entry, dict):
            yield index, entry


def _names(index: int, model: dict[str, object]) -> Iterator[tuple[Loc, object]]:
    yield ("models", index, "name"), model.get("name")
    yield from _items(("models", index, "aliases"), model.get("aliases"))


def _is_profile(model: dict[str, object]) -> bool:
    return model.get("like") is not None


def _like_flaws(tree: Tree, models: list[tuple[int, dict[str, object]]]) -> Iterator[Flaw]:
    named = [(model, pair) for index, model in models for pair in _names(index, model)]
    roles: dict[str, str] = {}
    for model, (loc, name) in named:
        if isinstance(name, str):
            own = "a profile itself" if _is_profile(model) else ""
            roles.setdefault(name, own if loc[-1] == "name" else "an alias")
    bases = _written(tree, [(loc, name) for _, (loc, name) in named if roles.get(str(name)) == ""])
    for index, model in models:
        like, loc = model.get("like"), ("models", index, "like")
        if isinstance(like, str) and roles.get(like):
            yield Flaw(loc, f"{shown(tree, loc)} is {roles[like]}; name the model behind it")
        else:
            yield from _unknown(tree, [(loc, like)], bases, "model")


def _items(loc: Loc, values: object) -> Iterator[tuple[Loc, object]]:
    for index, value in enumerate(values if isinstance(values, tuple) else ()):
        yield (*loc, index), value


def _written(tree: Tree, named: Iterable[tuple[Loc, object]]) -> dict[str, str]:
    return {name: tree.places[loc].written or "" for loc, name in named if isinstance(name, str)}


def _unknown(
    tree: Tree, wanted: Iterable[tuple[Loc, object]], known: Mapping[str, str], what: str
) -> Iterator[Flaw]:
    """Yield a flaw for every name wanted that is not `known`, which has what the file says of each.

    Suggestions are made from what the file says, since names may hold expanded values.
    """
    for loc, name in wanted:
        if isinstance(name, str) and name not in known:
            hint = suggestion(tree.places[loc].written or "", known.values())
            yield Flaw(loc, f"no {what} is called {shown(tree, loc)}{hint}")


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
