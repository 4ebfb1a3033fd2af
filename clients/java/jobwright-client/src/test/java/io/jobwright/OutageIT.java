package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.parallel.Isolated;

/** Alone: it reads the log of all workers. */
@Isolated
class OutageIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private final Logger log = Logger.getLogger("io.jobwright.worker");
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord line) {
            if (line.getLevel().intValue() >= Level.INFO.intValue()) {
                lines.add(new SimpleFormatter().formatMessage(line));
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        log.addHandler(handler);
    }

    @AfterEach
    void leave() {
        log.removeHandler(handler);
    }

    @Test
    void connections_that_were_ended_are_opened_again() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        AtomicInteger attempts = new AtomicInteger();
        UUID interrupted = DB.send(NewJob.json("interrupted", "{}").retry("fixed(10ms)"));
        try (var pool = TestDatabase.pool("mortal", 10);
                JobWorker worker = DB.worker(pool).handler("interrupted", (job, connection) -> {
                    DB.write(connection, job, "attempt " + job.attempt());
                    if (attempts.incrementAndGet() == 1) {
                        begun.countDown();
                        assertTrue(go.await(30, TimeUnit.SECONDS));
                    }
                }).handler("after", (job, connection) -> {}).start()) {
            assertTrue(begun.await(30, TimeUnit.SECONDS));
            TestDatabase.await("its connections", () -> (long) DB.value("select count(*) from pg_stat_activity where application_name = 'mortal'") >= 3);
            assertTrue(DB.terminate("mortal") >= 3);
            go.countDown();
            DB.awaitState(interrupted, "gone");
            DB.awaitState(DB.send("after"), "gone");
        }
        assertEquals("attempt 2", DB.value("select string_agg(text, ',') from " + DB.in + "written where job = ?", interrupted));
    }

    @Test
    void an_outage_is_one_line_and_its_end_another() throws Exception {
        Breaker breaker = new Breaker(DB.pool);
        breaker.isOpen = true;
        UUID id = DB.send("waits");
        // It starts without a database.
        try (JobWorker worker = DB.worker(breaker.dataSource()).name("patient").listen(false).handler("waits", (job, connection) -> {}).start()) {
            TestDatabase.await("a line", () -> !lines.isEmpty());
            long tries = breaker.refused();
            TestDatabase.await("more tries", () -> breaker.refused() >= tries + 3);
            breaker.isOpen = false;
            DB.awaitState(id, "gone");
            TestDatabase.await("a second line", () -> lines.size() > 1);
        }
        assertEquals(2, lines.size(), lines::toString);
        assertEquals("patient: take failed, trying again until it works: the network is cut (SQLSTATE 08006)", lines.get(0));
        assertTrue(lines.get(1).startsWith("patient: the database answers again, after "), lines.get(1));
    }

    @Test
    void no_log_shows_a_token_or_a_content() throws Exception {
        UUID id = DB.send(NewJob.json("secret", "{\"password\": \"hunter2\"}").maxAttempts(1));
        String[] token = new String[1];
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(5)).handler("secret", (job, connection) -> {
            token[0] = job.token().toString();
            throw new IllegalStateException(job + " " + job.handout() + " " + NewJob.json("x", job.payload()));
        }).start()) {
            DB.awaitState(id, "dead");
        }
        String all = lines + " " + DB.column(id, "errors");
        assertTrue(all.contains("secret, attempt 1 of 1"), all);
        assertFalse(all.contains(token[0]) || all.contains("hunter2"), all);
    }
}
