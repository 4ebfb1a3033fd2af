package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class WorkerIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    @Test
    void work_messages_and_the_end_of_the_job_are_one_commit() throws Exception {
        AtomicInteger seenBefore = new AtomicInteger();
        UUID follower = UUID.randomUUID();
        UUID id = DB.send("commit");
        try (JobWorker worker = DB.worker().handler("commit", (job, connection) -> {
            DB.write(connection, job, "work");
            DB.jobs.send(connection, NewJob.json("follower", "{}").id(follower));
            seenBefore.addAndGet((int) DB.written(job.id()) + (DB.state(follower).equals("gone") ? 0 : 1));
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(0, seenBefore.get(), "another session saw nothing before the commit");
        assertEquals(1, DB.written(id));
        assertEquals("waiting", DB.state(follower));
    }

    @Test
    void a_failure_rolls_everything_back_and_costs_an_attempt() throws Exception {
        UUID lost = UUID.randomUUID();
        UUID id = DB.send(NewJob.json("fails-once", "{}").retry("fixed(10ms)"));
        Map<Integer, String> errors = new ConcurrentHashMap<>();
        try (JobWorker worker = DB.worker().handler("fails-once", (job, connection) -> {
            errors.put(job.attempt(), String.valueOf(job.lastError()));
            DB.write(connection, job, "attempt " + job.attempt());
            if (job.attempt() == 1) {
                DB.jobs.send(connection, NewJob.json("lost", "{}").id(lost));
                throw new IllegalStateException("the printer burns");
            }
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(Map.of(1, "null", 2, "IllegalStateException: the printer burns"), errors);
        assertEquals(List.of("attempt 2"), DB.values("select text from " + DB.in + "written where job = ?", id));
        assertEquals("gone", DB.state(lost));
    }

    @Test
    void a_swallowed_sql_error_is_a_failure_and_not_a_silent_rollback() throws Exception {
        UUID id = DB.send(NewJob.json("swallows", "{}").maxAttempts(1));
        try (JobWorker worker = DB.worker().handler("swallows", (job, connection) -> {
            DB.write(connection, job, "x");
            try {
                TestDatabase.update(connection, "select 1/0");
            } catch (SQLException e) {
                // As careless code does.
            }
        }).start()) {
            DB.awaitState(id, "dead");
        }
        assertEquals(0, DB.written(id));
    }

    @Test
    void exceptions_say_later_or_never() throws Exception {
        UUID later = DB.send("later");
        UUID fatal = DB.send("fatal");
        try (JobWorker worker = DB.worker().handler("later", (job, connection) -> {
            DB.write(connection, job, "x");
            throw new LaterException(Duration.ofHours(1));
        }).handler("fatal", (job, connection) -> {
            throw new FatalException("no such order");
        }).start()) {
            DB.awaitState(later, "timer");
            DB.awaitState(fatal, "dead");
        }
        assertEquals(0, DB.column(later, "attempt"));
        assertEquals(0, DB.written(later));
        assertEquals("FatalException: no such order", DB.column(fatal, "reason"));
    }

    @Test
    void a_result_is_kept_and_other_kinds_are_left_alone() throws Exception {
        UUID other = DB.send("unknown-kind");
        UUID id = DB.send("adds");
        try (JobWorker worker = DB.worker().resultHandler("adds", Duration.ofDays(1), (job, connection) -> "{\"sum\": 3}").start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals("{\"sum\": 3}", DB.value("select payload::text from " + DB.in + "result where job_id = ?", id));
        assertEquals("waiting", DB.state(other));
    }

    @Test
    void a_handler_cannot_end_the_transaction() throws Exception {
        UUID id = DB.send("commits");
        Set<String> refused = ConcurrentHashMap.newKeySet();
        try (JobWorker worker = DB.worker().handler("commits", (job, connection) -> {
            connection.setSavepoint();
            DB.write(connection, job, "x");
            refused.add(refusal(connection::commit));
            refused.add(refusal(connection::rollback));
            refused.add(refusal(() -> connection.setAutoCommit(true)));
            connection.close();
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(Set.of("25000"), refused);
        assertEquals(1, DB.written(id));
    }

    @Test
    void what_a_savepoint_takes_back_is_not_in_the_commit() throws Exception {
        UUID id = DB.send("saves");
        try (JobWorker worker = DB.worker().handler("saves", (job, connection) -> {
            DB.write(connection, job, "before");
            Savepoint savepoint = connection.setSavepoint();
            DB.write(connection, job, "taken back");
            assertThrows(SQLException.class, () -> TestDatabase.update(connection, "select 1/0"));
            connection.rollback(savepoint);
            connection.releaseSavepoint(connection.setSavepoint());
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(List.of("before"), DB.values("select text from " + DB.in + "written where job = ?", id));
    }

    private interface Refused {
        void run() throws SQLException;
    }

    private static String refusal(Refused call) {
        try {
            call.run();
            return "none";
        } catch (SQLException e) {
            return e.getSQLState();
        }
    }

    @Test
    void leases_are_renewed_while_a_handler_runs_for_longer() throws Exception {
        UUID id = DB.send("long");
        long began = System.nanoTime();
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(1)).handler("long", (job, connection) -> {
            DB.start(job, "long");
            // Until the lease was renewed to an end that is three leases after its first one.
            TestDatabase.await("the renewal", () -> (boolean) DB.value(
                    "select lease_until > ?::timestamptz from " + DB.in + "external_job where id = ?",
                    job.leaseUntil().plusSeconds(3).toString(), job.id()));
            DB.write(connection, job, "x");
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertTrue(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(2));
        assertEquals(1, DB.written(id));
        assertEquals(List.of(1), DB.values("select attempt from " + DB.in + "starts where id = ?", id));
    }

    /** With a poll of an hour, and deaf to notifications. */
    @Test
    void after_an_outcome_the_worker_looks_again_at_once() throws Exception {
        UUID follower = UUID.randomUUID();
        DB.send("first");
        try (JobWorker worker = DB.worker().poll(Duration.ofHours(1)).listen(false).concurrency(2)
                .handler("first", (job, connection) -> DB.jobs.send(connection, NewJob.json("second", "{}").id(follower).queue(TestDatabase.QUEUE)))
                .handler("second", (job, connection) -> DB.write(connection, job, "x")).start()) {
            TestDatabase.await("the message to be handled", () -> DB.written(follower) == 1);
        }
    }

    @Test
    void no_more_jobs_are_taken_than_there_are_free_places() throws Exception {
        for (int i = 0; i < 10; i++) {
            DB.send("few");
        }
        CountDownLatch two = new CountDownLatch(2);
        CountDownLatch go = new CountDownLatch(1);
        try (JobWorker worker = DB.worker().concurrency(2).handler("few", (job, connection) -> {
            two.countDown();
            assertTrue(go.await(30, TimeUnit.SECONDS));
        }).start()) {
            assertTrue(two.await(30, TimeUnit.SECONDS));
            assertEquals(2L, DB.value("select count(*) from " + DB.in + "jobs where kind = 'few' and state = 'external'"));
            go.countDown();
            TestDatabase.await("the jobs", () -> (long) DB.value("select count(*) from " + DB.in + "jobs where kind = 'few'") == 0);
        }
    }

    @Test
    void a_notification_is_enough() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        try (JobWorker worker = DB.worker().name("listener").poll(Duration.ofHours(1))
                .handler("heard", (job, connection) -> ran.countDown()).start()) {
            // It has looked once when it began, and once when it listened.
            TestDatabase.await("the worker to listen", () -> (long) DB.value(
                    "select count(*) from pg_stat_activity where query = ?", "listen \"" + DB.schema + "_wake\"") == 1);
            TestDatabase.await("the first looks", () -> (long) DB.value(
                    "select count(*) from " + DB.in + "worker where name = 'listener'") == 1);
            DB.send("heard");
            TestDatabase.await("the job to run", () -> {
                DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
                return ran.await(100, TimeUnit.MILLISECONDS);
            });
        }
    }
}
