"""Read the settings of a command from its flags and the environment, and the manifest in force."""

from pathlib import Path

from appliance.cli.output import CommandFailed, Exit
from appliance.errors import ManifestError
from appliance.manifest.builtin import load_builtin
from appliance.manifest.load import LoadedManifest, load_manifest
from appliance.manifest.setting import Settings, find_manifest, load_settings


def read_settings(**flags: object) -> Settings:
    """Return the settings in force; `flags` are fields of Settings, None = not given.

    Raises CommandFailed, as wrong usage, with a line for every bad flag or variable.
    """
    try:
        return load_settings(flags)
    except ManifestError as error:
        lines = [str(problem) for problem in error.problems]
        raise CommandFailed(*lines, code=Exit.USAGE) from error


def load_in_force(settings: Settings) -> LoadedManifest:
    """Return the manifest that `serve` uses with these settings; raises ManifestError."""
    state_dir = settings.state_folder().absolute()
    found = find_manifest(settings.config, cwd=Path.cwd(), state_dir=state_dir)
    return load_builtin() if found is None else load_manifest(found)
