package io.jobwright;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Objects;
import java.util.function.Consumer;
import javax.sql.DataSource;

/** Transactions of plain JDBC: a connection of the data source for each, committed or rolled back, and closed. */
public final class JdbcTransactions implements TransactionRunner {
    private final DataSource dataSource;

    /**
     * Runs each piece of work on a connection of its own.
     *
     * @param dataSource a pool, because a connection is asked for each time
     */
    public JdbcTransactions(DataSource dataSource) {
        this.dataSource = Objects.requireNonNull(dataSource, "dataSource");
    }

    @Override
    public void run(Consumer<Connection> work) throws SQLException {
        try (Connection connection = dataSource.getConnection()) {
            boolean automatic = connection.getAutoCommit();
            if (automatic) {
                connection.setAutoCommit(false);
            }
            try {
                work.accept(guard(connection));
                connection.commit();
            } catch (Throwable thrown) {
                rollBack(connection, automatic, thrown);
                throw thrown;
            }
            restore(connection, automatic);
        }
    }

    /** It is committed: an error now must not look as if it weren't. */
    private static void restore(Connection connection, boolean automatic) {
        try {
            if (automatic) {
                connection.setAutoCommit(true);
            }
        } catch (SQLException e) {
            abort(connection);
        }
    }

    private static void rollBack(Connection connection, boolean automatic, Throwable thrown) {
        try {
            connection.rollback();
            if (automatic) {
                connection.setAutoCommit(true);
            }
        } catch (SQLException e) {
            thrown.addSuppressed(e);
            // Its transaction may be open still, and closing or the next mode would commit it.
            abort(connection);
        }
    }

    static void abort(Connection connection) {
        try {
            connection.abort(Runnable::run);
        } catch (SQLException | RuntimeException e) {
            // It is gone already, or its owner doesn't let go of it.
        }
    }

    /** The connection without the calls that would end the transaction before the job's end is in it. */
    private static Connection guard(Connection connection) {
        ClassLoader loader = JdbcTransactions.class.getClassLoader();
        return (Connection) Proxy.newProxyInstance(loader, new Class<?>[] {Connection.class}, (proxy, method, arguments) -> {
            switch (method.getName()) {
                case "commit", "setAutoCommit":
                    throw new SQLException("the worker commits: return, and the job is done, or throw, and all is rolled back", "25000");
                case "rollback":
                    if (arguments == null) {
                        throw new SQLException("the worker rolls back: throw, or roll back to a savepoint", "25000");
                    }
                    break;
                case "close":
                    return null;
                default:
                    break;
            }
            try {
                return method.invoke(connection, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        });
    }
}
