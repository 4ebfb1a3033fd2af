"""The fixture for tests of programs that send jobs."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from jobwright import Fatal, Job, Later, send
from jobwright.pytest_plugin import SentJobs


@pytest.fixture
def jobwright_schema(schema: str) -> str:
    return schema


@pytest.fixture
def jobwright_connection(url: str, schema: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
        with connection.transaction(force_rollback=True):
            yield connection


def test_sent_jobs_are_seen_and_the_rest_is_not(
    db: Connection[Any], schema: str, jobwright_connection: Connection[Any], request: pytest.FixtureRequest
) -> None:
    send(db, "old", 1, schema=schema)
    jobs: SentJobs = request.getfixturevalue("jobwright_jobs")
    send(jobwright_connection, "mail", {"to": "ada"}, schema=schema, queue="mail", tenant="acme", headers={"a": "b"})
    send(jobwright_connection, "mail", {"to": "bob"}, schema=schema, priority=5, exclusive_group="g")
    assert [one.job.payload["to"] for one in jobs.all()] == ["bob", "ada"]
    (ada,) = jobs.assert_sent("mail", {"to": "ada"}, queue="mail")
    assert (ada.job.tenant, ada.job.headers, ada.options) == ("acme", {"a": "b"}, {"tenant": "acme"})
    jobs.assert_sent("mail", count=2)
    jobs.assert_not_sent("old")
    with pytest.raises(pytest.fail.Exception, match=r"a job 'mail' with .*eve.* should have been sent; there are 0"):
        jobs.assert_sent("mail", {"to": "eve"})
    with pytest.raises(pytest.fail.Exception, match="2 jobs 'mail' were sent, and none should have been"):
        jobs.assert_not_sent("mail")


def test_run_all_runs_what_was_sent_and_what_follows(
    jobwright_connection: Connection[Any], schema: str, jobwright_jobs: SentJobs, db: Connection[Any]
) -> None:
    def first(job: Job, connection: Connection[Any]) -> None:
        job.progress(50)
        connection.execute("insert into effect values (%s, 'first')", [job.id])
        if job.payload:
            send(connection, "first", job.payload - 1, schema=schema, exclusive_group="g")

    send(jobwright_connection, "first", 2, schema=schema, exclusive_group="g")
    send(jobwright_connection, "foreign", 0, schema=schema)
    due = datetime.now(timezone.utc) + timedelta(hours=1)
    send(jobwright_connection, "first", 0, schema=schema, due_at=due)
    send(jobwright_connection, "later", 0, schema=schema)

    def later(job: Job, connection: Connection[Any]) -> None:
        raise Later(60)

    ran = jobwright_jobs.run_all({"first": first, "later": later})
    assert sorted((job.kind, job.payload) for job in ran) == [("first", 0), ("first", 1), ("first", 2), ("later", 0)]
    assert jobwright_connection.execute("select count(*) from effect").fetchone() == (3,)
    assert [(one.job.kind, one.state) for one in jobwright_jobs.all()] == [
        ("foreign", "waiting"),
        ("first", "timer"),
        ("later", "waiting"),
    ]
    assert len(jobwright_jobs.run_all({"first": first}, timers=True)) == 1
    # Nothing has left the transaction.
    assert db.execute("select count(*) from jobs").fetchone() == (0,)


def test_errors_come_out_and_their_writes_are_undone(
    jobwright_connection: Connection[Any], schema: str, jobwright_jobs: SentJobs
) -> None:
    def fails(job: Job, connection: Connection[Any]) -> Any:
        connection.execute("insert into effect values (%s, 'never')", [job.id])
        return Fatal("no such customer")

    send(jobwright_connection, "mail", 1, schema=schema)
    with pytest.raises(Fatal, match="no such customer"):
        jobwright_jobs.run_all({"mail": fails})
    jobwright_jobs.assert_sent("mail", count=1)
    assert jobwright_connection.execute("select count(*) from effect").fetchone() == (0,)


def test_jobs_that_send_each_other_end(
    jobwright_connection: Connection[Any], schema: str, jobwright_jobs: SentJobs
) -> None:
    send(jobwright_connection, "ping", 1, schema=schema)
    with pytest.raises(pytest.fail.Exception, match="5 jobs have run"):
        jobwright_jobs.run_all({"ping": lambda job, connection: send(connection, "ping", 1, schema=schema)}, most=5)
