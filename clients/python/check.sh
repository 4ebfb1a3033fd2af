#!/bin/sh
# Checks clients/python: linter, types, and the tests on a real PostgreSQL, with the newest and the oldest supported packages.
#
#   DATABASE_URL=postgres://… JOBWRIGHT_BIN=target/debug/jobwright clients/python/check.sh [ARGUMENTS OF PYTEST]
#
# The role of DATABASE_URL creates and drops schemas and roles (py_…), and ends its own connections. JOBWRIGHT_BIN is the program `jobwright`.
# Environments are made below target/clients/python with packages from the index of pip, pinned in requirements/. Python 3.12 or
# newer runs `newest` (Django 6), 3.10 to 3.12 `oldest` (Django 5.2). A set without a Python here is left out, and named.
# PYTHON_NEWEST and PYTHON_OLDEST name others. Each step has a deadline.
# Exit codes: 0 passed, 1 failed, 2 something is missing.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
environments=$here/../../target/clients/python

if [ -z "${DATABASE_URL:-}" ]; then
    echo "DATABASE_URL is not set: name a database of PostgreSQL for the tests" >&2
    exit 2
fi
if [ ! -x "${JOBWRIGHT_BIN:-}" ]; then
    echo "JOBWRIGHT_BIN does not name a program: build one by 'cargo build -p jobwright-cli', and name it" >&2
    exit 2
fi
case $JOBWRIGHT_BIN in
/*) ;;
*) JOBWRIGHT_BIN=$(pwd)/$JOBWRIGHT_BIN ;;
esac
export DATABASE_URL JOBWRIGHT_BIN

# Prints the first Python of these whose version is in a range. A name may be there and not work (shims of pyenv).
find_python() {
    range=$1
    shift
    for name in "$@"; do
        if "$name" -c "import sys, venv, ensurepip; sys.exit(not ($range))" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
}

# Makes an environment, unless it is there with the same packages, and installs the package as users get it.
prepare() {
    environment=$environments/$1
    wanted=$("$2" -c 'import sys; print(sys.version)' && cat "$here/requirements/$1.txt")
    if [ "$(cat "$environment/made-from" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$environment"
        timeout 120 "$2" -m venv "$environment" || return 1
        timeout 600 "$environment/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements/$1.txt" || return 1
        printf '%s\n' "$wanted" >"$environment/made-from"
    fi
    timeout 300 "$environment/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation \
        --force-reinstall "$here"
}

# Names a step that fails, and remembers it.
failed=0
step() {
    name=$1
    shift
    echo "== $name"
    "$@" || {
        echo "$name failed" >&2
        failed=1
    }
}

pyenv=$(command -v pyenv >/dev/null 2>&1 && ls -d "$(pyenv root)"/versions/*/bin/python 2>/dev/null)
newest=$(find_python '(3, 12) <= sys.version_info' ${PYTHON_NEWEST:-python3.14 python3.13 python3.12 python3 $pyenv})
oldest=$(find_python '(3, 10) <= sys.version_info < (3, 13)' ${PYTHON_OLDEST:-python3.10 python3.11 python3.12 python3 $pyenv})
cd "$here" || exit 1

if [ -z "$newest$oldest" ]; then
    echo "there is no Python here from 3.10 on with the modules venv and ensurepip (Debian: python3-venv)" >&2
    exit 2
fi
for set in newest oldest; do
    eval "python=\$$set"
    if [ -z "$python" ]; then
        echo "== $set: left out, because there is no Python for it"
        continue
    fi
    step "$set: packages, for $("$python" --version) ($python)" prepare "$set" "$python"
    [ -x "$environments/$set/bin/pytest" ] || continue
    if [ "$set" = newest ]; then
        step "newest: ruff" timeout 60 "$environments/newest/bin/ruff" check .
        step "newest: format" timeout 60 "$environments/newest/bin/ruff" format --check .
        step "newest: mypy" timeout 300 "$environments/newest/bin/mypy"
    fi
    # They mostly wait, and each has a schema of its own: four at once.
    step "$set: tests" timeout 900 "$environments/$set/bin/pytest" -q -p no:cacheprovider -n 4 --dist worksteal "$@"
done
exit $failed
