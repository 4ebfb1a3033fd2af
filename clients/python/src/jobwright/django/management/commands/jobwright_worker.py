"""`manage.py jobwright_worker`: runs tasks until SIGTERM or SIGINT."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobwright.django.backend import Backend
from jobwright.django.tasks import task_backends
from jobwright.django.worker import worker


class Command(BaseCommand):
    help = "Runs the tasks of a jobwright backend, each in one transaction with its end."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="the alias in TASKS (default)")
        parser.add_argument(
            "--queue", action="append", help="serves this queue only; repeatable, the first is preferred"
        )
        parser.add_argument(
            "--concurrency", type=int, default=4, help="tasks that run at the same time, in threads (4)"
        )
        parser.add_argument(
            "--lease", type=float, default=60.0, help="seconds until others take the tasks of a dead worker (60)"
        )
        parser.add_argument(
            "--poll-interval", type=float, default=5.0, help="seconds between two looks, besides hints (5)"
        )
        parser.add_argument("--grace", type=float, default=30.0, help="seconds that a stop waits for tasks (30)")
        parser.add_argument("--name", help="the name under which `jobwright status` shows it (host:pid)")
        parser.add_argument("--no-listen", action="store_true", help="polls only: behind PgBouncer in transaction mode")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, Backend):
            raise CommandError(f"TASKS[{options['backend']!r}] is not jobwright.django.Backend")
        try:
            made = worker(
                backend,
                options["queue"] or (),
                concurrency=options["concurrency"],
                lease=options["lease"],
                poll_interval=options["poll_interval"],
                name=options["name"],
                listen=not options["no_listen"],
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"worker {made.name} runs tasks")
        if not made.run(options["grace"]):
            raise CommandError("tasks were left that did not end")
