"""Decide which sequences run: pure, all of it owned by the engine thread."""
