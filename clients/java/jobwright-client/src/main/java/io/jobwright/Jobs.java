package io.jobwright;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;

/**
 * Sends, cancels and wakes, in the caller's connection: in its transaction, which may be managed elsewhere (JDBC, Spring, JPA, JTA). The job
 * exists if, and only if, that transaction commits. Instances are immutable and may be shared.
 *
 * <pre>{@code
 * Jobs jobs = new Jobs();
 * connection.setAutoCommit(false);
 * // ... the order's row ...
 * UUID id = jobs.send(connection, NewJob.json("send-invoice", "{\"order\": 42}").queue("billing"));
 * connection.commit();
 * jobs.wake(dataSource, "billing");      // optional: executors and workers look at once, not at their next poll
 * }</pre>
 *
 * <p>Every call has a deadline (a query timeout, 30 s by default). It does not bound a dead network: give the driver a
 * {@code socketTimeout} and a {@code loginTimeout}.
 */
public final class Jobs {
    private final Schema schema;
    private final Duration deadline;

    /** Uses the schema {@code jobwright}. */
    public Jobs() {
        this(Schema.DEFAULT);
    }

    /**
     * Uses another schema.
     *
     * @param schema letters, digits and {@code _}, at most 40
     */
    public Jobs(String schema) {
        this(schema, Duration.ofSeconds(30));
    }

    /**
     * Uses another schema and another deadline.
     *
     * @param schema letters, digits and {@code _}, at most 40
     * @param deadline of each call; rounded up to seconds
     */
    public Jobs(String schema, Duration deadline) {
        this.schema = new Schema(schema);
        this.deadline = Objects.requireNonNull(deadline, "deadline");
    }

    /**
     * Sends a job in the connection's transaction. It notifies no one: see {@link #wake(DataSource, String)}.
     *
     * @param connection any, with or without auto-commit, but not read-only
     * @param job the job and its options
     * @return the job's id; that of the job that holds the unique key, if nothing was sent for that reason
     * @throws SQLException 22023: an option can't be used, and the message says which; 23505: the key or id is held. The transaction
     *     must be rolled back
     */
    public UUID send(Connection connection, NewJob job) throws SQLException {
        Map<String, NewJob.Argument> arguments = job.arguments();
        Call call = new Call(arguments.entrySet().stream()
                .map(argument -> argument.getKey() + " => " + argument.getValue().parameter())
                .collect(Collectors.joining(", ", "select " + schema.function("send") + "(", ")")));
        arguments.values().forEach(argument -> call.with(argument.value()));
        return call.row(connection, deadline, row -> row.getObject(1, UUID.class));
    }

    /**
     * Cancels a job that has not ended, in the connection's transaction. If it runs, its handler is told and can't commit. The role
     * needs the grant for cancelling.
     *
     * @param connection any
     * @param id of the job
     * @return whether there was such a job
     * @throws SQLException 42501: this role may not cancel; 55P03 or 40001: another transaction has the job, so repeat this one
     */
    public boolean cancel(Connection connection, UUID id) throws SQLException {
        Call call = new Call("select " + schema.function("cancel") + "(id => ?::uuid)");
        return call.with(Objects.requireNonNull(id, "id")).row(connection, deadline, row -> row.getBoolean(1));
    }

    /**
     * Cancels the job that holds a unique key.
     *
     * @param connection any
     * @param kind of the job
     * @param uniqueKey with which it was sent
     * @return whether there was such a job
     * @throws SQLException as for {@link #cancel(Connection, UUID)}
     */
    public boolean cancel(Connection connection, String kind, String uniqueKey) throws SQLException {
        Call call = new Call("select " + schema.function("cancel") + "(kind => ?, unique_key => ?)");
        return call.with(kind).with(uniqueKey).row(connection, deadline, row -> row.getBoolean(1));
    }

    /**
     * Notifies executors and workers that a queue has work. Call it after the commit, in a transaction of its own: within that of the
     * send it would make commits wait for each other, and a two-phase commit fail.
     *
     * @param connection in auto-commit mode, or committed by the caller
     * @param queue that has work
     * @throws SQLException if the call fails. Nothing is lost then: the next poll finds the work
     */
    public void wake(Connection connection, String queue) throws SQLException {
        Call call = new Call("select " + schema.function("wake") + "(?)::text");
        call.with(Objects.requireNonNull(queue, "queue")).row(connection, deadline, row -> null);
    }

    /**
     * The same on a connection of its own. With a data source that a transaction manager watches, call it when no transaction is active,
     * for example in {@code afterCommit}, with the data source below.
     *
     * @param dataSource of the same database
     * @param queue that has work
     * @throws SQLException if the call fails. Nothing is lost then: the next poll finds the work
     */
    public void wake(DataSource dataSource, String queue) throws SQLException {
        HeldConnection.once(dataSource, deadline, connection -> {
            wake(connection, queue);
            return null;
        });
    }
}
