#!/bin/sh
# Builds the clients for Java and runs all their tests, for a person or for CI: sh clients/java/check.sh [arguments for mvn]
# It exits with 0 if all of them passed, with 2 if something is missing that they need, and with another number if anything failed.
#
# It needs a JDK 17 or newer, Maven 3.8 or newer with access to Maven Central, and
#   DATABASE_URL   postgres://user[:password]@host[:port]/database, a PostgreSQL 13 or newer. Each class of tests makes a schema of its own
#                  there and drops it, so the role may create schemas and roles, and end its own sessions (pg_terminate_backend)
#   JOBWRIGHT_BIN  the program `jobwright` of the same revision: target/debug/jobwright after `cargo build -p jobwright-cli`
#   PGBOUNCER_BIN  the program `pgbouncer`: the one on the path or in /usr/sbin without it
#   CHECK_SECONDS  after how long everything is ended: 900 without it
set -eu

missing() {
    echo "check.sh: $1; the head of clients/java/check.sh says what the tests need" >&2
    exit 2
}

# A path that still holds in the folder of a module, where the tests run.
program() {
    found=$(PATH="$PATH:/usr/sbin" command -v "$1") || missing "there is no program $1"
    echo "$(cd "$(dirname "$found")" && pwd)/$(basename "$found")"
}

[ -n "${DATABASE_URL:-}" ] || missing "DATABASE_URL is not set"
[ -n "${JOBWRIGHT_BIN:-}" ] || missing "JOBWRIGHT_BIN is not set"
JOBWRIGHT_BIN=$(program "$JOBWRIGHT_BIN") || exit
PGBOUNCER_BIN=$(program "${PGBOUNCER_BIN:-pgbouncer}") || exit
for tool in mvn javac timeout; do
    program "$tool" > /dev/null || exit
done
export DATABASE_URL JOBWRIGHT_BIN PGBOUNCER_BIN

cd "$(dirname "$0")"
exec timeout --kill-after=10 "${CHECK_SECONDS:-900}" mvn -B -q verify "$@"
