"""Programs of a project of Django, each in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WORKER = ("jobwright_worker", "--poll-interval", "0.1", "--lease", "5")

SCRIPT = """
import sys
import django
django.setup()
from datetime import timedelta
from django.db import connection, transaction
from django.utils import timezone
from django_project.jobs import add, fails, in_loop, record
from django_project.models import Effect
from jobwright.django.tasks import TaskResultDoesNotExist, task_enqueued, task_finished
"""


@pytest.fixture
def run(url: str, schema: str) -> Callable[..., str]:
    """Runs Python in the project, with settings of this name; returns its output."""

    def run(code: str, *arguments: str, settings: str = "settings") -> str:
        command = [sys.executable, "-W", "error", "-c", SCRIPT + code, *arguments]
        env = environment(url, schema, settings)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def environment(url: str, schema: str, settings: str) -> dict[str, str]:
    own = {"DATABASE_URL": url, "JOBWRIGHT_TEST_SCHEMA": schema, "DJANGO_SETTINGS_MODULE": f"django_project.{settings}"}
    return {**os.environ, **own, "PYTHONPATH": str(Path(__file__).parent)}


@pytest.fixture
def manage(url: str, schema: str) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a command of manage.py."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str, settings: str = "settings") -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "django", *arguments]
        env = environment(url, schema, settings)
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=20)
