"""Conversations: requests, events, templates, tokens and the process that renders them."""
