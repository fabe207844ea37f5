"""Own the state folder: its place in the file system, its lock, and the private admin socket."""

import fcntl
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from appliance.errors import StateFolderInUse

_LONGEST_SOCKET_PATH = 100


class StateFolder:
    """A prepared state folder, locked for this process until `release` or its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _make_private(path)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StateFolderInUse(f"{path} is in use by another appliance") from error
        socket_folder = admin_socket(path).parent
        if socket_folder != path:
            _make_private(socket_folder)

    def release(self) -> None:
        """Let another appliance use the folder."""
        os.close(self._lock)


def admin_socket(state_dir: Path) -> Path:
    """Return where the private socket of a state folder is; short enough for every system."""
    path = state_dir / "admin.sock"
    if len(bytes(path)) <= _LONGEST_SOCKET_PATH:
        return path
    digest = sha256(bytes(state_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"vllm-mlx-{os.getuid()}" / f"{digest}.sock"


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise StateFolderInUse(f"{folder} belongs to another user")
        folder.chmod(0o700)
    except OSError as error:
        raise StateFolderInUse(f"{folder} cannot be used: {error.strerror}") from error
