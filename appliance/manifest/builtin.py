"""Give the manifest that serves a small real model when the operator has written none."""

from pathlib import Path

from appliance.manifest.load import LoadedManifest, load_manifest_text

BUILTIN_NAME = "built-in manifest"


def load_builtin() -> LoadedManifest:
    """Return the built-in manifest; its `file` is None and nothing in it depends on the machine."""
    folder = Path(__file__).parent
    text = (folder / "builtin.yaml").read_text(encoding="utf-8")
    return load_manifest_text(text, name=BUILTIN_NAME, folder=folder, environ={})
