package io.jobwright.examples.flowable;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/** Renews the leases of the jobs that run. One that was lost or cancelled is not: its transaction can't commit, and finds that out by itself. */
final class Leases implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Leases.class.getName());

    private final DataSource dataSource;
    private final Set<TakenJob> held;
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread thread = new Thread(work, "jobwright-leases");
        thread.setDaemon(true);
        return thread;
    });

    Leases(DataSource dataSource, Set<TakenJob> held, Duration lease) {
        this.dataSource = dataSource;
        this.held = held;
        timer.scheduleWithFixedDelay(this::renew, lease.toMillis() / 3, lease.toMillis() / 3, TimeUnit.MILLISECONDS);
    }

    private void renew() {
        List<TakenJob> jobs = List.copyOf(held);
        if (jobs.isEmpty()) {
            return;
        }
        try (Connection connection = dataSource.getConnection()) {
            connection.setAutoCommit(true);
            Functions.extend(connection, jobs);
        } catch (SQLException | RuntimeException e) {
            LOG.log(Level.WARNING, "the leases of " + jobs.size() + " jobs could not be renewed; it is tried again", e);
        }
    }

    @Override
    public void close() {
        timer.shutdown();
    }
}
