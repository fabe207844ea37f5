"""Find out who calls: an API key, a private socket, or anybody when no keys exist."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from appliance.errors import Forbidden, Unauthenticated
from appliance.manifest.spec import Role
from appliance.pipeline.sender import Sender

ALL_ROLES: frozenset[Role] = frozenset({"admin", "inference", "metrics"})


@dataclass(frozen=True)
class Caller:
    """Who sent a request and what they may do; `models` None = every model."""

    sender: Sender
    roles: frozenset[Role]
    models: frozenset[str] | None = None

    def can_use(self, *names: str) -> bool:
        """Say whether this caller may know of and use a model with one of these names."""
        return self.models is None or not self.models.isdisjoint(names)


ANYBODY = Caller(Sender(), roles=ALL_ROLES)
SOCKET_OWNER = Caller(Sender("admin.sock"), roles=ALL_ROLES)


@dataclass(frozen=True)
class KeyEntry:
    """A key's digest and its caller."""

    digest: bytes
    caller: Caller


class KeyRing:
    """Every API key, as digests. Immutable."""

    def __init__(self, entries: tuple[KeyEntry, ...]) -> None:
        self._entries = entries

    @property
    def is_empty(self) -> bool:
        """Say whether no keys exist, so that every caller has every role."""
        return not self._entries

    def find(self, api_key: bytes) -> Caller | None:
        """Return the caller of a key, comparing with every entry in constant time."""
        digest = sha256(api_key).digest()
        found = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry.caller
        return found


class Authenticate(ASGIMiddleware):
    """Put the Caller into scope["auth"], and hold it to the route's `role` option.

    A route without the option is open; scope["auth"] is then None for unknown callers.
    """

    scopes = (ScopeType.HTTP,)

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Called by Litestar."""
        role = cast(HTTPRouteHandler, scope["route_handler"]).opt.get("role")
        caller = self._caller(scope)
        if role is not None:
            if caller is None:
                raise Unauthenticated
            if role not in caller.roles:
                raise Forbidden(f"This key does not have the role '{role}'.")
            if role == "admin" and _is_from_elsewhere(scope):
                raise Forbidden("Web pages of other origins may not use the admin API.")
        scope["auth"] = caller
        await next_app(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller | None:
        if cast(Any, scope).get("state", {}).get("is_trusted"):
            return SOCKET_OWNER
        if self._keys.is_empty:
            return ANYBODY
        api_key = _sent_key(scope)
        return self._keys.find(api_key) if api_key else None


def _is_from_elsewhere(scope: Scope) -> bool:
    """Say whether a browser sent this for a page that is not ours: without keys any could."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


def _sent_key(scope: Scope) -> bytes | None:
    sent = None
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
        if name == b"x-api-key":
            sent = value.strip()
    return sent
