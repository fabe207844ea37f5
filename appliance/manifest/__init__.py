"""The operator's file: its sections, how it is read, and the settings beside it."""
