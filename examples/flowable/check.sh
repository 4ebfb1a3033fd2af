#!/bin/sh
# Builds the example and runs its tests: sh examples/flowable/check.sh [arguments for mvn]
#
# It needs a JDK 17 or newer, Maven 3.8 or newer with access to Maven Central, and
#   DATABASE_URL   postgres://user[:password]@host[:port]/database, a PostgreSQL 13 or newer, whose role may create databases. Each class of
#                  tests makes one of its own there and drops it
#   JOBWRIGHT_BIN  the program `jobwright` of the same revision: target/debug/jobwright after `cargo build -p jobwright-cli`
#   CHECK_SECONDS  after how long everything is ended: 1500 without it
set -eu

for name in DATABASE_URL JOBWRIGHT_BIN; do
    eval "value=\${$name:-}"
    if [ -z "$value" ]; then
        echo "check.sh: $name is not set; the head of examples/flowable/check.sh explains it" >&2
        exit 2
    fi
done
case $JOBWRIGHT_BIN in
    */*) JOBWRIGHT_BIN=$(cd "$(dirname "$JOBWRIGHT_BIN")" && pwd)/$(basename "$JOBWRIGHT_BIN") ;;
esac
export DATABASE_URL JOBWRIGHT_BIN

cd "$(dirname "$0")"
exec timeout --kill-after=10 "${CHECK_SECONDS:-1500}" mvn -B -q verify "$@"
