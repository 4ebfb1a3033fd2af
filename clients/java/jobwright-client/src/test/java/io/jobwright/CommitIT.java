package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Commits that fail, with their outcome known and unknown. */
class CommitIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    /** Runs a job whose commit is cut off in this way, and then one that ends as usual. */
    private UUID cutOff(Relay.Mode mode, AtomicInteger starts) throws Exception {
        UUID id = DB.send(NewJob.json("cut", "{}").retry("fixed(1ms)"));
        try (Relay relay = new Relay(); var relayed = TestDatabase.pool(relay.dataSource(), 4);
                JobWorker worker = DB.worker().concurrency(1).transactions(new JdbcTransactions(relayed)).handler("cut", (job, connection) -> {
                    DB.start(job, "cut");
                    DB.write(connection, job, "attempt " + job.attempt());
                    if (starts.incrementAndGet() == 1) {
                        relay.mode = mode;
                    }
                }).handler("after", (job, connection) -> {}).start()) {
            TestDatabase.await("the cut", () -> relay.cut.get() == 1);
            if (mode == Relay.Mode.IS_LOST) {
                DB.awaitState(id, "external");
            }
            DB.awaitState(DB.send("after"), "gone");
            DB.awaitState(id, "gone");
        }
        return id;
    }

    @Test
    void a_commit_whose_answer_is_lost_is_no_failure() throws Exception {
        AtomicInteger starts = new AtomicInteger();
        UUID id = cutOff(Relay.Mode.ARRIVES_BUT_NO_ANSWER, starts);
        assertEquals(1, DB.written(id));
        assertEquals(1, starts.get());
    }

    @Test
    void a_commit_that_is_lost_is_decided_by_the_lease() throws Exception {
        AtomicInteger starts = new AtomicInteger();
        UUID id = cutOff(Relay.Mode.IS_LOST, starts);
        assertEquals("attempt 2", DB.value("select string_agg(text, ',') from " + DB.in + "written where job = ?", id));
        assertEquals(0L, DB.value("select count(*) from " + DB.in + "starts a join " + DB.in
                + "starts b on b.id = a.id and b.attempt = a.attempt + 1 where b.id = ? and b.at < a.lease_until", id), "it starts after its lease");
    }

    @Test
    void a_commit_that_the_server_refuses_is_a_failure() throws Exception {
        DB.update("create table " + DB.in + "checked (n int unique deferrable initially deferred)");
        UUID id = DB.send(NewJob.json("refused", "{}").maxAttempts(1));
        try (JobWorker worker = DB.worker().handler("refused", (job, connection) -> {
            TestDatabase.update(connection, "insert into " + DB.in + "checked values (1), (1)");
        }).start()) {
            DB.awaitState(id, "dead");
        }
        assertTrue(DB.column(id, "reason").toString().contains("checked"), DB.column(id, "reason").toString());
        assertNull(DB.value("select n from " + DB.in + "checked"));
    }

    /** The page says so: the renewal is a change that such a transaction may not see. */
    @Test
    void under_repeatable_read_work_that_is_longer_than_a_third_of_its_lease_fails() throws Exception {
        UUID id = DB.send(NewJob.json("repeatable", "{}").maxAttempts(1));
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(1)).handler("repeatable", (job, connection) -> {
            TestDatabase.update(connection, "set transaction isolation level repeatable read");
            DB.write(connection, job, "x");
            TestDatabase.await("the renewal", () -> (boolean) DB.value("select lease_until > ?::timestamptz from " + DB.in
                    + "external_job where id = ?", job.leaseUntil().plusMillis(200).toString(), job.id()));
        }).start()) {
            DB.awaitState(id, "dead");
        }
        assertTrue(DB.column(id, "reason").toString().contains("could not serialize access"), DB.column(id, "reason").toString());
        assertEquals(0, DB.written(id));
    }

    /** The lease stays as it is while another transaction has the job, and the handler goes on. */
    @Test
    void a_job_that_another_transaction_has_locked_is_kept() throws Exception {
        UUID id = DB.send("locked");
        List<Boolean> told = new java.util.concurrent.CopyOnWriteArrayList<>();
        try (JobWorker worker = DB.worker().lease(Duration.ofSeconds(3)).handler("locked", (job, connection) -> {
            String left = "select lease_until - clock_timestamp() %s interval '1800 ms' from " + DB.in + "external_job where id = ?";
            try (Connection other = DB.pool.getConnection()) {
                other.setAutoCommit(false);
                assertTrue(DB.jobs.cancel(other, job.id()));
                TestDatabase.await("a renewal that was left out", () -> (boolean) DB.value(left.formatted("<"), job.id()));
                assertEquals(Lease.State.ENDING, state(job));
                other.rollback();
            }
            TestDatabase.await("the renewal", () -> (boolean) DB.value(left.formatted(">"), job.id()));
            told.add(job.isCancelled());
            DB.write(connection, job, "x");
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(List.of(false), told);
        assertEquals(1, DB.written(id));
    }

    private static Lease.State state(Job job) throws Exception {
        try (Connection connection = DB.pool.getConnection()) {
            Lease lease = DB.sql.extendMany(connection, List.of(job.handout()), null).get(0);
            assertTrue(lease.until().isAfter(job.leaseUntil().minusSeconds(1)), "it says when the lease ends");
            return lease.state();
        }
    }
}
