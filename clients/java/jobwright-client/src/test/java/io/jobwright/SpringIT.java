package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

class SpringIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private JdbcTemplate jdbc;
    private TransactionTemplate template;

    @BeforeEach
    void configure() {
        jdbc = new JdbcTemplate(DB.pool);
        template = new TransactionTemplate(new DataSourceTransactionManager(DB.pool));
    }

    private JobWorkerBuilder worker() {
        return DB.worker().transactions(new SpringTransactions(template, DB.pool));
    }

    private void write(Job job, String text) {
        // In the transaction of the thread, and not with the connection that the worker handed over.
        jdbc.update("insert into " + DB.in + "written values (?, ?)", job.id(), text);
    }

    private UUID sendByTemplate(String kind) {
        return jdbc.execute((org.springframework.jdbc.core.ConnectionCallback<UUID>) connection ->
                DB.jobs.send(connection, NewJob.json(kind, "{}").queue(TestDatabase.QUEUE)));
    }

    @Test
    void a_transaction_of_spring_sends_a_job_or_none() throws Exception {
        UUID sent = template.execute(status -> sendByTemplate("sent"));
        UUID rolledBack = template.execute(status -> {
            status.setRollbackOnly();
            return sendByTemplate("sent");
        });
        assertEquals("waiting", DB.state(sent));
        assertEquals("gone", DB.state(rolledBack));
    }

    @Test
    void the_work_of_a_template_commits_with_the_job() throws Exception {
        UUID id = DB.send("spring");
        UUID[] message = new UUID[1];
        try (JobWorker worker = worker().handler("spring", (job, connection) -> {
            assertEquals(true, TransactionSynchronizationManager.isActualTransactionActive());
            assertEquals(connection, DataSourceUtils.getConnection(DB.pool));
            write(job, "x");
            message[0] = template.execute(status -> sendByTemplate("message"));
            assertEquals(0, DB.written(job.id()));
        }).start()) {
            DB.awaitState(id, "gone");
        }
        assertEquals(1, DB.written(id));
        assertEquals("waiting", DB.state(message[0]));
    }

    @Test
    void the_work_of_a_template_rolls_back_with_the_job() throws Exception {
        UUID checked = DB.send(NewJob.json("checked", "{}").maxAttempts(1));
        UUID swallowed = DB.send(NewJob.json("swallowed", "{}").maxAttempts(1));
        UUID fatal = DB.send("fatal");
        UUID later = DB.send("later");
        try (JobWorker worker = worker().handler("checked", (job, connection) -> {
            write(job, "x");
            throw new java.io.IOException("no network");
        }).handler("swallowed", (job, connection) -> {
            write(job, "x");
            // A nested method failed, and left the transaction fit only for a rollback.
            assertThrows(DataAccessException.class, () -> template.executeWithoutResult(status -> jdbc.update("insert into nowhere values (1)")));
        }).handler("fatal", (job, connection) -> {
            write(job, "x");
            throw new FatalException("never");
        }).handler("later", (job, connection) -> {
            write(job, "x");
            throw new LaterException(Duration.ofHours(1));
        }).start()) {
            DB.awaitState(checked, "dead");
            DB.awaitState(swallowed, "dead");
            DB.awaitState(fatal, "dead");
            DB.awaitState(later, "timer");
        }
        assertEquals("IOException: no network", DB.column(checked, "reason"));
        assertEquals("FatalException: never", DB.column(fatal, "reason"));
        for (UUID id : new UUID[] {checked, swallowed, fatal, later}) {
            assertEquals(0, DB.written(id));
        }
    }

    @Test
    void a_cancelled_job_rolls_back_in_spring_too() throws Exception {
        UUID id = DB.send("cancelled");
        CountDownLatch begun = new CountDownLatch(1);
        try (JobWorker worker = worker().handler("cancelled", (job, connection) -> {
            write(job, "x");
            begun.countDown();
            new CountDownLatch(1).await(50, TimeUnit.SECONDS);
        }).start()) {
            begun.await(30, TimeUnit.SECONDS);
            try (var connection = DB.pool.getConnection()) {
                DB.jobs.cancel(connection, id);
            }
            TestDatabase.await("its release", () -> (long) DB.value("select count(*) from " + DB.in + "terminating_handler") == 0);
        }
        assertEquals(0, DB.written(id));
    }

    @Test
    void a_read_only_transaction_of_spring_ends_no_job() throws Exception {
        UUID id = DB.send(NewJob.json("read-only", "{}").maxAttempts(1));
        template.setReadOnly(true);
        try (JobWorker worker = worker().handler("read-only", (job, connection) -> {}).start()) {
            DB.awaitState(id, "dead");
        }
        assertTrue(DB.column(id, "reason").toString().contains("read-only transaction"), DB.column(id, "reason").toString());
    }

    /** The exception of a commit may be about what came after it. */
    @Test
    void an_error_after_the_commit_is_no_failure_of_the_job() throws Exception {
        UUID id = DB.send("after-commit");
        UUID next = DB.send("next");
        try (JobWorker worker = worker().concurrency(1).handler("after-commit", (job, connection) -> {
            write(job, "x");
            TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                @Override
                public void afterCommit() {
                    throw new IllegalStateException("the mail could not be sent");
                }
            });
        }).handler("next", (job, connection) -> {}).start()) {
            DB.awaitState(next, "gone");
            DB.awaitState(id, "gone");
        }
        assertEquals(1, DB.written(id));
    }
}
