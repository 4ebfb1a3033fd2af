package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class SqlJobsIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private Connection connection;

    @BeforeEach
    void connect() throws SQLException {
        connection = DB.pool.getConnection();
    }

    @AfterEach
    void disconnect() throws SQLException {
        connection.close();
    }

    private List<Job> take(int n, Duration lease, String... kinds) throws SQLException {
        return DB.sql.take(connection, new Take(TestDatabase.QUEUE, "t", n, lease, List.of(kinds), List.of()));
    }

    private Job takeOne(String kind) throws Exception {
        return takeOne(kind, Duration.ofMinutes(1));
    }

    private Job takeOne(String kind, Duration lease) throws Exception {
        Job[] taken = new Job[1];
        TestDatabase.await("a job of " + kind, () -> {
            List<Job> jobs = take(1, lease, kind);
            taken[0] = jobs.isEmpty() ? null : jobs.get(0);
            return taken[0] != null;
        });
        return taken[0];
    }

    @Test
    void a_taken_job_has_everything_that_was_sent() throws Exception {
        Instant before = Instant.now();
        UUID id = DB.send(NewJob.json("whole", "{\"b\": \"\u20ac\"}").priority(3).exclusiveGroup("g").tenant("acme").maxAttempts(2)
                .headers(Map.of("a", "1", "b", "x,\"y\"")));
        Job job = takeOne("whole");
        assertEquals(id, job.id());
        assertEquals("{\"b\": \"\u20ac\"}", job.payload());
        assertNull(job.body());
        assertEquals(Map.of("a", "1", "b", "x,\"y\""), job.headers());
        assertThrows(UnsupportedOperationException.class, () -> job.headers().put("c", "2"));
        assertEquals(List.of(1, 2, 3), List.of(job.attempt(), job.maxAttempts(), job.priority()));
        assertEquals(List.of("g", "acme"), List.of(job.exclusiveGroup(), job.tenant()));
        assertNull(job.lastError());
        assertNull(job.checkpoint());
        assertTrue(job.createdAt().isAfter(before.minusSeconds(60)) && job.leaseUntil().isAfter(job.createdAt().plusSeconds(59)));
        assertTrue(DB.sql.done(connection, job.handout()));
        assertEquals("gone", DB.state(id));
    }

    @Test
    void a_body_and_the_best_come_first() throws Exception {
        DB.send(NewJob.body("bytes", new byte[] {1, (byte) 0xfe}, "text/x"));
        UUID urgent = DB.send(NewJob.body("bytes", new byte[] {2}, "text/x").priority(9));
        List<Job> jobs = take(10, Duration.ofMinutes(1), "bytes");
        assertEquals(urgent, jobs.get(0).id());
        assertArrayEquals(new byte[] {1, (byte) 0xfe}, jobs.get(1).body());
        assertEquals("text/x", jobs.get(1).contentType());
        assertNull(jobs.get(1).payload());
        assertEquals(2, DB.sql.doneMany(connection, jobs.stream().map(Job::handout).toList()).size());
    }

    @Test
    void a_take_that_is_rolled_back_never_was() throws Exception {
        UUID id = DB.send("undone");
        connection.setAutoCommit(false);
        assertEquals(1, take(1, Duration.ofMinutes(1), "undone").size());
        connection.rollback();
        connection.setAutoCommit(true);
        assertEquals(id, takeOne("undone").id());
        assertEquals(1, DB.column(id, "attempt"));
    }

    @Test
    void a_late_done_cannot_commit() throws Exception {
        UUID id = DB.send("late");
        Job first = takeOne("late", Duration.ofSeconds(1));
        Job second = takeOne("late");
        assertEquals(2, second.attempt());
        assertFalse(first.token().equals(second.token()));

        connection.setAutoCommit(false);
        DB.write(connection, first, "late");
        SQLException late = assertThrows(SQLException.class, () -> DB.sql.done(connection, first.handout()));
        assertTrue(SqlJobs.isLate(late) && !SqlJobs.isCancelled(late));
        assertFalse(late.getMessage().contains(first.token().toString()));
        try {
            connection.commit();
        } catch (SQLException e) {
            // The driver may say that the server rolled back instead.
        }
        connection.rollback();
        connection.setAutoCommit(true);
        assertEquals(0, DB.written(id));
        assertFalse(DB.sql.lenient().done(connection, first.handout()));
        assertTrue(DB.sql.done(connection, second.handout()));
    }

    @Test
    void failures_are_recorded_and_end_as_dead_letters() throws Exception {
        UUID id = DB.send(NewJob.json("fails", "{}").retry("fixed(10ms)"));
        Failure failure = Failure.of(new IllegalStateException("no paper\0"));
        assertTrue(DB.sql.fail(connection, takeOne("fails").handout(), failure));
        Job again = takeOne("fails");
        assertEquals(2, again.attempt());
        assertEquals("IllegalStateException: no paper\uFFFD", again.lastError());
        assertTrue(DB.sql.fail(connection, again.handout(), failure.fatal()));
        assertEquals("dead", DB.state(id));
        assertTrue(DB.column(id, "errors").toString().contains("SqlJobsIT.java"), "the stack trace is kept");
    }

    @Test
    void later_and_release_cost_no_attempt() throws Exception {
        DB.send("costless");
        assertTrue(DB.sql.later(connection, takeOne("costless").handout(), Duration.ofMillis(20)));
        Job job = takeOne("costless");
        assertEquals(1, job.attempt());
        assertTrue(DB.sql.release(connection, job.handout()));
        job = takeOne("costless");
        assertEquals(1, job.attempt());
        assertEquals(List.of(job.id()), DB.sql.releaseMany(connection, List.of(job.handout())));
    }

    @Test
    void progress_and_its_checkpoint_reach_the_next_attempt() throws Exception {
        DB.send(NewJob.json("steps", "{}").retry("fixed(10ms)"));
        Job job = takeOne("steps");
        assertTrue(DB.sql.progress(connection, job.handout(), 40, "half", "{\"row\": 7}"));
        assertTrue(DB.sql.progress(connection, job.handout(), null, "more", null));
        DB.sql.fail(connection, job.handout(), new Failure("x", null, null, false));
        assertEquals("{\"row\": 7}", takeOne("steps").checkpoint());
    }

    @Test
    void a_result_is_kept() throws Exception {
        UUID id = DB.send("sum");
        assertTrue(DB.sql.done(connection, takeOne("sum").handout(), "{\"sum\": 3}", Duration.ofDays(1)));
        assertEquals("{\"sum\": 3}", DB.value("select payload::text from " + DB.in + "result where job_id = ?", id));
    }

    @Test
    void leases_are_held_lost_or_cancelled() throws Exception {
        DB.send("lease");
        Job held = takeOne("lease");
        UUID gone = DB.send("lease");
        Job cancelled = takeOne("lease");
        Handout unknown = new Handout(UUID.randomUUID(), UUID.randomUUID());
        assertTrue(DB.jobs.cancel(connection, gone));

        List<Lease> leases = DB.sql.lenient().extendMany(connection, List.of(held.handout(), cancelled.handout(), unknown), Duration.ofMinutes(5));
        assertEquals(List.of(Lease.State.HELD, Lease.State.CANCELLED, Lease.State.LOST), leases.stream().map(Lease::state).toList());
        assertTrue(leases.get(0).until().isAfter(held.leaseUntil().plusSeconds(200)));
        assertNull(leases.get(1).until());
        assertTrue(DB.sql.extend(connection, held.handout(), null).isAfter(held.leaseUntil().plusSeconds(200)), "as long as before");
        SQLException told = assertThrows(SQLException.class, () -> DB.sql.done(connection, cancelled.handout()));
        assertTrue(SqlJobs.isCancelled(new RuntimeException(told)));
        assertFalse(DB.sql.lenient().release(connection, cancelled.handout()));
        assertEquals(0L, DB.value("select count(*) from " + DB.in + "terminating_handler where job_id = ?", gone));
        DB.sql.done(connection, held.handout());
    }

    @Test
    void a_call_names_at_most_a_thousand_jobs_and_each_once() throws Exception {
        DB.send("counted");
        Job job = takeOne("counted");
        List<Handout> many = java.util.stream.Stream.generate(() -> new Handout(UUID.randomUUID(), UUID.randomUUID())).limit(1_000).toList();
        assertEquals(List.of(), DB.sql.lenient().doneMany(connection, many));
        List<Handout> more = new java.util.ArrayList<>(many);
        more.add(job.handout());
        assertEquals("22023", assertThrows(SQLException.class, () -> DB.sql.lenient().extendMany(connection, more, null)).getSQLState());
        assertEquals("22023", assertThrows(SQLException.class,
                () -> DB.sql.releaseMany(connection, List.of(job.handout(), job.handout()))).getSQLState());
        assertTrue(DB.sql.done(connection, job.handout()));
    }
}
