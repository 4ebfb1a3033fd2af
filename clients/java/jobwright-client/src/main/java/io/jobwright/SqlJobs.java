package io.jobwright;

import java.sql.Array;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * The functions by which programs take and end jobs, one method for each. {@link JobWorker} is made of them; call them yourself to end
 * a job in a transaction that an engine or a framework opened.
 *
 * <pre>{@code
 * List<Job> jobs = sql.take(connection, new Take("mail", "mailer-1", 10, Duration.ofMinutes(1)));    // and commit
 * // ... work ...
 * sql.done(connection, jobs.get(0).handout());                                                       // in the transaction of the work
 * }</pre>
 *
 * <p>Commit after {@code take}, before the work. A call that comes too late throws an {@link SQLException}, so that the work can't be
 * committed: {@link #isLate} (SQLSTATE JW002) and {@link #isCancelled} (JW003) tell it from others. The variant that {@link #lenient()}
 * returns answers {@code false}, {@code null} or fewer ids.
 *
 * <p>Instances are immutable and may be shared. Every call has a deadline, see {@link Jobs}.
 */
public final class SqlJobs {
    private final Schema schema;
    private final Duration deadline;
    private final boolean strict;

    /** Uses the schema {@code jobwright}. */
    public SqlJobs() {
        this(Schema.DEFAULT, Duration.ofSeconds(30));
    }

    /**
     * Uses another schema and another deadline.
     *
     * @param schema letters, digits and {@code _}, at most 40
     * @param deadline of each call; rounded up to seconds
     */
    public SqlJobs(String schema, Duration deadline) {
        this(new Schema(schema), deadline, true);
    }

    private SqlJobs(Schema schema, Duration deadline, boolean strict) {
        this.schema = schema;
        this.deadline = Objects.requireNonNull(deadline, "deadline");
        this.strict = strict;
    }

    /**
     * Returns a variant for which a call that comes too late is no error. Its {@link #release} also frees the group of a cancelled job.
     *
     * @return calls with {@code strict => false}
     */
    public SqlJobs lenient() {
        return new SqlJobs(schema, deadline, false);
    }

    /**
     * Returns whether a job was lost: its lease ended, or it was ended before. Roll back and drop it.
     *
     * @param thrown its causes are looked at too
     * @return whether one has the SQLSTATE JW002
     */
    public static boolean isLate(Throwable thrown) {
        return hasState(thrown, "JW002");
    }

    /**
     * Returns whether a job was cancelled. Roll back, then {@link #release} it with {@link #lenient()}.
     *
     * @param thrown its causes are looked at too
     * @return whether one has the SQLSTATE JW003
     */
    public static boolean isCancelled(Throwable thrown) {
        return hasState(thrown, "JW003");
    }

    private static boolean hasState(Throwable thrown, String state) {
        int depth = 0;
        for (Throwable t = thrown; t != null && depth < 50; t = t.getCause(), depth++) {
            if (t instanceof SQLException e && state.equals(e.getSQLState())) {
                return true;
            }
        }
        return false;
    }

    /**
     * Takes the best waiting jobs, for as long as the lease. Commit before the work begins.
     *
     * @param connection any
     * @param take queue, number, lease and more
     * @return the jobs, best first; empty if none waits
     * @throws SQLException 22023: an argument can't be used; 42501: this role may not take from that queue
     */
    public List<Job> take(Connection connection, Take take) throws SQLException {
        Call call = new Call("select t.id, t.token, t.kind, t.payload, t.body, t.content_type, t.attempt, t.max_attempts, t.exclusive_group,"
                + " t.tenant, t.priority, t.created_at, t.lease_until, t.last_error, t.checkpoint,"
                + " case when t.headers <> '{}' then (select array_agg(array[h.key, h.value]) from jsonb_each_text(t.headers) h) end as headers"
                + " from " + schema.function("take") + "(?, ?, n => ?, lease => ?::interval, kinds => ?::text[], content_types => ?::text[]) t");
        return call.with(take.queue()).with(take.worker()).with(take.n()).with(take.lease())
                .with(texts(take.kinds())).with(texts(take.contentTypes())).rows(connection, deadline, SqlJobs::job);
    }

    /**
     * Ends a job that is done.
     *
     * @param connection that of the work
     * @param job that was taken
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean done(Connection connection, Handout job) throws SQLException {
        return done(connection, job, null, null);
    }

    /**
     * Ends a job that is done, with a result.
     *
     * @param connection that of the work
     * @param job that was taken
     * @param result JSON, which is also the reply if one was asked for; or null
     * @param keep how long it can be read by the job's id: 1 second to 100 years; null: not at all
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean done(Connection connection, Handout job, String result, Duration keep) throws SQLException {
        return one("done", "?::jsonb, ?::interval", connection, job, result, keep);
    }

    /**
     * Ends jobs that are done.
     *
     * @param connection that of the work
     * @param jobs that were taken; at most 1,000, each once
     * @return the ids of those that were ended: all, unless {@link #lenient()}
     * @throws SQLException if too late for one (JW002, JW003)
     */
    public List<UUID> doneMany(Connection connection, Collection<Handout> jobs) throws SQLException {
        return many("done_many", connection, jobs);
    }

    /**
     * Records a failure. The job runs again, or is a dead letter after its last attempt.
     *
     * @param connection not that of the failed work, which was rolled back
     * @param job that was taken
     * @param failure the texts, and the time of the next attempt
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean fail(Connection connection, Handout job, Failure failure) throws SQLException {
        return one("fail", "?, ?, ?::interval, ?::boolean", connection, job, failure.error(), failure.detail(), failure.retry(), failure.dead());
    }

    /**
     * Makes the job run again later, at no attempt.
     *
     * @param connection any
     * @param job that was taken
     * @param delay 0 to 100 years
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean later(Connection connection, Handout job, Duration delay) throws SQLException {
        return one("later", "?::interval", connection, job, Objects.requireNonNull(delay, "delay"));
    }

    /**
     * Makes the job wait again at once, at no attempt. With {@link #lenient()} it also says that the work of a cancelled job has ended.
     *
     * @param connection any
     * @param job that was taken
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean release(Connection connection, Handout job) throws SQLException {
        return one("release", "", connection, job);
    }

    /**
     * Makes jobs wait again at once, at no attempt.
     *
     * @param connection any
     * @param jobs that were taken; at most 1,000, each once
     * @return the ids of those that wait again: all, unless {@link #lenient()}
     * @throws SQLException if too late for one (JW002, JW003)
     */
    public List<UUID> releaseMany(Connection connection, Collection<Handout> jobs) throws SQLException {
        return many("release_many", connection, jobs);
    }

    /**
     * Renews a lease from now on. Call it outside the transaction of the work, which would show it to no one.
     *
     * @param connection in auto-commit mode, or committed by the caller
     * @param job that was taken
     * @param lease 1 second to 1 day; null: as long as before
     * @return when it ends, by the database's clock; null only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public Instant extend(Connection connection, Handout job, Duration lease) throws SQLException {
        return extendMany(connection, List.of(job), lease).get(0).until();
    }

    /**
     * Renews leases from now on.
     *
     * @param connection in auto-commit mode, or committed by the caller
     * @param jobs that were taken; at most 1,000, each once
     * @param lease 1 second to 1 day; null: as long as before
     * @return one answer for each job, in their order
     * @throws SQLException if too late for one (JW002, JW003), and not {@link #lenient()}
     */
    public List<Lease> extendMany(Connection connection, Collection<Handout> jobs, Duration lease) throws SQLException {
        Call call = new Call("select x.id, x.state, x.lease_until from " + schema.function("extend_many")
                + "(?::uuid[], ?::uuid[], ?::interval, strict => ?) x");
        return name(call, jobs).with(lease).with(strict).rows(connection, deadline, row -> new Lease(
                row.getObject(1, UUID.class), Lease.State.of(row.getString(2)), instant(row, "lease_until")));
    }

    /**
     * Notes how far a job has got. Call it in a transaction of its own, so that the note stays if the work is rolled back.
     *
     * @param connection in auto-commit mode, or committed by the caller
     * @param job that was taken
     * @param percent 0 to 100; null: as before
     * @param note for people; null: as before
     * @param checkpoint JSON that the next attempt gets; null: as before
     * @return true; false only if too late and {@link #lenient()}
     * @throws SQLException if too late (JW002, JW003)
     */
    public boolean progress(Connection connection, Handout job, Integer percent, String note, String checkpoint) throws SQLException {
        return one("progress", "?::integer, ?, ?::jsonb", connection, job, percent, note, checkpoint);
    }

    private boolean one(String function, String parameters, Connection connection, Handout job, Object... values) throws SQLException {
        String between = parameters.isEmpty() ? "" : parameters + ", ";
        Call call = new Call("select " + schema.function(function) + "(?::uuid, ?::uuid, " + between + "strict => ?)");
        call.with(job.id()).with(job.token());
        for (Object value : values) {
            call.with(value);
        }
        return call.with(strict).row(connection, deadline, row -> row.getBoolean(1));
    }

    private List<UUID> many(String function, Connection connection, Collection<Handout> jobs) throws SQLException {
        Call call = new Call("select * from " + schema.function(function) + "(?::uuid[], ?::uuid[], strict => ?)");
        return name(call, jobs).with(strict).rows(connection, deadline, row -> row.getObject(1, UUID.class));
    }

    private static Call name(Call call, Collection<Handout> jobs) {
        return call.with(Call.uuids(jobs.stream().map(Handout::id).toList())).with(Call.uuids(jobs.stream().map(Handout::token).toList()));
    }

    private static String[] texts(List<String> texts) {
        return texts.isEmpty() ? null : texts.toArray(String[]::new);
    }

    private static Job job(ResultSet row) throws SQLException {
        return new Job(
                row.getObject("id", UUID.class), row.getObject("token", UUID.class), row.getString("kind"), row.getString("payload"),
                row.getBytes("body"), row.getString("content_type"), headers(row.getArray("headers")), row.getInt("attempt"),
                row.getInt("max_attempts"), row.getString("exclusive_group"), row.getString("tenant"), row.getInt("priority"),
                instant(row, "created_at"), instant(row, "lease_until"), row.getString("last_error"), row.getString("checkpoint"),
                new Cancellation());
    }

    private static Map<String, String> headers(Array pairs) throws SQLException {
        Map<String, String> headers = new HashMap<>();
        if (pairs != null) {
            for (String[] pair : (String[][]) pairs.getArray()) {
                headers.put(pair[0], pair[1]);
            }
        }
        return Map.copyOf(headers);
    }

    private static Instant instant(ResultSet row, String column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }
}
