"""Call the history from the event loop: on one thread of its own, one call after the other."""

from functools import partial
from pathlib import Path

from appliance.database import StoreThread
from appliance.reconcile.history import History


class Records(StoreThread[History]):
    """The history's thread. `open` raises what History does."""

    def __init__(self, file: Path) -> None:
        super().__init__("history", partial(History, file))
