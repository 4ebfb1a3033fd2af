package io.jobwright;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;

/** A process of its own, for a test to kill: it notes each start outside of the job's transaction, and works for a while. */
public final class WorkerProcess {
    private WorkerProcess() {}

    public static void main(String[] arguments) {
        String schema = arguments[0];
        String name = arguments[1];
        double seconds = Double.parseDouble(arguments[2]);
        HikariDataSource pool = TestDatabase.pool(name, 10);
        JobWorker worker = JobWorker.on(pool, TestDatabase.QUEUE).schema(schema).name(name).concurrency(4).lease(Duration.ofSeconds(2))
                .poll(Duration.ofMillis(100)).otherwise((job, connection) -> {
                    try (Connection other = pool.getConnection()) {
                        update(other, "insert into \"" + schema + "\".starts (id, attempt, lease_until, by) values (?, ?, ?, ?)",
                                job.id(), job.attempt(), OffsetDateTime.ofInstant(job.leaseUntil(), ZoneOffset.UTC), name);
                    }
                    update(connection, "insert into \"" + schema + "\".written values (?, ?)", job.id(), name);
                    update(connection, "select pg_sleep(?)", seconds);
                }).start();
        Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
    }

    private static void update(Connection connection, String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            statement.execute();
        }
    }
}
