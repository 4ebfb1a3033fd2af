#!/bin/sh
# A night on call, with commands alone: find what fails, read why, stop it, fix it, let it run again, watch it drain.
#
#   examples/ops/night.sh                                  on an embedded database; needs no server
#   DATABASE_URL=postgres://… examples/ops/night.sh        on PostgreSQL, in a separate schema
#
# JOBWRIGHT names the program, if it is not on the PATH. Every step is checked: the script exits with 1 at the first result that
# differs. `cargo xtask test` runs it.
set -eu

program=${JOBWRIGHT:-jobwright}
case $program in
    /*) ;;
    */*) program=$PWD/$program ;;
esac
place=$(mktemp -d)
cd "$place"
worker=

# The caller's settings must not change what the script shows.
unset AMQP_URL JOBWRIGHT_BROKER_URL JOBWRIGHT_EXECUTOR_LEASE
DATABASE_URL=${DATABASE_URL:-sqlite:night.db}
JOBWRIGHT_DATABASE_SCHEMA=night_$$
export DATABASE_URL JOBWRIGHT_DATABASE_SCHEMA

end() {
    code=$?
    trap - EXIT INT TERM
    [ -z "$worker" ] || kill "$worker" 2>/dev/null || true
    [ -z "$worker" ] || wait "$worker" 2>/dev/null || true
    if [ "$code" -ne 0 ] && [ -s worker.log ]; then
        echo "--- the worker said:"
        tail -n 20 worker.log
    fi
    case $DATABASE_URL in
        postgres*)
            if command -v psql >/dev/null; then
                psql -q "$DATABASE_URL" -c "set client_min_messages = error" \
                    -c "drop schema if exists $JOBWRIGHT_DATABASE_SCHEMA cascade" >/dev/null || true
            else
                echo "the schema $JOBWRIGHT_DATABASE_SCHEMA stays: there is no psql to drop it with"
            fi
            ;;
    esac
    cd / && rm -rf "$place"
    exit "$code"
}
trap end EXIT
trap 'exit 1' INT TERM

step() { printf '\n== %s\n' "$*"; }

fail() {
    printf 'NOT AS EXPECTED: %s\n' "$*" >&2
    exit 1
}

# Shows a command and its output, and keeps the output in the file `said`.
run() {
    printf '$ jobwright %s\n' "$*"
    "$program" "$@" >said || fail "jobwright $* ended with $?"
    cat said
}

# Checks that the last output contains this.
says() { grep -qF -- "$1" said || fail "there is no \"$1\" in it"; }

# Counts the jobs that match a filter. The first line is the header.
jobs() { "$program" jobs list --limit 10000 "$@" | tail -n +2 | grep -c . || true; }

# Waits until there are this many jobs.
until_there_are() {
    wanted=$1
    shift
    tries=0
    while found=$(jobs "$@") && [ "$found" -ne "$wanted" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 120 ] || fail "still $found jobs, not $wanted: jobs list $*"
        sleep 1
    done
}

# --- In production: invoices that ask another service for prices, mails, and an import with bad rows.
cat >jobwright.toml <<'TOML'
[executor]
poll_interval = "200ms"
[queues.default]
concurrency = 2
[queues.billing]
concurrency = 2
retry = "fixed(100ms)"
[handlers.invoice]
command = ["sh", "-c", "test -e prices || { echo 'prices.example:443: connection refused' >&2; exit 1; }"]
[handlers.mail]
command = ["true"]
[handlers.import]
command = ["sh", "-c", "echo \"row $(cat) has no number\" >&2; exit 65"]
[history]
keep = "all"
TOML
"$program" --quiet migrate >/dev/null
"$program" --quiet worker >worker.out 2>worker.log &
worker=$!
seq 1 30 | "$program" --quiet send invoice --lines --queue billing --max-attempts 2
seq 1 3 | "$program" --quiet send import --lines
"$program" --quiet send mail >/dev/null
until_there_are 33 --state dead
until_there_are 33

step "The telephone rings: customers get no invoices. What fails?"
run status
says billing
run jobs errors --since 1d
says "connection refused"
says "has no number"
[ "$(sed -n 2p said | awk '{print $1, $2}')" = "30 invoice" ] || fail "the invoices are not the most frequent"
run jobs list --state dead --kind invoice --limit 3
[ "$(jobs --state dead --kind invoice)" -eq 30 ] || fail "not all invoices are listed"

step "Why? One of them in full, with the error of each attempt."
example=$(sed -n 2p said | awk '{print $2}')
run jobs show "$example"
says "2 of 2"
says "prices.example:443: connection refused"

step "Stop it: while the other side is down, each invoice that is tried is one more dead letter. All other work goes on."
run queues pause billing
run send invoice --queue billing
late=$(cat said)
run send mail
until_there_are 0 --kind mail
[ "$(jobs --id "$late")" -eq 1 ] || fail "the invoice that was sent during the pause is gone"
[ "$(jobs --state dead --id "$late")" -eq 0 ] || fail "it was tried during the pause"

step "Fix it. (The other side is up again.)"
touch prices

step "Run five again, to see whether it is mended. What would that be? Count first, then do it."
run jobs retry --state dead --kind invoice --error "connection refused" --limit 5 --dry-run
says "5 jobs would be retried (5 dead)"
[ "$(jobs --state dead --kind invoice)" -eq 30 ] || fail "a dry run changed something"
run jobs retry --state dead --kind invoice --error "connection refused" --limit 5
says "5 jobs retried (5 dead before)"
run queues resume billing
until_there_are 25 --queue billing
[ "$(jobs --state dead --kind invoice)" -eq 25 ] || fail "the five died again"
run jobs history --kind invoice --outcome done
[ "$(tail -n +2 said | grep -c .)" -eq 6 ] || fail "the five and the late one are not all done"

step "It is. All the others, but not all at once: the other side has just come up."
run jobs retry --state dead --kind invoice --error "connection refused" --spread 5s --dry-run
says "25 jobs would be retried (25 dead)"
run jobs retry --state dead --kind invoice --error "connection refused" --spread 5s
says "25 jobs retried (25 dead before)"

step "Watch it drain."
tries=0
while [ "$(jobs --queue billing)" -ne 0 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || fail "it does not drain"
    run status
    sleep 1
done
[ "$(jobs --state dead --kind invoice)" -eq 0 ] || fail "some died again"

step "What is left can't be mended here: whoever sent the import gets the list, and the rows are sent anew another day."
run jobs errors
says "has no number"
run jobs delete --state dead --kind import --dry-run
says "3 jobs would be deleted"
run jobs delete --state dead --kind import
says "3 jobs deleted"
[ "$(jobs)" -eq 0 ] || fail "something is left"

step "For the report in the morning: what was done to whom."
run jobs history --kind invoice --outcome dead --limit 3
[ "$("$program" jobs history --kind invoice --outcome dead --limit 1000 | tail -n +2 | grep -c .)" -eq 30 ] ||
    fail "not all that died are in the history"
run audit list
for action in rule retry delete; do says "$action"; done

step "Everything was as expected."
