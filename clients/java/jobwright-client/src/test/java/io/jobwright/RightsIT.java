package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.postgresql.ds.PGSimpleDataSource;

/** A worker whose role has the rights of a worker and a sender, and no others. */
class RightsIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private static final String ROLE = DB.schema.toLowerCase(java.util.Locale.ROOT) + "_worker";
    private static HikariDataSource pool;

    @BeforeAll
    static void grant() throws Exception {
        DB.update("create role " + ROLE);
        DB.update("grant " + ROLE + " to current_user");
        DB.run("grants", "worker", ROLE, "--queue", TestDatabase.QUEUE, "--apply");
        DB.run("grants", "sender", ROLE, "--apply");
        DB.update("grant insert on " + DB.in + "written to " + ROLE);
        PGSimpleDataSource source = TestDatabase.driver("rights");
        // As if it had logged in, without a password that this test would have to know.
        source.setOptions("-c role=" + ROLE);
        pool = TestDatabase.pool(source, 10);
    }

    @AfterAll
    static void drop() throws Exception {
        pool.close();
        DB.update("delete from " + DB.in + "worker_queue");
        DB.update("drop owned by " + ROLE);
        DB.update("drop role " + ROLE);
    }

    @Test
    void a_worker_needs_no_more_than_was_granted() throws Exception {
        UUID good = DB.send(NewJob.json("good", "{}").exclusiveGroup("g"));
        UUID second = DB.send(NewJob.json("good", "{}").exclusiveGroup("g"));
        UUID bad = DB.send(NewJob.json("bad", "{}").maxAttempts(1));
        UUID later = DB.send("later");
        UUID cancelled = DB.send("cancelled");
        UUID endless = DB.send("endless");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        JobWorker worker = DB.worker(pool).concurrency(4).lease(Duration.ofSeconds(1)).handler("good", (job, connection) -> {
            assertEquals(ROLE, role(connection));
            DB.write(connection, job, "x");
            DB.jobs.send(connection, NewJob.json("message", "{}"));
        }).handler("bad", (job, connection) -> {
            throw new IllegalStateException("no");
        }).handler("later", (job, connection) -> {
            throw new LaterException(Duration.ofHours(1));
        }).handler("cancelled", (job, connection) -> {
            try (Connection owner = DB.pool.getConnection()) {
                DB.jobs.cancel(owner, job.id());
            }
            assertTrue(never.await(50, TimeUnit.SECONDS));
        }).handler("endless", (job, connection) -> {
            begun.countDown();
            assertTrue(never.await(50, TimeUnit.SECONDS));
        }).start();
        for (UUID id : List.of(good, second)) {
            DB.awaitState(id, "gone");
            assertEquals(1, DB.written(id));
        }
        assertEquals(2L, DB.value("select count(*) from " + DB.in + "jobs where kind = 'message'"));
        DB.awaitState(bad, "dead");
        DB.awaitState(later, "timer");
        DB.awaitState(cancelled, "gone");
        TestDatabase.await("its release", () -> (long) DB.value("select count(*) from " + DB.in + "terminating_handler") == 0);
        assertTrue(begun.await(30, TimeUnit.SECONDS));
        worker.stop(Duration.ZERO);
        assertEquals("waiting", DB.state(endless));
    }

    private static Object role(Connection connection) throws SQLException {
        try (var statement = connection.createStatement(); var row = statement.executeQuery("select current_user")) {
            row.next();
            return row.getString(1);
        }
    }

    @Test
    void other_queues_and_tables_are_refused() throws Exception {
        try (Connection connection = pool.getConnection()) {
            SQLException refused = assertThrows(SQLException.class,
                    () -> DB.sql.take(connection, new Take("another", "w", 1, Duration.ofMinutes(1))));
            assertEquals("42501", refused.getSQLState());
            assertTrue(refused.getMessage().contains("jobwright grants worker"), refused.getMessage());
            for (String table : List.of("external_job", "report_key", "worker_queue")) {
                assertEquals("42501", assertThrows(SQLException.class,
                        () -> TestDatabase.update(connection, "select * from " + DB.in + table)).getSQLState());
            }
        }
    }
}
