package io.jobwright.examples.flowable;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collection;
import java.util.UUID;

/** The functions of jobwright that the worker calls (docs/sql.md), each in the transaction of the connection that it is given. */
final class Functions {
    static final String QUEUE = "flowable";
    /** For the calls that have a connection of their own. */
    static final int DEADLINE_SECONDS = 10;

    private static final String COLUMNS = "select t.id, t.token, t.kind, t.payload ->> 'id', t.exclusive_group";
    private static final String TAKE = COLUMNS + " from jobwright.take(?, ?, lease => ?::interval) t";
    /** The arguments of take depend on the end, so it comes second, and gets the next job of the same group. */
    private static final String DONE_AND_TAKE = COLUMNS + " from jobwright.done_many(array[?::uuid], array[?::uuid]) ended"
            + " cross join lateral jobwright.take(case when ended is not null then ? end, ?, lease => ?::interval) t";

    private final String worker;
    private final String lease;

    Functions(String worker, Duration lease) {
        this.worker = worker;
        this.lease = lease.toMillis() + " milliseconds";
    }

    /** Takes the best job; null if none waits. */
    TakenJob take(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(TAKE)) {
            return taken(statement, QUEUE, worker, lease);
        }
    }

    /** Ends a job and takes the next. Fails if the job is no longer this worker's, so that its work can't commit. */
    TakenJob doneAndTake(Connection connection, TakenJob job) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(DONE_AND_TAKE)) {
            return taken(statement, job.id(), job.token(), QUEUE, worker, lease);
        }
    }

    private static TakenJob taken(PreparedStatement statement, Object... values) throws SQLException {
        bind(statement, values);
        try (ResultSet row = statement.executeQuery()) {
            return row.next() ? new TakenJob(row.getObject(1, UUID.class), row.getObject(2, UUID.class), row.getString(3), row.getString(4), row.getString(5))
                    : null;
        }
    }

    static void done(Connection connection, TakenJob job) throws SQLException {
        call(connection, "select jobwright.done(?, ?)", job.id(), job.token());
    }

    /** The trigger on ACT_RU_TIMER_JOB must not cancel the job that moves the timer. */
    static void moving(Connection connection, TakenJob job) throws SQLException {
        call(connection, "select set_config('flowable.moved', ?, true)", job.row());
    }

    /** The job runs again by jobwright's retry policy. Without effect if it is no longer this worker's. */
    static void fail(Connection connection, TakenJob job, Throwable error) throws SQLException {
        call(connection, "select jobwright.fail(?, ?, ?, strict => false)", job.id(), job.token(), String.valueOf(error).replace("\0", "?"));
    }

    /** The job waits again, at no attempt. If it was cancelled, its group is free from now on. */
    static void release(Connection connection, TakenJob job) throws SQLException {
        call(connection, "select jobwright.release(?, ?, strict => false)", job.id(), job.token());
    }

    static void extend(Connection connection, Collection<TakenJob> jobs) throws SQLException {
        call(connection, "select count(*) from jobwright.extend_many(?, ?, strict => false)",
                connection.createArrayOf("uuid", jobs.stream().map(TakenJob::id).toArray()),
                connection.createArrayOf("uuid", jobs.stream().map(TakenJob::token).toArray()));
    }

    static void wake(Connection connection) throws SQLException {
        call(connection, "select jobwright.wake(?)", QUEUE);
    }

    private static void call(Connection connection, String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            statement.setQueryTimeout(DEADLINE_SECONDS);
            bind(statement, values);
            statement.execute();
        }
    }

    private static void bind(PreparedStatement statement, Object... values) throws SQLException {
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
    }

    /** Whether the job was no longer this worker's: its lease had ended (JW002), or it was cancelled (JW003). */
    static boolean isLate(Throwable thrown) {
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && ("JW002".equals(sql.getSQLState()) || "JW003".equals(sql.getSQLState()))) {
                return true;
            }
        }
        return false;
    }
}
