"""Own the file that the manifest in force comes from: read it, check a text for it, replace it."""

from collections.abc import Callable
from pathlib import Path

from appliance.errors import ManifestChanged
from appliance.manifest.builtin import load_builtin
from appliance.manifest.digest import bytes_digest
from appliance.manifest.load import LoadedManifest, load_manifest, load_manifest_text
from appliance.manifest.setting import MANIFEST_NAME
from appliance.reconcile.commit import is_writable, write_manifest


class ManifestFile:
    """Where the manifest is read from and written to. Blocking; one caller at a time.

    `file` None = the built-in manifest, until one is written to the state folder's. `refuse`
    raises ManifestError for what this appliance cannot do although the manifest holds.
    """

    def __init__(
        self, file: Path | None, state_dir: Path, refuse: Callable[[LoadedManifest], None]
    ) -> None:
        self.path = (state_dir / MANIFEST_NAME if file is None else file).absolute()
        self._may_be_builtin = file is None
        self._refuse = refuse

    def read(self) -> LoadedManifest:
        """Return what the file says now; raises ManifestError."""
        loaded = load_builtin() if self._is_builtin() else load_manifest(self.path)
        self._refuse(loaded)
        return loaded

    def check(self, text: str) -> LoadedManifest:
        """Return what a text would say in the file's place; raises ManifestError."""
        loaded = load_manifest_text(text, name=str(self.path), folder=self.path.parent)
        self._refuse(loaded)
        return loaded

    def is_writable(self) -> bool:
        """Say whether a text can be put in the file's place."""
        return is_writable(self.path)

    def write(self, text: str, if_match: str | None) -> None:
        """Put a text in the file's place.

        Raises ManifestChanged unless the file's etag is `if_match` (None = whatever it is), and
        ManifestReadOnly.
        """
        etag = self.etag()
        if if_match is not None and if_match != etag:
            raise ManifestChanged(etag)
        write_manifest(self.path, text)

    def etag(self) -> str:
        """Return 16 digits that the bytes in the file's place have now."""
        if self._is_builtin():
            return load_builtin().etag
        try:
            return bytes_digest(self.path.read_bytes())
        except OSError:
            return bytes_digest(b"")

    def _is_builtin(self) -> bool:
        return self._may_be_builtin and not self.path.exists()
