#!/bin/sh
# Runs the tests of the example.
#
#   DATABASE_URL=postgres://… JOBWRIGHT_BIN=target/debug/jobwright examples/node/check.sh [ARGUMENTS OF node --test]
#
# The role of DATABASE_URL creates and drops databases (node_example_…). JOBWRIGHT_BIN is the program `jobwright`. The packages come from the
# registry of npm, in the versions of package-lock.json.
# Exit codes: 0 passed, 1 failed, 2 something is missing.
set -u

if [ -z "${DATABASE_URL:-}" ]; then
    echo "DATABASE_URL is not set: name a PostgreSQL for the tests" >&2
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
for program in node npm; do
    command -v "$program" >/dev/null || {
        echo "$program is not installed: the example needs Node 20 or newer, and npm" >&2
        exit 2
    }
done
node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' || {
    echo "Node $(node --version) is too old: the example needs 20 or newer" >&2
    exit 2
}

cd "$(dirname "$0")" || exit 1
timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error || {
    echo "npm could not install the packages of package-lock.json" >&2
    exit 1
}
timeout --kill-after=10 600 node --test --test-timeout=120000 "$@" test/*.test.js || exit 1
