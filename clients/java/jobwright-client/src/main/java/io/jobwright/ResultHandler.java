package io.jobwright;

import java.sql.Connection;

/** The work of one kind of jobs, with a result. Otherwise as {@link JobHandler}. */
@FunctionalInterface
public interface ResultHandler {
    /**
     * Does the work.
     *
     * @param job that was taken
     * @param connection in the transaction that ends the job
     * @return JSON, or null for none
     * @throws Exception if the work failed, see {@link JobHandler#run}
     */
    String run(Job job, Connection connection) throws Exception;
}
