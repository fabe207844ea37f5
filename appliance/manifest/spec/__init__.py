"""The manifest's sections: frozen, strict, with their defaults. Loading is `load`'s."""

from appliance.manifest.spec.access import AuthKeySpec, Effort, Role
from appliance.manifest.spec.engine import EngineSpec
from appliance.manifest.spec.manifest import Manifest
from appliance.manifest.spec.memory import MemorySpec
from appliance.manifest.spec.model import ChatSpec, ModelLimitsSpec, ModelSpec, VerifySpec
from appliance.manifest.spec.server import LimitsSpec, MetricsDoorSpec, ResponsesSpec, ServerSpec
from appliance.manifest.spec.text import resolve_path

__all__ = [
    "AuthKeySpec",
    "ChatSpec",
    "Effort",
    "EngineSpec",
    "LimitsSpec",
    "Manifest",
    "MemorySpec",
    "MetricsDoorSpec",
    "ModelLimitsSpec",
    "ModelSpec",
    "ResponsesSpec",
    "Role",
    "ServerSpec",
    "VerifySpec",
    "resolve_path",
]
