"""Engines: the frames, the gateway's side, and the worker's side (the only one with MLX)."""
