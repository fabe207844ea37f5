"""OpenAI's Responses: items in, items out, and what is kept of them."""
