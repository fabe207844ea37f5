"""HTTP: dialects, authentication, the error table, server-sent events, listeners."""
