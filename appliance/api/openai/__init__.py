"""OpenAI's dialect: wire structs, codec, routes."""
