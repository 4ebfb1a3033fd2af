#!/bin/sh
# Users of the broker, each with the least it needs: see "Users" in README.md. Run it where rabbitmqctl may talk to the broker.
# Passwords come from the environment, so that none is in a file:
#   EXECUTOR_PASSWORD=… PRODUCER_PASSWORD=… WORKER_PASSWORD=… OPERATOR_PASSWORD=… ./users.sh
# A user without a password in the environment is left as it is. Optional: VHOST (default /), PREFIX (default jobwright),
# WORKER_QUEUE (default external-example).
set -eu

vhost=${VHOST:-/}
prefix=${PREFIX:-jobwright}
# In a regular expression a dot means any character.
p=$(printf '%s' "$prefix" | sed 's/\./\\./g')
q=$(printf '%s' "${WORKER_QUEUE:-external-example}" | sed 's/[][\.*^$+?(){}|]/\\&/g')

# user NAME PASSWORD CONFIGURE WRITE READ
user() {
    if [ -z "$2" ]; then
        echo "$1: no password in the environment, left as it is" >&2
        return
    fi
    # Passwords on standard input are seen by nobody else. "Exists already" is fine: then the password is set.
    if ! printf '%s\n' "$2" | rabbitmqctl -q add_user "$1" 2>/dev/null; then
        printf '%s\n' "$2" | rabbitmqctl -q change_password "$1"
    fi
    rabbitmqctl -q set_permissions -p "$vhost" "$1" "$3" "$4" "$5"
    echo "$1: configure '$3' write '$4' read '$5'"
}

# Publishing to a queue by its name goes through the default exchange, whose name in permissions is amq.default.
user "$prefix-producer" "${PRODUCER_PASSWORD:-}" '^$' '^amq\.default$' '^$'
user "$prefix-worker" "${WORKER_PASSWORD:-}" '^$' '^amq\.default$' "^$p\\.x\\.$q\$"
user "$prefix-executor" "${EXECUTOR_PASSWORD:-}" \
    '^$' "^(amq\\.default|$p\\.(event|dead))\$" "^$p\\.(q\\..+|submit|reply)\$"
user "$prefix-operator" "${OPERATOR_PASSWORD:-}" "^$p\\..+\$" "^(amq\\.default|$p\\..+)\$" "^$p\\..+\$"
