"""Real schemas: what the functions of a leaderboard for calling functions take."""

import json
from functools import cache
from typing import Any

from tests.parsing.proof.bfcl import CALLING, read_call_sets


@cache
def real_schemas() -> list[dict[str, Any]]:
    """Return the parameters of more than a thousand functions, each once."""
    call_sets = (call_set for name in CALLING for call_set in read_call_sets(name))
    tools = (tool for call_set in call_sets for tool in call_set.tools)
    known = {json.dumps(tool.parameters): tool.parameters or {} for tool in tools}
    return list(known.values())
