# Sourced by ops/up and ops/test: sets `root` and defines `prepare`. Works in any POSIX shell.

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)

# Print the first Python that is new enough; the environment's own comes first because it is fast.
find_python() {
    for candidate in "$root/.venv/bin/python" ${PYTHON:+"$PYTHON"} \
        python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    echo "$0: Python 3.11 or newer is missing; install it, or name it: PYTHON=/path/to/python3" >&2
    return 1
}

# Bring .venv up to date with the base lock file and the sets named.
prepare() {
    python=$(find_python) || exit 1
    "$python" "$root/ops/prepare.py" "$@" || exit
}
