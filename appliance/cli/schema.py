"""Answer `vllm-mlx schema`: the manifest's JSON Schema, for editors."""

import sys

from appliance.manifest.schema import manifest_schema_text


def run_schema() -> int:
    """Print the schema; returns the exit code 0."""
    sys.stdout.write(manifest_schema_text())
    return 0
