"""Write down what admins do."""

from typing import Any, cast

from litestar import Request

from appliance.api.auth import Caller
from appliance.reconcile.history import History
from appliance.reconcile.records import Records

AnyRequest = Request[Any, Any, Any]


def who(request: AnyRequest) -> str:
    """Return the name of the key that a request came with."""
    return cast(Caller, request.auth).sender.key_name or "anybody"


async def note(
    records: Records, request: AnyRequest, act: str, *, subject: str = "", result: str = "done"
) -> None:
    """Add an act to the audit log; raises HistoryFailed."""
    await records(History.note, who(request), act, subject, result)
