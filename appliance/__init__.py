"""A managed LAN inference appliance: one manifest, many MLX models, one HTTP service."""

__version__ = "0.1.0"
