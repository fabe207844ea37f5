"""Answer `vllm-mlx schema`: the manifest's JSON Schema, for editors, or the HTTP API's document."""

from appliance.api.openapi import openapi_text
from appliance.cli.output import Exit, say
from appliance.manifest.schema import manifest_schema_text

SCHEMAS = {"manifest": manifest_schema_text, "openapi": openapi_text}


def run_schema(document: str = "manifest") -> Exit:
    """Print one of SCHEMAS."""
    say(SCHEMAS[document](), end="")
    return Exit.OK
