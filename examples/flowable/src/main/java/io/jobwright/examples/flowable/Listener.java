package io.jobwright.examples.flowable;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/**
 * Listens for notifications that jobs were sent or may start, and renews the leases of the jobs that run, on one connection. A job that was
 * lost or cancelled is not told: its transaction can't commit, and finds that out by itself.
 */
final class Listener implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Listener.class.getName());
    private static final int PAUSE_AFTER_ERROR = 1_000;

    private final DataSource dataSource;
    private final Bell bell;
    private final Set<TakenJob> held;
    private final Duration interval;
    private volatile boolean stopping;

    Listener(DataSource dataSource, Bell bell, Set<TakenJob> held, Duration lease) {
        this.dataSource = dataSource;
        this.bell = bell;
        this.held = held;
        interval = lease.dividedBy(3);
        Thread thread = new Thread(this::run, "jobwright-listener");
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        while (!stopping) {
            try (Connection connection = dataSource.getConnection()) {
                connection.setAutoCommit(true);
                listen(connection);
            } catch (SQLException | RuntimeException e) {
                if (stopping) {
                    // The data source may be closed already.
                    return;
                }
                LOG.log(Level.WARNING, "notifications of jobwright can't be heard, and leases not be renewed; it is tried again", e);
                try {
                    Thread.sleep(PAUSE_AFTER_ERROR);
                } catch (InterruptedException interrupted) {
                    return;
                }
            }
        }
    }

    private void listen(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(Functions.DEADLINE_SECONDS);
            statement.execute("listen jobwright_wake");
            // Earlier ones were not heard.
            bell.ring();
            PGConnection driver = connection.unwrap(PGConnection.class);
            while (!stopping) {
                // Also shows that the connection lives: a dead one brings no notifications, and no error.
                Functions.extend(connection, List.copyOf(held));
                long renewed = System.nanoTime();
                while (!stopping && System.nanoTime() - renewed < interval.toNanos()) {
                    PGNotification[] heard = driver.getNotifications((int) Math.min(250, interval.toMillis()));
                    for (int i = 0; heard != null && i < heard.length; i++) {
                        if (heard[i].getParameter().matches("[qr]" + Functions.QUEUE)) {
                            bell.ring();
                        }
                    }
                }
            }
            statement.execute("unlisten *");
        }
    }

    @Override
    public void close() {
        stopping = true;
    }
}
