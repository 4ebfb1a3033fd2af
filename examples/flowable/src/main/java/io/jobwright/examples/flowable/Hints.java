package io.jobwright.examples.flowable;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** Listens for notifications that jobs were sent or may start. */
final class Hints implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Hints.class.getName());
    private static final int SLICE = 250;
    private static final int SLICES_BETWEEN_CHECKS = 120;
    private static final int PAUSE_AFTER_ERROR = 1_000;

    private final DataSource dataSource;
    private final Bell bell;
    private final Thread thread = new Thread(this::run, "jobwright-hints");
    private volatile boolean stopping;

    Hints(DataSource dataSource, Bell bell) {
        this.dataSource = dataSource;
        this.bell = bell;
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        while (!stopping) {
            try (Connection connection = dataSource.getConnection()) {
                listen(connection);
            } catch (SQLException | RuntimeException e) {
                LOG.log(Level.WARNING, "notifications of jobwright can't be heard: until they can, jobs of Flowable are found by polls", e);
                pause();
            }
        }
    }

    private void listen(Connection connection) throws SQLException {
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(Functions.DEADLINE_SECONDS);
            statement.execute("listen jobwright_wake");
            // Earlier ones were not heard.
            bell.ring();
            PGConnection driver = connection.unwrap(PGConnection.class);
            for (int slice = 1; !stopping; slice++) {
                PGNotification[] heard = driver.getNotifications(SLICE);
                for (int i = 0; heard != null && i < heard.length; i++) {
                    if (heard[i].getParameter().matches("[qr]" + Functions.QUEUE)) {
                        bell.ring();
                    }
                }
                if (slice % SLICES_BETWEEN_CHECKS == 0) {
                    // A dead connection brings no notifications, and no error.
                    statement.execute("select 1");
                }
            }
            statement.execute("unlisten *");
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_AFTER_ERROR);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        stopping = true;
    }
}
