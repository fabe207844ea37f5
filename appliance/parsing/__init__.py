"""Text to events. Pure."""
