package io.jobwright;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import javax.sql.DataSource;

/**
 * A connection in auto-commit mode that one thread of the worker keeps, so that handlers can't take it away from under the renewal of
 * leases. After any error it is closed, and the next call opens another.
 */
final class HeldConnection implements AutoCloseable {
    interface Use<T> {
        T on(Connection connection) throws SQLException;
    }

    private static final Logger LOG = System.getLogger("io.jobwright.worker");

    private final DataSource dataSource;
    private final Duration deadline;
    private Connection connection;
    private boolean automatic;
    private int timeout;
    private boolean closed;

    HeldConnection(DataSource dataSource, Duration deadline) {
        this.dataSource = dataSource;
        this.deadline = deadline;
    }

    synchronized <T> T call(Use<T> use) throws SQLException {
        if (closed) {
            throw new SQLException("the worker has stopped", "08003");
        }
        if (connection == null) {
            open();
        }
        boolean succeeded = false;
        try {
            T answer = use.on(connection);
            succeeded = true;
            return answer;
        } finally {
            if (!succeeded) {
                drop();
            }
        }
    }

    /** One call on a connection that is given back at once. */
    static <T> T once(DataSource dataSource, Duration deadline, Use<T> use) throws SQLException {
        try (HeldConnection held = new HeldConnection(dataSource, deadline)) {
            return held.call(use);
        }
    }

    private void open() throws SQLException {
        Connection opened = dataSource.getConnection();
        try {
            automatic = opened.getAutoCommit();
            if (!automatic) {
                opened.setAutoCommit(true);
            }
            timeout = opened.getNetworkTimeout();
            // The query timeout cancels a slow statement; this one ends the wait for a server that no longer answers.
            opened.setNetworkTimeout(Runnable::run, (int) Math.min(Integer.MAX_VALUE, deadline.toMillis() + 2_000));
        } catch (SQLException e) {
            LOG.log(Level.DEBUG, "a connection could not be prepared", e);
            opened.close();
            throw e;
        }
        connection = opened;
    }

    private void drop() {
        Connection dropped = connection;
        connection = null;
        if (dropped == null) {
            return;
        }
        try (dropped) {
            dropped.setNetworkTimeout(Runnable::run, timeout);
            if (!automatic) {
                dropped.setAutoCommit(false);
            }
        } catch (SQLException e) {
            LOG.log(Level.DEBUG, "a connection was lost", e);
        }
    }

    @Override
    public synchronized void close() {
        closed = true;
        drop();
    }
}
