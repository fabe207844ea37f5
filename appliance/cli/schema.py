"""Answer `vllm-mlx schema`: the manifest's JSON Schema, for editors."""

from appliance.cli.output import Exit, say
from appliance.manifest.schema import manifest_schema_text


def run_schema() -> Exit:
    """Print the schema."""
    say(manifest_schema_text(), end="")
    return Exit.OK
