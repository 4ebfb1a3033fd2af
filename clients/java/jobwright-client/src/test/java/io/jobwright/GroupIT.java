package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class GroupIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase("1h", "");

    @Test
    void jobs_of_a_group_never_overlap_on_four_threads() throws Exception {
        Map<String, AtomicInteger> running = new ConcurrentHashMap<>();
        Set<String> overlaps = ConcurrentHashMap.newKeySet();
        AtomicInteger most = new AtomicInteger();
        AtomicInteger now = new AtomicInteger();
        Set<UUID> sent = new HashSet<>();
        for (int i = 0; i < 60; i++) {
            sent.add(DB.send(NewJob.json("grouped", "{}").exclusiveGroup("g" + i % 3)));
        }
        ConcurrentLinkedQueue<UUID> done = new ConcurrentLinkedQueue<>();
        DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
        try (JobWorker worker = DB.worker().concurrency(4).handler("grouped", (job, connection) -> {
            AtomicInteger mine = running.computeIfAbsent(job.exclusiveGroup(), group -> new AtomicInteger());
            if (mine.incrementAndGet() > 1) {
                overlaps.add(job.exclusiveGroup());
            }
            most.accumulateAndGet(now.incrementAndGet(), Math::max);
            TestDatabase.update(connection, "select pg_sleep(0.01)");
            now.decrementAndGet();
            mine.decrementAndGet();
            done.add(job.id());
        }).start()) {
            TestDatabase.await("the groups", () -> (long) DB.value("select count(*) from " + DB.in + "jobs where kind = 'grouped'") == 0);
        }
        assertEquals(Set.of(), overlaps);
        assertEquals(60, done.size());
        assertEquals(sent, new HashSet<>(done));
        assertTrue(most.get() <= 3, "as many as there are groups, and not " + most);
    }

    /** Runs a group of ten with polls of an hour, so that each step but the first has to be announced or found at once. */
    private static void chain(JobWorkerBuilder builder) throws Exception {
        for (int i = 0; i < 10; i++) {
            DB.send(NewJob.json("chain", "{}").exclusiveGroup("chain"));
        }
        DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
        String count = "select count(*) from " + DB.in + "jobs where kind = 'chain'";
        TestDatabase.await("the first of the group to be admitted", () -> (long) DB.value(count + " and state = 'waiting'") == 1);
        try (JobWorker worker = builder.poll(Duration.ofHours(1)).handler("chain", (job, connection) -> {}).start()) {
            TestDatabase.await("the group", () -> (long) DB.value(count) == 0);
        }
    }

    @Test
    void the_next_of_a_group_starts_without_a_poll() throws Exception {
        chain(DB.worker());
    }

    /** Its executor admits each of them: it has to be told that one ended, and the worker looks again by itself. */
    @Test
    void where_a_rule_exists_the_next_of_a_group_starts_without_a_poll_too() throws Exception {
        DB.run("rules", "put", "kind", "other", "--running", "5");
        try {
            chain(DB.worker());
            chain(DB.worker().listen(false));
        } finally {
            DB.run("rules", "delete", "kind", "other");
        }
    }

    @Test
    void after_a_limited_job_the_next_starts_without_a_poll_if_executors_are_told() throws Exception {
        DB.run("rules", "put", "kind", "limited", "--running", "1");
        try {
            for (int i = 0; i < 6; i++) {
                DB.send("limited");
            }
            try (JobWorker worker = DB.worker().wakeAfterEnds(true).poll(Duration.ofHours(1)).handler("limited", (job, connection) -> {}).start()) {
                DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
                TestDatabase.await("the jobs", () -> (long) DB.value("select count(*) from " + DB.in + "jobs where kind = 'limited'") == 0);
            }
        } finally {
            DB.run("rules", "delete", "kind", "limited");
        }
    }

    @Test
    void after_a_cancelled_job_its_group_goes_on_without_a_poll() throws Exception {
        UUID id = DB.send(NewJob.json("cancelled", "{}").exclusiveGroup("cancelled"));
        UUID next = DB.send(NewJob.json("next", "{}").exclusiveGroup("cancelled"));
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(1)).poll(Duration.ofHours(1)).handler("cancelled", (job, connection) -> {
            try (Connection other = DB.pool.getConnection()) {
                DB.jobs.cancel(other, job.id());
            }
            new CountDownLatch(1).await(50, TimeUnit.SECONDS);
        }).handler("next", (job, connection) -> {}).start()) {
            DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
            DB.awaitState(next, "gone");
        }
        assertEquals("gone", DB.state(id));
    }
}
