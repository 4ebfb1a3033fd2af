package io.jobwright;

import java.sql.Connection;
import java.util.function.Consumer;

/**
 * Runs a piece of work in a transaction: the seam for Spring, JTA or an engine. The default is plain JDBC ({@link JdbcTransactions}).
 * With Spring:
 *
 * <pre>{@code
 * TransactionRunner spring = work -> template.executeWithoutResult(status -> {
 *     Connection connection = DataSourceUtils.getConnection(dataSource);
 *     try {
 *         work.accept(connection);
 *     } finally {
 *         DataSourceUtils.releaseConnection(connection, dataSource);
 *     }
 * });
 * }</pre>
 */
@FunctionalInterface
public interface TransactionRunner {
    /**
     * Begins a transaction, calls the work once with the connection of that transaction, and commits it. If the work throws, it
     * <em>must</em> roll back, and pass the exception on as it is or as a cause. Nothing may be committed before the work returns.
     *
     * <p>If this returns, the job counts as done: if the transaction was rolled back all the same, the job runs again after its lease. An exception of the
     * commit is a failure of the job, unless the connection was lost: then no one knows whether it was committed, and nothing is reported.
     *
     * @param work the handler, and after it the end of its job. It throws unchecked exceptions only
     * @throws Exception if there is no transaction, the work threw, or the commit failed
     */
    void run(Consumer<Connection> work) throws Exception;
}
