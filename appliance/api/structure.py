"""Agree on the one form that an answer must have; shared by dialects. Pure."""

from appliance.chat.request import Structure
from appliance.errors import InvalidRequest


def agreed_structure(*asked: Structure | None) -> Structure | None:
    """Return what the fields of a body want the answer to be, None if none says anything.

    Raises InvalidRequest if they contradict each other.
    """
    said = [each for each in asked if each is not None]
    for other in said[1:]:
        if (other.kind, other.value) != (said[0].kind, said[0].value):
            reason = f"{other.param}: '{said[0].param}' asks for another form of the answer."
            raise InvalidRequest(reason, param=other.param)
    return said[0] if said else None
