"""Chat Completions: wire structs, codecs, route."""
