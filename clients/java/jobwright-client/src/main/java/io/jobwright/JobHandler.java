package io.jobwright;

import java.sql.Connection;

/** The work of one kind of jobs. */
@FunctionalInterface
public interface JobHandler {
    /**
     * Does the work. Its writes and messages on the connection are committed together with the end of the job, or not at all. It leaves
     * the end of the transaction to the worker: the connection refuses {@code commit} and {@code rollback}, and savepoints work.
     *
     * <p>Anything that it throws rolls the work back. Then the job runs again by its retry policy, except after:
     * <ul>
     * <li>{@link LaterException}: it runs again after that time, at no attempt;</li>
     * <li>{@link FatalException}: it is a dead letter at once.</li>
     * </ul>
     *
     * @param job that was taken
     * @param connection in the transaction that ends the job
     * @throws Exception if the work failed
     */
    void run(Job job, Connection connection) throws Exception;
}
