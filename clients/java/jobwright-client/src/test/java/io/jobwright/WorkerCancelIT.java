package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.jobwright.Cancellation.Reason;
import java.sql.Connection;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class WorkerCancelIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private static void cancel(UUID id) throws Exception {
        try (Connection connection = DB.pool.getConnection()) {
            assertTrue(DB.jobs.cancel(connection, id));
        }
    }

    private static long unfreed(UUID id) throws Exception {
        return (long) DB.value("select count(*) from " + DB.in + "terminating_handler where job_id = ?", id);
    }

    @Test
    void a_cancelled_job_is_told_and_its_group_goes_on() throws Exception {
        UUID id = DB.send(NewJob.json("cancelled", "{}").exclusiveGroup("g"));
        UUID next = DB.send(NewJob.json("next", "{}").exclusiveGroup("g"));
        CountDownLatch begun = new CountDownLatch(1);
        AtomicReference<Reason> told = new AtomicReference<>();
        // The group would have to wait for the end of the lease, if the end of the work were not reported.
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(6)).handler("cancelled", (job, connection) -> {
            DB.write(connection, job, "x");
            begun.countDown();
            try {
                new CountDownLatch(1).await(50, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                told.set(job.cancellation().reason().orElse(null));
                throw e;
            }
        }).handler("next", (job, connection) -> {}).start()) {
            assertTrue(begun.await(30, TimeUnit.SECONDS));
            cancel(id);
            DB.awaitState(next, "gone");
        }
        assertEquals(Reason.CANCELLED, told.get());
        assertEquals(0, DB.written(id));
        assertEquals(0, unfreed(id));
    }

    @Test
    void a_handler_that_does_not_notice_cannot_commit() throws Exception {
        UUID id = DB.send("deaf");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch cancelled = new CountDownLatch(1);
        // With a lease of an hour it is not told at all: `done` is refused.
        try (JobWorker worker = DB.worker().lease(Duration.ofHours(1)).handler("deaf", (job, connection) -> {
            DB.write(connection, job, "x");
            begun.countDown();
            assertTrue(cancelled.await(30, TimeUnit.SECONDS));
            assertFalse(job.isCancelled());
        }).start()) {
            assertTrue(begun.await(30, TimeUnit.SECONDS));
            cancel(id);
            assertEquals(1, unfreed(id));
            cancelled.countDown();
            TestDatabase.await("its release", () -> unfreed(id) == 0);
        }
        assertEquals(0, DB.written(id));
        assertEquals("gone", DB.state(id));
    }

    @Test
    void an_interrupt_stays_with_the_job_that_it_was_for() throws Exception {
        UUID id = DB.send("interrupted");
        UUID next = DB.send("next");
        AtomicReference<Boolean> interrupted = new AtomicReference<>();
        try (JobWorker worker = DB.worker().concurrency(1).lease(Duration.ofSeconds(1)).handler("interrupted", (job, connection) -> {
            cancel(job.id());
            while (!Thread.currentThread().isInterrupted()) {
                Thread.onSpinWait();
            }
        }).handler("next", (job, connection) -> interrupted.set(Thread.currentThread().isInterrupted())).start()) {
            DB.awaitState(next, "gone");
        }
        assertEquals(false, interrupted.get());
        assertEquals(0, unfreed(id));
    }

    @Test
    void a_statement_that_waits_for_ever_is_cut_off() throws Exception {
        UUID id = DB.send("stuck");
        UUID after = DB.send(NewJob.json("after", "{}"));
        try (JobWorker worker = DB.worker().concurrency(1).lease(Duration.ofSeconds(1)).handler("stuck", (job, connection) -> {
            cancel(job.id());
            TestDatabase.update(connection, "select pg_sleep(300)");
        }).handler("after", (job, connection) -> {}).start()) {
            TestDatabase.await("the release", () -> DB.state(id).equals("gone") && unfreed(id) == 0);
            DB.awaitState(after, "gone");
        }
    }

    @Test
    void a_handler_that_outlives_its_lease_cannot_commit() throws Exception {
        UUID id = DB.send("outlives");
        CountDownLatch begun = new CountDownLatch(1);
        Breaker breaker = new Breaker(DB.pool);
        // Its own calls fail from some time on, and its handler's connection goes on.
        JobWorkerBuilder builder = DB.worker(breaker.dataSource()).lease(Duration.ofSeconds(1)).transactions(new JdbcTransactions(DB.pool));
        try (JobWorker cut = builder.handler("outlives", (job, connection) -> {
            DB.write(connection, job, "too late");
            begun.countDown();
            awaitInSpiteOfInterrupts(job);
        }).start()) {
            assertTrue(begun.await(30, TimeUnit.SECONDS));
            breaker.isOpen = true;
            try (JobWorker other = DB.worker().handler("outlives", (job, connection) -> {
                DB.write(connection, job, "attempt " + job.attempt());
            }).start()) {
                DB.awaitState(id, "gone");
            }
            breaker.isOpen = false;
        }
        assertEquals("attempt 2", DB.value("select string_agg(text, ',') from " + DB.in + "written where job = ?", id));
    }

    private static void awaitInSpiteOfInterrupts(Job job) throws Exception {
        while (!job.isCancelled()) {
            try {
                TestDatabase.await("the end of the lease", job::isCancelled);
            } catch (InterruptedException e) {
                // It goes on, as careless code does.
            }
        }
        assertEquals(Reason.LEASE_ENDED, job.cancellation().reason().orElseThrow());
    }
}
