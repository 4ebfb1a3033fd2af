package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
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

    /** With polls of an hour: at each step the executor has to be told that a job ended, and the worker that the next one is free. */
    @Test
    void the_next_of_a_group_starts_without_a_poll() throws Exception {
        for (int i = 0; i < 10; i++) {
            DB.send(NewJob.json("chain", "{}").exclusiveGroup("chain"));
        }
        try (JobWorker worker = DB.worker().poll(Duration.ofHours(1)).handler("chain", (job, connection) -> {}).start()) {
            DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
            TestDatabase.await("the group", () -> (long) DB.value("select count(*) from " + DB.in + "jobs where kind = 'chain'") == 0);
        }
    }
}
