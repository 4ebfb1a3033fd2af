package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.parallel.Isolated;

/** Alone: it measures delays. */
@Isolated
class StreamIT {
    /** With an executor that announces nothing either. */
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase("1h", "");

    private static final int JOBS = 60;

    @Test
    void jobs_that_no_one_announces_start_soon() throws Exception {
        Map<UUID, Long> sent = new ConcurrentHashMap<>();
        Map<UUID, Long> started = new ConcurrentHashMap<>();
        UUID first = DB.send("stream");
        ScheduledExecutorService sender = Executors.newSingleThreadScheduledExecutor();
        try (JobWorker worker = DB.worker().poll(Duration.ofSeconds(5)).handler("stream",
                (job, connection) -> started.put(job.id(), System.nanoTime())).start()) {
            DB.awaitState(first, "gone");
            sender.scheduleAtFixedRate(() -> send(sent), 0, 50, TimeUnit.MILLISECONDS);
            TestDatabase.await("the stream", () -> sent.size() >= JOBS);
            sender.shutdown();
            assertTrue(sender.awaitTermination(30, TimeUnit.SECONDS));
            TestDatabase.await("the last of them", () -> started.keySet().containsAll(sent.keySet()));
        } finally {
            sender.shutdownNow();
        }
        List<Long> delays = sent.keySet().stream().map(id -> Math.max(0, started.get(id) - sent.get(id)) / 1_000_000).sorted().toList();
        assertTrue(delays.get(delays.size() / 2) < 50, "the delays in ms: " + delays);
    }

    /** As any program does that knows nothing but SQL. */
    private static void send(Map<UUID, Long> sent) {
        try {
            UUID id = (UUID) DB.value("select " + DB.in + "send('stream', '{}', queue => ?)", TestDatabase.QUEUE);
            sent.put(id, System.nanoTime());
        } catch (java.sql.SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
