"""Read a JSON object that is there as a whole as a call. Pure."""

import msgspec

from appliance.parsing.argument import is_object

_Members = dict[str, msgspec.Raw]


def decode_name(text: str) -> str | None:
    """Return what a JSON string says; None if it is none."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return None


def decode_call(
    text: str, name_keys: tuple[str, ...], argument_keys: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return the name and the arguments, as JSON text; None if the object is no call.

    Without `name_keys` its first member is both.
    """
    try:
        members = _decode_members(text)
        if "function" in members and bytes(members["function"]).startswith(b"{"):
            members = _decode_members(members["function"])
        name, raw = _choose(members, name_keys, argument_keys)
        arguments = bytes(raw).decode()
        if arguments.startswith('"'):
            arguments = msgspec.json.decode(arguments, type=str)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, LookupError):
        return None
    if arguments in ("", "null"):
        return name, "{}"
    return (name, arguments) if is_object(arguments) else None


def _choose(
    members: _Members, name_keys: tuple[str, ...], argument_keys: tuple[str, ...]
) -> tuple[str, msgspec.Raw]:
    if not name_keys:
        return next(iter(members.items()))
    name_key = next((key for key in name_keys if key in members), "")
    given = (members[key] for key in argument_keys if key in members)
    return msgspec.json.decode(members[name_key], type=str), next(given, msgspec.Raw())


def _decode_members(text: str | msgspec.Raw) -> _Members:
    return msgspec.json.decode(text, type=_Members)
