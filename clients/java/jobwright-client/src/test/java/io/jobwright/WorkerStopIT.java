package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.jobwright.Cancellation.Reason;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class WorkerStopIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    @Test
    void a_stop_gives_back_what_has_not_begun_and_waits_for_what_has() throws Exception {
        Set<UUID> begun = ConcurrentHashMap.newKeySet();
        CountDownLatch one = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        List<UUID> sent = List.of(DB.send("stop"), DB.send("stop"), DB.send("stop"));
        // One connection for three handlers: two of them wait for it, and have not begun.
        try (var narrow = TestDatabase.pool("narrow", 1)) {
            JobWorker worker = DB.worker().lease(Duration.ofMinutes(5)).concurrency(3)
                    .transactions(new JdbcTransactions(narrow)).handler("stop", (job, connection) -> {
                begun.add(job.id());
                one.countDown();
                assertTrue(go.await(30, TimeUnit.SECONDS));
            }).start();
            assertTrue(one.await(30, TimeUnit.SECONDS));
            TestDatabase.await("three taken jobs", () -> (long) DB.value("select count(*) from " + DB.in + "external_job") == 3);
            AtomicReference<Boolean> ended = new AtomicReference<>();
            Thread stop = new Thread(() -> ended.set(worker.stop(Duration.ofSeconds(30))));
            stop.start();
            for (UUID id : sent) {
                if (!begun.contains(id)) {
                    DB.awaitState(id, "waiting");
                    assertEquals(0, DB.column(id, "attempt"));
                }
            }
            assertTrue(stop.isAlive(), "it waits for the one that has begun");
            go.countDown();
            stop.join(30_000);
            assertTrue(ended.get());
        }
        assertEquals(1, begun.size());
        Stream<UUID> left = sent.stream().filter(id -> !begun.contains(id));
        assertEquals(List.of("waiting", "waiting"), left.map(WorkerStopIT::stateOf).toList());
        assertEquals("gone", DB.state(begun.iterator().next()));
    }

    private static String stateOf(UUID id) {
        try {
            return DB.state(id);
        } catch (java.sql.SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void after_the_grace_a_handler_is_interrupted_and_its_job_waits_again_at_no_attempt() throws Exception {
        UUID id = DB.send("endless");
        CountDownLatch begun = new CountDownLatch(1);
        AtomicReference<Reason> told = new AtomicReference<>();
        JobWorker worker = DB.worker().handler("endless", (job, connection) -> {
            DB.write(connection, job, "x");
            begun.countDown();
            try {
                new CountDownLatch(1).await(60, TimeUnit.SECONDS);
            } finally {
                told.set(job.cancellation().reason().orElse(null));
            }
        }).start();
        assertTrue(begun.await(30, TimeUnit.SECONDS));
        assertTrue(worker.stop(Duration.ofMillis(50)));
        assertEquals(Reason.STOPPING, told.get());
        assertEquals("waiting", DB.state(id));
        assertEquals(0, DB.column(id, "attempt"));
        assertEquals(0, DB.written(id));
        assertTrue(worker.stop(Duration.ZERO), "a second stop has no effect");
    }

    @Test
    void a_handler_that_never_ends_does_not_hold_up_the_stop_and_cannot_commit() throws Exception {
        UUID id = DB.send("deaf");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        JobWorker worker = DB.worker().cancelGrace(Duration.ZERO).lease(Duration.ofSeconds(1)).handler("deaf", (job, connection) -> {
            DB.write(connection, job, "x");
            begun.countDown();
            for (boolean told = false; !told;) {
                try {
                    told = go.await(60, TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                    // It goes on, as careless code does.
                }
            }
            over.countDown();
        }).start();
        assertTrue(begun.await(30, TimeUnit.SECONDS));
        assertFalse(worker.stop(Duration.ofMillis(50)));
        // Its lease is renewed no more.
        DB.awaitState(id, "waiting");
        go.countDown();
        assertTrue(over.await(30, TimeUnit.SECONDS));
        assertEquals(0, DB.written(id));
        assertEquals("waiting", DB.state(id));
    }

    @Test
    void an_interrupted_stop_gives_back_what_runs() throws Exception {
        UUID id = DB.send("running");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        AtomicReference<Boolean> flag = new AtomicReference<>();
        JobWorker worker = DB.worker().lease(Duration.ofMinutes(5)).handler("running", (job, connection) -> {
            DB.write(connection, job, "x");
            begun.countDown();
            assertTrue(new CountDownLatch(1).await(60, TimeUnit.SECONDS));
        }).start();
        assertTrue(begun.await(30, TimeUnit.SECONDS));
        Thread stop = new Thread(() -> {
            worker.stop(Duration.ofSeconds(50));
            flag.set(Thread.currentThread().isInterrupted());
            over.countDown();
        });
        stop.start();
        stop.interrupt();
        assertTrue(over.await(30, TimeUnit.SECONDS));
        assertEquals(true, flag.get());
        DB.awaitState(id, "waiting");
        assertEquals(0, DB.column(id, "attempt"));
        assertEquals(0, DB.written(id));
    }
}
