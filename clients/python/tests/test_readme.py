"""The programs of the README, as their readers copy them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """Writes each of them to a file. The name of the file is in the line above."""
    blocks = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == README.read_text().count("```python")
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    return dict(blocks)


@pytest.fixture
def environment(url: str, schema: str, db: Connection[Any], tmp_path: Path) -> dict[str, str]:
    db.execute("create table orders (id int generated always as identity, customer text, invoiced bool default false)")
    return {
        **os.environ,
        "DATABASE_URL": url,
        "PGOPTIONS": f"-c search_path={schema}",
        "JOBWRIGHT_DATABASE_SCHEMA": schema,
        "PYTHONPATH": str(tmp_path),
    }


@pytest.fixture
def spawn(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        processes.append(subprocess.Popen([sys.executable, *arguments], env=environment, cwd=tmp_path, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(20)


@pytest.mark.parametrize("worker", ["worker.py", "async_worker.py"])
def test_an_order_is_sent_and_invoiced(
    worker: str, programs: dict[str, str], spawn: Any, db: Connection[Any], eventually: Any
) -> None:
    running = spawn(worker)
    assert spawn("orders.py").wait(20) == 0
    eventually(lambda: db.execute("select customer, invoiced from orders").fetchall() == [("ada", True)], "invoiced")
    eventually(lambda: not db.execute("select from jobs").fetchall(), "mailed")
    running.terminate()
    assert running.wait(20) == 0


def test_the_test_of_an_order_passes(programs: dict[str, str], spawn: Any, db: Connection[Any]) -> None:
    assert spawn("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py").wait(60) == 0
    assert db.execute("select count(*) from jobs").fetchone() == (0,)
    assert db.execute("select count(*) from orders").fetchone() == (0,)


def test_the_settings_of_django_are_accepted(programs: dict[str, str], spawn: Any, tmp_path: Path) -> None:
    pytest.importorskip("django")
    code = """
from django.conf import settings
import settings as readme
settings.configure(INSTALLED_APPS=readme.INSTALLED_APPS, TASKS=readme.TASKS, SECRET_KEY="for tests only")
import django
django.setup()
from jobwright.django.tasks import task_backends
from django.core.management import load_command_class
assert task_backends["default"].jobwright.retry == "fixed(30s)"
load_command_class("jobwright.django", "jobwright_worker")
"""
    assert spawn("-c", code).wait(30) == 0
