"""Describe the manifest to editors as a JSON Schema, generated from the sections."""

import json
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema

from appliance.manifest.spec.manifest import Manifest
from appliance.manifest.spec.section import LATER_MARK, NOT_YET

SCHEMA_FILE = "manifest.schema.json"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RULED = frozenset({"pattern", "enum", "const"})
_EXPANSION: dict[str, object] = {
    "type": "string",
    "pattern": r"\$\{",
    "description": "Text with ${NAME} or ${NAME:-default} from the environment; $$ is one $.",
}


class _Generation(GenerateJsonSchema):
    """Pydantic's way, without a title made from each key's name: editors show both."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Say no."""
        return False


def manifest_schema() -> dict[str, object]:
    """Return the schema of vllm-mlx.yaml: draft 2020-12.

    It accepts everything that the loader accepts. What it cannot say (names are unique and lead
    somewhere, variables are set, files exist) only the loader checks.
    """
    schema = Manifest.model_json_schema(schema_generator=_Generation)
    head: dict[str, object] = {
        "$schema": _DIALECT,
        "$id": "urn:vllm-mlx:manifest:1",
        "title": "vllm-mlx manifest",
        "description": "What the appliance serves and how.",
    }
    definitions = {name: _adapt(part) for name, part in schema.pop("$defs").items()}
    body = {name: _adapt(part) for name, part in schema.items() if name not in head}
    return head | body | {"$defs": definitions | {"Expansion": _EXPANSION}}


def manifest_schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema file into `folder`, which exists."""
    (folder / SCHEMA_FILE).write_text(manifest_schema_text(), encoding="utf-8")


def _adapt(node: object) -> object:
    """Return a part of the schema in which `${…}` may stand for a text of a certain form."""
    if isinstance(node, list):
        return [_adapt(item) for item in node]
    if not isinstance(node, dict):
        return node
    if LATER_MARK in node:
        return _adapt(_tell_later(node))
    if "$ref" in node:
        # A whole section as default says nothing that its own keys do not say.
        return {key: part for key, part in node.items() if key != "default"}
    if "anyOf" in node:
        choices = [choice for option in node["anyOf"] for choice in _with_expansion(option)]
        return node | {"anyOf": choices}
    if len(choices := _with_expansion(node)) == 1:
        return choices[0]
    outside = {key: node[key] for key in ("default", "description") if key in node}
    rule = {key: part for key, part in node.items() if key not in outside}
    return outside | {"anyOf": _with_expansion(rule)}


def _tell_later(node: dict[str, object]) -> dict[str, object]:
    rest = {key: part for key, part in node.items() if key != LATER_MARK}
    return rest | {"description": f"{node['description']} This {NOT_YET}."}


def _with_expansion(node: dict[str, object]) -> list[object]:
    if node.get("type") == "string" and _RULED.intersection(node):
        return [node, {"$ref": "#/$defs/Expansion"}]
    return [{key: _adapt(part) for key, part in node.items()}]
