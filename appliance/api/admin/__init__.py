"""The admin API: the manifest, its history, models, requests and logs."""
