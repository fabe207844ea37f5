"""Load a manifest, or say everything that is wrong with it as file:line: path: reason."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from pydantic import ValidationError

from appliance.errors import ManifestError, Problem
from appliance.manifest.default import merge_models
from appliance.manifest.digest import short_digest, text_digest
from appliance.manifest.later import find_later_flaws
from appliance.manifest.node import TreeError
from appliance.manifest.reason import flaw_of, path_text
from appliance.manifest.reference import (
    entries,
    find_cache_flaws,
    find_name_flaws,
    find_profile_flaws,
)
from appliance.manifest.secret import KeySecret, expand, resolve_digest
from appliance.manifest.spec import Manifest
from appliance.manifest.tree import MAX_TEXT, Flaw, Loc, Tree, read_tree


@dataclass(frozen=True)
class LoadedManifest:
    """A manifest that holds, and where it came from.

    `manifest` has `defaults` merged into its models and `${ENV}` expanded, so it is never logged;
    `text` is what the operator wrote. Relative paths resolve against `folder` (see resolve_path).
    `file` is None for a text that is no file. `key_digests` has each auth key's sha256 by name.
    """

    manifest: Manifest = field(repr=False)
    folder: Path
    file: Path | None
    text: str = field(repr=False)
    key_digests: Mapping[str, bytes] = field(repr=False)

    @cached_property
    def revision(self) -> str:
        """16 hex digits of the meaning: of every value in force, and of the keys' digests."""
        # What the defaults say is in the models; where a key comes from means nothing.
        value = self.manifest.model_dump(
            mode="json", exclude={"defaults": True, "auth_keys": {"__all__": {"key"}}}
        )
        return short_digest([value, [digest.hex() for digest in self.key_digests.values()]])

    @cached_property
    def etag(self) -> str:
        """16 hex digits of the text's bytes."""
        return text_digest(self.text)


def load_manifest(path: Path, *, environ: Mapping[str, str] = os.environ) -> LoadedManifest:
    """Return the manifest in `path`; raises ManifestError with every problem. Reads the disk."""
    text = _read_text(path)
    folder = path.absolute().parent
    loaded = load_manifest_text(text, name=str(path), folder=folder, environ=environ)
    return replace(loaded, file=path)


def load_manifest_text(
    text: str, *, name: str, folder: Path, environ: Mapping[str, str] = os.environ
) -> LoadedManifest:
    """Return the manifest in `text`, which problems call `name`; raises ManifestError.

    Reads the files of auth keys below `folder`, and nothing else.
    """
    try:
        tree = read_tree(text, partial(expand, environ=environ))
    except TreeError as error:
        raise ManifestError((Problem(name, error.line, "", error.reason),)) from error
    flaws = list(tree.flaws)
    manifest = _validate(tree, flaws)
    wrong = {flaw.loc for flaw in flaws}
    flaws += [flaw for flaw in find_later_flaws(tree) if flaw.loc not in wrong]
    for find in (find_name_flaws, find_cache_flaws, find_profile_flaws):
        flaws += find(tree)
    digests = _resolve_keys(tree, folder, environ, flaws)
    if flaws or manifest is None:
        problems = sorted(_problems(name, tree, flaws), key=lambda problem: problem.line)
        raise ManifestError(tuple(dict.fromkeys(problems)))
    merged = manifest.model_copy(update={"models": merge_models(manifest)})
    return LoadedManifest(merged, folder, None, text, digests)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as source:
            content = source.read(4 * MAX_TEXT + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        problem = Problem(str(path), 0, "", f"cannot be read: {reason or 'not a path'}")
        raise ManifestError((problem,)) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ManifestError((Problem(str(path), line, "", "is not UTF-8 text"),)) from error


def _validate(tree: Tree, flaws: list[Flaw]) -> Manifest | None:
    # A value that could not be read stands as None in the tree; one complaint about it is enough.
    unread = {flaw.loc for flaw in flaws if flaw.line is None}
    try:
        return Manifest.model_validate(tree.value)
    except ValidationError as error:
        for details in error.errors(include_url=False, include_input=False):
            if details["loc"] not in unread:
                flaws.append(flaw_of(details, tree))
        return None


def _resolve_keys(
    tree: Tree, folder: Path, environ: Mapping[str, str], flaws: list[Flaw]
) -> dict[str, bytes]:
    digests: dict[str, bytes] = {}
    for loc, name, secret in _secrets(tree):
        try:
            digest = resolve_digest(secret, folder, environ)
        except ValueError as error:
            ((form, _),) = secret.model_dump(exclude_none=True).items()
            written = tree.places[*loc, form].written
            flaws.append(Flaw((*loc, form), f"{error}: {written!r}"))
            continue
        twin = next((other for other in digests if digests[other] == digest), None)
        if twin is not None:
            flaws.append(Flaw(loc, "is the same key as that of another entry"))
        digests[name] = digest
    return digests


def _secrets(tree: Tree) -> Iterator[tuple[Loc, str, KeySecret]]:
    for index, entry in entries(tree, "auth_keys"):
        try:
            secret = KeySecret.model_validate(entry.get("key"))
        except ValidationError:
            continue  # told by the validation of the whole
        yield ("auth_keys", index, "key"), str(entry.get("name")), secret


def _problems(name: str, tree: Tree, flaws: list[Flaw]) -> Iterator[Problem]:
    for flaw in flaws:
        line = flaw.line if flaw.line is not None else tree.line_of(flaw.loc)
        yield Problem(name, line, path_text(flaw.loc), flaw.reason)
