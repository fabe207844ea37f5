"""Answer `vllm-mlx validate FILE`: is this manifest right, and if not, what is wrong where?"""

import dataclasses
import sys
from pathlib import Path

from appliance.cli.output import Exit, say, say_json
from appliance.errors import ManifestError
from appliance.manifest.load import LoadedManifest, load_manifest


def run_validate(file: Path, *, as_json: bool) -> Exit:
    """Check `file` and say the outcome; returns OK for a right one and FAILED for a wrong one.

    Problems go to stderr, one a line; with `as_json` everything is one object on stdout.
    """
    try:
        loaded = load_manifest(file)
    except ManifestError as error:
        return _tell_problems(file, error, as_json=as_json)
    return _tell_success(file, loaded, as_json=as_json)


def _tell_success(file: Path, loaded: LoadedManifest, *, as_json: bool) -> Exit:
    names = [model.name for model in loaded.manifest.models]
    if as_json:
        say_json({"file": str(file), "valid": True, "models": names, "problems": []})
    else:
        count = "1 model" if len(names) == 1 else f"{len(names)} models"
        say(f"{file}: valid, {count}")
    return Exit.OK


def _tell_problems(file: Path, error: ManifestError, *, as_json: bool) -> Exit:
    if as_json:
        problems = [dataclasses.asdict(problem) for problem in error.problems]
        say_json({"file": str(file), "valid": False, "models": [], "problems": problems})
    else:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
    return Exit.FAILED
