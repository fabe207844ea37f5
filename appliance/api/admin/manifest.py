"""Answer for the manifest: read it, replace it, plan it, go back to an earlier one."""

import asyncio
from typing import Any

from litestar import Request, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from appliance.api.admin.audit import note, who
from appliance.api.admin.control import Control
from appliance.api.admin.whole import to_its_end
from appliance.api.admin.wire import RollbackBody, plan_body, revision_body
from appliance.api.body import BodyReader, JsonResponse, read_text
from appliance.errors import ApplianceError, InvalidRequest, RevisionNotFound
from appliance.manifest.digest import text_digest
from appliance.manifest.spec import LimitsSpec
from appliance.reconcile.history import History, Revision
from appliance.reconcile.reconciler import Accepted, Edit

AnyRequest = Request[Any, Any, Any]

_ROLE = {"role": "admin"}


class ManifestRoutes:
    """The handlers of the manifest, its plans and its history. Event loop only."""

    def __init__(self, control: Control, limits: LimitsSpec) -> None:
        self._control = control
        self._limits = limits
        self._rollback_body = BodyReader(RollbackBody, "admin", limits, control.metrics)

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the route handlers, for a Litestar app."""
        return [
            get("/admin/v1/manifest", opt=_ROLE)(self._get),
            put("/admin/v1/manifest", opt=_ROLE)(self._put),
            post("/admin/v1/plan", opt=_ROLE, status_code=200)(self._plan),
            post("/admin/v1/reload", opt=_ROLE, status_code=200)(self._reload),
            get("/admin/v1/history", opt=_ROLE)(self._history),
            get("/admin/v1/history/{number:int}", opt=_ROLE)(self._revision),
            post("/admin/v1/rollback", opt=_ROLE, status_code=200)(self._rollback),
            get("/admin/v1/audit", opt=_ROLE)(self._audit),
        ]

    async def _get(self) -> ASGIApp:
        reconciler = self._control.reconciler
        loaded = reconciler.loaded
        # The file's own: it may hold a mistake, which whoever writes next replaces.
        etag = await asyncio.to_thread(reconciler.file.etag)
        is_writable = await asyncio.to_thread(reconciler.file.is_writable)
        body = {
            "revision": loaded.revision,
            "etag": etag,
            "number": reconciler.board.number,
            "file": str(reconciler.file.path),
            "is_writable": is_writable,
            "text": loaded.text,
        }
        return JsonResponse(body, headers={"etag": f'"{etag}"'})

    async def _put(self, request: AnyRequest) -> ASGIApp:
        text = await read_text(request, self._limits)
        return await to_its_end(self._replace(request, text, "apply"))

    async def _rollback(self, request: AnyRequest) -> ASGIApp:
        wanted = (await self._rollback_body.read(request)).number
        revision = await self._find(await self._earlier() if wanted is None else wanted)
        return await to_its_end(self._replace(request, revision.text, "rollback"))

    async def _earlier(self) -> int:
        """Return the newest revision whose text is not the one in force."""
        in_force = self._control.reconciler.loaded.etag
        for revision in await self._control.records(History.revisions):
            if revision.etag != in_force:
                return revision.number
        raise InvalidRequest("There is no earlier revision to go back to.")

    async def _replace(self, request: AnyRequest, text: str, how: str) -> ASGIApp:
        reconciler = self._control.reconciler
        subject = text_digest(text)
        try:
            accepted, plan = await reconciler.put(
                text, Edit(who(request), how), if_match=_if_match(request)
            )
        except ApplianceError as error:
            await note(
                self._control.records, request, how, subject=subject, result=type(error).__name__
            )
            raise
        await note(
            self._control.records,
            request,
            how,
            subject=subject,
            result=f"revision {accepted.revision.number}",
        )
        return JsonResponse(
            _accepted_body(accepted) | {"plan": plan_body(plan, accepted.revision.revision)}
        )

    async def _plan(self, request: AnyRequest) -> ASGIApp:
        text = await read_text(request, self._limits)
        plan = await self._control.reconciler.preview(text or None)
        return JsonResponse(plan_body(plan, None))

    async def _reload(self, request: AnyRequest) -> ASGIApp:
        return await to_its_end(self._read_again(request))

    async def _read_again(self, request: AnyRequest) -> ASGIApp:
        edit = Edit(who(request), "reload")
        try:
            accepted = await self._control.reconciler.reload(edit)
        except ApplianceError as error:
            await note(self._control.records, request, "reload", result=type(error).__name__)
            raise
        await note(
            self._control.records, request, "reload", result=f"revision {accepted.revision.number}"
        )
        return JsonResponse(_accepted_body(accepted) | {"is_changed": accepted.is_changed})

    async def _history(self) -> ASGIApp:
        in_force = self._control.reconciler.board.number
        revisions = await self._control.records(History.revisions)
        rows = [revision_body(each, in_force, has_text=False) for each in revisions]
        return JsonResponse({"revisions": rows})

    async def _revision(self, number: int) -> ASGIApp:
        in_force = self._control.reconciler.board.number
        revision = await self._find(number)
        return JsonResponse(revision_body(revision, in_force, has_text=True))

    async def _find(self, number: int) -> Revision:
        # SQLite knows no larger numbers.
        is_number = abs(number) < 2**63
        revision = await self._control.records(History.find, number) if is_number else None
        if revision is None:
            raise RevisionNotFound(number)
        return revision

    async def _audit(self) -> ASGIApp:
        acts = await self._control.records(History.acts)
        return JsonResponse({"acts": acts})


def _if_match(request: AnyRequest) -> str | None:
    """Return the etag that the manifest must have; None = any (RFC 9110, 13.1.1)."""
    etag = request.headers.get("if-match", "*").strip().removeprefix("W/").strip('"')
    return None if etag == "*" else etag


def _accepted_body(accepted: Accepted) -> dict[str, object]:
    return {"revision": accepted.revision.revision, "number": accepted.revision.number}
