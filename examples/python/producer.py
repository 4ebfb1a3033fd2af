#!/usr/bin/env python3
"""Submits jobs to jobwright, from a program that knows nothing of it but the queue and a few properties.

Each job has an id that the program chose, so it may be run again after any failure: what was taken in before is not taken
in twice. The program succeeds only if the broker confirmed every message.

Environment: AMQP_URL (required), JOBWRIGHT_BROKER_PREFIX (default jobwright).
Exit codes: 0 all submitted, 1 failed, 2 wrong usage.
"""

import argparse
import json
import os
import sys
import time

import pika
from pika.exceptions import AMQPError, NackError, UnroutableError


def main() -> int:
    parser = argparse.ArgumentParser(description="Submits jobs.")
    parser.add_argument("kind")
    parser.add_argument("count", type=int)
    parser.add_argument("ids", nargs="?", default=f"python-{int(time.time() * 1000)}", help="what their ids begin with")
    parser.add_argument("queue", nargs="?", default="default")
    args = parser.parse_args()

    url = os.environ.get("AMQP_URL")
    if not url:
        print("AMQP_URL is not set; use for example amqp://user:password@localhost:5672/%2f", file=sys.stderr)
        return 1
    submit = os.environ.get("JOBWRIGHT_BROKER_PREFIX", "jobwright") + ".submit"
    try:
        parameters = pika.URLParameters(url)
    except ValueError:
        # Without the reason: it could repeat the password.
        print("AMQP_URL is not a URL; use for example amqp://user:password@localhost:5672/%2f", file=sys.stderr)
        return 1
    parameters.heartbeat = 10
    parameters.blocked_connection_timeout = 30
    parameters.client_properties = {"connection_name": "jobwright example producer"}
    try:
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            # From here on, basic_publish waits for the broker's confirm, and raises if the broker refuses.
            channel.confirm_delivery()
            for n in range(1, args.count + 1):
                job = f"{args.ids}-{n}"
                channel.basic_publish(
                    exchange="",
                    routing_key=submit,
                    body=json.dumps({"n": n, "text": "Grüezi aus Python"}, ensure_ascii=False).encode(),
                    properties=pika.BasicProperties(
                        message_id=job,
                        type=args.kind,
                        content_type="application/json",
                        delivery_mode=2,
                        headers={"queue": args.queue, "maxAttempts": 5, "sender": "python"},
                    ),
                    # Without a queue the message is returned, instead of being confirmed and lost.
                    mandatory=True,
                )
                print("submitted", job)
            print("confirmed", args.count)
    except UnroutableError:
        print(f"submitting failed: there is no queue {submit}", file=sys.stderr)
        return 1
    except NackError:
        print(f"submitting failed: the broker refused (queue {submit} is full?); run this again with the same ids", file=sys.stderr)
        return 1
    except (AMQPError, OSError) as error:
        print(f"submitting failed: {error!r}; run this again with the same ids", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
