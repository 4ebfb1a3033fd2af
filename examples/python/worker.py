#!/usr/bin/env python3
"""An external worker: takes jobs of one queue from the broker, does them, and reports. It needs no database.

The work is in `on_message`, which either returns a result or raises. Three things keep it correct:

* the report is confirmed by the broker before the job is acknowledged, so a crash in between means twice, not never;
* the report names the version of this hand-out, so a late one of an earlier attempt is refused, and brings its token back, so nobody else can
  report on the job;
* what takes long asks for a longer lease, or somebody else gets the job.

So a job can be done twice, and has to be made for that: see `jobId`, which stays the same.

Environment: AMQP_URL (required), JOBWRIGHT_BROKER_PREFIX (default jobwright).
Exit codes: 0 ended after COUNT jobs, or idle as long as said; 1 failed; 2 wrong usage.
"""

import argparse
import json
import os
import sys

import pika
from pika.exceptions import AMQPError


class PermanentFailure(Exception):
    """No further attempt makes sense."""


class TryLater(Exception):
    """Not now; the time is in milliseconds, or a text such as "5m"."""

    def __init__(self, why: str, after: str):
        super().__init__(why)
        self.after = after


def about(headers: dict) -> dict:
    """Which hand-out of which job, and that it was handed to us: goes back as it came."""
    return {name: headers[name] for name in ("jobId", "version", "reportToken")}


class Worker:
    def __init__(self, channel, prefix: str):
        self.channel = channel
        self.reply = prefix + ".reply"

    def on_message(self, kind: str, body: bytes, headers: dict):
        """The work: returns the result, None for none; raises if it did not succeed."""
        if kind == "fail":
            raise PermanentFailure("told to fail")
        if kind == "retry":
            raise OSError("told to try again")
        if kind == "later":
            raise TryLater("told to try later", "5m")
        if kind == "slow":
            # In this example a header says how many seconds it takes. Work longer than a lease must ask for a new one in time.
            for _ in range(int(headers.get("seconds", 1))):
                self.extend(headers)
                self.channel.connection.sleep(1)
            return None
        return {"bytes": len(body), "by": "python"}

    def handle(self, method, properties, body: bytes) -> None:
        """One job: done, reported, acknowledged."""
        headers = properties.headers
        report = about(headers)
        result = None
        try:
            result = self.on_message(headers["jobKind"], body, headers)
            report["status"] = "done"
        except AMQPError:
            # Not the job's fault: the connection is lost, and the broker delivers the job again.
            raise
        except Exception as error:  # every error is reported
            report |= {
                "status": "failed",
                "error": str(error) or repr(error),
                "detail": type(error).__name__,
                "retry": "never" if isinstance(error, PermanentFailure) else "policy",
            }
            if isinstance(error, TryLater):
                report |= {"retry": "after", "retryAfter": error.after}
        self.send(report, b"" if result is None else json.dumps(result).encode())
        self.channel.basic_ack(method.delivery_tag)
        print(report["status"], headers["jobId"], headers["jobKind"], "attempt", headers["attempt"], flush=True)

    def extend(self, headers: dict) -> None:
        """Asks to keep the job, from now on as long as its lease was. A header "lease" would say how long."""
        self.send(about(headers) | {"status": "extend"}, b"")
        print("extend", headers["jobId"], flush=True)

    def send(self, headers: dict, body: bytes) -> None:
        self.channel.basic_publish(
            exchange="",
            routing_key=self.reply,
            body=body,
            properties=pika.BasicProperties(content_type="application/json", delivery_mode=2, headers=headers),
            mandatory=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Does jobs of one queue.")
    parser.add_argument("queue")
    parser.add_argument("count", type=int, nargs="?", default=0, help="ends after so many; 0 = no end")
    parser.add_argument("idle", type=float, nargs="?", help="ends after so many seconds without a job")
    args = parser.parse_args()

    url = os.environ.get("AMQP_URL")
    if not url:
        print("AMQP_URL is not set; use for example amqp://user:password@localhost:5672/%2f", file=sys.stderr)
        return 1
    prefix = os.environ.get("JOBWRIGHT_BROKER_PREFIX", "jobwright")
    try:
        parameters = pika.URLParameters(url)
    except ValueError:
        # Without the reason: it could repeat the password.
        print("AMQP_URL is not a URL; use for example amqp://user:password@localhost:5672/%2f", file=sys.stderr)
        return 1
    # pika answers heartbeats only between two jobs: the heartbeat has to be longer than the longest job.
    parameters.heartbeat = 600
    parameters.client_properties = {"connection_name": "jobwright example worker"}
    try:
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            # Limits how many jobs this program prefetches: the lease of a job runs while it waits here.
            channel.basic_qos(prefetch_count=4)
            worker = Worker(channel, prefix)
            jobs = channel.consume(f"{prefix}.x.{args.queue}", inactivity_timeout=args.idle)
            print("ready", args.queue, flush=True)
            done = 0
            for method, properties, body in jobs:
                if method is None:
                    return 0
                worker.handle(method, properties, body)
                done += 1
                if done == args.count:
                    # Gives back the prefetched jobs.
                    channel.cancel()
                    return 0
            print("working failed: the broker ended the subscription (queue deleted?)", file=sys.stderr)
            return 1
    except (AMQPError, OSError) as error:
        print(f"working failed: {error!r}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
