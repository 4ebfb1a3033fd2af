#!/bin/sh
# Measures the worker beside Flowable's own executor, in turns:
#
#   sh examples/flowable/bench.sh [pairs of each measurement: 3] [drain,fan,latency,recovery] [instances to drain: 8000]
#
# It needs what check.sh needs, a release build as JOBWRIGHT_BIN, and a quiet machine. BENCH_SECONDS is after how long everything is ended: 1800
# without it.
set -eu

for name in DATABASE_URL JOBWRIGHT_BIN; do
    eval "value=\${$name:-}"
    if [ -z "$value" ]; then
        echo "bench.sh: $name is not set; the head of examples/flowable/check.sh explains it" >&2
        exit 2
    fi
done

cd "$(dirname "$0")"
mvn -B -q test-compile dependency:build-classpath -Dmdep.outputFile=target/classpath -Dmdep.includeScope=test
exec timeout --kill-after=10 "${BENCH_SECONDS:-1800}" java -Xmx1g -cp "target/test-classes:target/classes:$(cat target/classpath)" \
    io.jobwright.examples.flowable.Bench "${1:-3}" "${2:-drain,fan,latency,recovery}" "${3:-8000}"
