package io.jobwright;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** Listens for notifications that the queue has work. Only loaded with PostgreSQL's driver; others poll. */
final class Listener implements Runnable {
    private static final Logger LOG = System.getLogger("io.jobwright.worker");
    private static final int SLICE = 250;
    private static final int SLICES_BETWEEN_CHECKS = 120;

    private final Settings settings;
    private final Slots slots;
    private final Outage outage;

    Listener(Settings settings, Slots slots, Outage outage) {
        this.settings = settings;
        this.slots = slots;
        this.outage = outage;
    }

    @Override
    public void run() {
        Backoff backoff = new Backoff();
        while (!slots.isStopping()) {
            try (HeldConnection held = new HeldConnection(settings.dataSource(), settings.deadline())) {
                if (!held.call(connection -> listen(connection, backoff))) {
                    LOG.log(Level.INFO, "{0}: the connections are not those of PostgreSQL''s driver, so this worker only polls", settings.name());
                    return;
                }
            } catch (SQLException | RuntimeException e) {
                outage.failed("listen", e);
                try {
                    slots.pause(backoff.nextMillis());
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }
    }

    /** Listens until the worker stops. Returns false if this connection can't. */
    private boolean listen(Connection connection, Backoff backoff) throws SQLException {
        if (!connection.isWrapperFor(PGConnection.class)) {
            return false;
        }
        PGConnection driver = connection.unwrap(PGConnection.class);
        try {
            execute(connection, "listen " + new Schema(settings.schema()).channel());
            outage.worked("listen");
            backoff.reset();
            // Earlier notifications were not heard.
            slots.announce();
            hear(connection, driver);
            execute(connection, "unlisten *");
            return true;
        } catch (SQLException | RuntimeException e) {
            // It may still listen, and must not go back to a pool.
            JdbcTransactions.abort(connection);
            throw e;
        }
    }

    private void hear(Connection connection, PGConnection driver) throws SQLException {
        for (int slice = 1; !slots.isStopping(); slice++) {
            PGNotification[] heard = driver.getNotifications(SLICE);
            if (heard != null && Arrays.stream(heard).anyMatch(hint -> isNews(hint.getParameter(), settings.queue()))) {
                slots.announce();
            }
            if (slice % SLICES_BETWEEN_CHECKS == 0) {
                // A dead connection brings no notifications, and no error.
                execute(connection, "select 1");
            }
        }
    }

    /** Jobs were added ({@code q}), or were admitted or released ({@code r}). Other hints are for executors. */
    static boolean isNews(String hint, String queue) {
        return hint.equals("q" + queue) || hint.equals("r" + queue);
    }

    private void execute(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(Call.seconds(settings.deadline()));
            statement.execute(text);
        }
    }
}
