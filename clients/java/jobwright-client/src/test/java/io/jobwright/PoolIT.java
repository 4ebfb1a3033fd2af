package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariDataSource;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The pool is the application's: it may be small, and gets its connections back as they were. */
class PoolIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    /** A pool that restores nothing, and notes how its connections come back. */
    private static final class Careless {
        final Set<String> returned = ConcurrentHashMap.newKeySet();
        private final Deque<Connection> idle = new ArrayDeque<>();
        private final boolean autoCommit;

        Careless(boolean autoCommit) {
            this.autoCommit = autoCommit;
        }

        DataSource dataSource() {
            ClassLoader loader = PoolIT.class.getClassLoader();
            return (DataSource) Proxy.newProxyInstance(loader, new Class<?>[] {DataSource.class}, (source, method, none) -> {
                Connection connection = next();
                return Proxy.newProxyInstance(loader, new Class<?>[] {Connection.class}, (proxy, called, values) -> {
                    if (called.getName().equals("close")) {
                        giveBack(connection);
                        return null;
                    }
                    try {
                        return called.invoke(connection, values);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
            });
        }

        private synchronized Connection next() throws SQLException {
            if (!idle.isEmpty()) {
                return idle.pop();
            }
            Connection connection = TestDatabase.driver("careless").getConnection();
            connection.setAutoCommit(autoCommit);
            return connection;
        }

        private synchronized void giveBack(Connection connection) throws SQLException {
            if (connection.isClosed()) {
                return;
            }
            returned.add("autoCommit " + connection.getAutoCommit() + ", readOnly " + connection.isReadOnly() + ", timeout "
                    + connection.getNetworkTimeout() + ", " + connection.unwrap(org.postgresql.core.BaseConnection.class).getTransactionState());
            idle.push(connection);
        }

        synchronized void close() throws SQLException {
            for (Connection connection : idle) {
                connection.close();
            }
        }
    }

    @Test
    void connections_come_back_as_they_were() throws Exception {
        for (boolean autoCommit : new boolean[] {true, false}) {
            Careless pool = new Careless(autoCommit);
            UUID good = DB.send("good");
            UUID bad = DB.send(NewJob.json("bad", "{}").maxAttempts(1));
            UUID later = DB.send("later");
            try (JobWorker worker = DB.worker(pool.dataSource()).handler("good", (job, connection) -> DB.write(connection, job, "x"))
                    .handler("bad", (job, connection) -> TestDatabase.update(connection, "select 1/0"))
                    .handler("later", (job, connection) -> {
                        TestDatabase.update(connection, "set transaction read only");
                        throw new LaterException(Duration.ofHours(1));
                    }).start()) {
                DB.awaitState(good, "gone");
                DB.awaitState(bad, "dead");
                DB.awaitState(later, "timer");
            }
            DB.jobs.wake(pool.dataSource(), TestDatabase.QUEUE);
            pool.close();
            assertEquals(1, DB.written(good));
            assertEquals(Set.of("autoCommit " + autoCommit + ", readOnly false, timeout 60000, IDLE"), pool.returned);
        }
    }

    /** A job whose handler gets no connection costs no attempt, and starts as soon as there is one. */
    @Test
    void an_exhausted_pool_costs_no_attempt() throws Exception {
        UUID id = DB.send(NewJob.json("poor", "{}").maxAttempts(1));
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        try (HikariDataSource narrow = new HikariDataSource()) {
            narrow.setDataSource(TestDatabase.driver("narrow"));
            narrow.setMaximumPoolSize(1);
            narrow.setConnectionTimeout(250);
            Connection taken = narrow.getConnection();
            try (JobWorker worker = DB.worker().transactions(new JdbcTransactions(narrow)).handler("poor", (job, connection) -> {
                DB.start(job, "poor");
                attempts.add(job.attempt());
            }).start()) {
                DB.awaitState(id, "external");
                Object first = DB.column(id, "version");
                TestDatabase.await("it to be given back and taken again", () -> DB.state(id).equals("external") && !first.equals(DB.column(id, "version")));
                taken.close();
                DB.awaitState(id, "gone");
            }
        }
        assertEquals(List.of(1), attempts);
    }

    /** Handlers that hold all connections of a pool can't keep the worker from renewing their leases. */
    @Test
    void a_pool_of_the_advised_size_is_enough() throws Exception {
        int concurrency = 2;
        CountDownLatch begun = new CountDownLatch(concurrency);
        List<UUID> sent = List.of(DB.send("holds"), DB.send("holds"));
        try (HikariDataSource pool = TestDatabase.pool("advised", concurrency + 3);
                JobWorker worker = DB.worker(pool).concurrency(concurrency).lease(Duration.ofSeconds(1)).handler("holds", (job, connection) -> {
                    begun.countDown();
                    assertTrue(begun.await(30, TimeUnit.SECONDS));
                    TestDatabase.await("the renewal", () -> (boolean) DB.value("select lease_until > ?::timestamptz from " + DB.in
                            + "external_job where id = ?", job.leaseUntil().plusMillis(1_200).toString(), job.id()));
                    DB.write(connection, job, "x");
                }).start()) {
            for (UUID id : sent) {
                DB.awaitState(id, "gone");
                assertEquals(1, DB.written(id));
            }
        }
    }

    @Test
    void work_that_may_not_write_is_a_failure_that_says_so() throws Exception {
        UUID id = DB.send(NewJob.json("reads", "{}").maxAttempts(1));
        try (JobWorker worker = DB.worker().handler("reads", (job, connection) -> TestDatabase.update(connection, "set transaction read only")).start()) {
            DB.awaitState(id, "dead");
        }
        assertTrue(DB.column(id, "reason").toString().contains("read-only transaction"), DB.column(id, "reason").toString());
    }
}
