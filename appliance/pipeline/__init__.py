"""One request from lease to end, as a stream of events."""
