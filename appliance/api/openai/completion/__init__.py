"""Completions: wire structs, codecs, route."""
