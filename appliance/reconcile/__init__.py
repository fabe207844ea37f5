"""Bring what runs to what the manifest says: plan, act, verify, remember."""
