"""Models in memory and where their files come from."""
