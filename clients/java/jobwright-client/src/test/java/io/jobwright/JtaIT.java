package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import jakarta.transaction.Transaction;
import jakarta.transaction.TransactionManager;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.UUID;
import javax.sql.XAConnection;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.postgresql.ds.PGSimpleDataSource;
import org.postgresql.xa.PGXADataSource;

/** Transactions of JTA, with Narayana. They have one branch, so no server needs to allow prepared transactions. */
class JtaIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    @TempDir
    static Path store;

    private static TransactionManager manager;

    @BeforeAll
    static void configure() {
        for (String name : new String[] {null, "communicationStore", "stateStore"}) {
            BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, name).setObjectStoreDir(store.toString());
        }
        // It would listen on a port, for a recovery in another process.
        arjPropertyManager.getCoordinatorEnvironmentBean().setTransactionStatusManagerEnable(false);
        manager = com.arjuna.ats.jta.TransactionManager.transactionManager();
    }

    /** A container does the same behind its data source. */
    private static void enlisted(java.util.function.Consumer<Connection> work) throws Exception {
        PGSimpleDataSource plain = TestDatabase.driver("jta");
        PGXADataSource source = new PGXADataSource();
        source.setServerNames(plain.getServerNames());
        source.setPortNumbers(plain.getPortNumbers());
        source.setDatabaseName(plain.getDatabaseName());
        source.setUser(plain.getUser());
        source.setPassword(plain.getPassword());
        XAConnection connection = source.getXAConnection();
        try {
            manager.begin();
            Transaction transaction = manager.getTransaction();
            try {
                transaction.enlistResource(connection.getXAResource());
                work.accept(connection.getConnection());
            } catch (Throwable thrown) {
                manager.rollback();
                throw thrown;
            }
            manager.commit();
        } finally {
            connection.close();
        }
    }

    @Test
    void the_work_commits_and_rolls_back_with_the_job() throws Exception {
        UUID good = DB.send("good");
        UUID bad = DB.send(NewJob.json("bad", "{}").maxAttempts(1));
        UUID message = UUID.randomUUID();
        try (JobWorker worker = DB.worker().transactions(JtaIT::enlisted).handler("good", (job, connection) -> {
            DB.write(connection, job, "x");
            DB.jobs.send(connection, NewJob.json("message", "{}").id(message));
        }).handler("bad", (job, connection) -> {
            DB.write(connection, job, "x");
            throw new IllegalStateException("no");
        }).start()) {
            DB.awaitState(good, "gone");
            DB.awaitState(bad, "dead");
        }
        assertEquals(1, DB.written(good));
        assertEquals("waiting", DB.state(message));
        assertEquals(0, DB.written(bad));
    }

    @Test
    void a_job_that_was_cancelled_rolls_back_the_global_transaction() throws Exception {
        UUID id = DB.send("cancelled");
        try (JobWorker worker = DB.worker().lease(java.time.Duration.ofHours(1)).transactions(JtaIT::enlisted)
                .handler("cancelled", (job, connection) -> {
            DB.write(connection, job, "x");
            try (Connection other = DB.pool.getConnection()) {
                DB.jobs.cancel(other, job.id());
            }
        }).start()) {
            TestDatabase.await("its release", () -> DB.state(id).equals("gone")
                    && (long) DB.value("select count(*) from " + DB.in + "terminating_handler") == 0);
        }
        assertEquals(0, DB.written(id));
    }

    @Test
    void a_send_is_part_of_the_global_transaction() throws Exception {
        UUID[] id = new UUID[1];
        enlisted(connection -> id[0] = send(connection));
        assertEquals("waiting", DB.state(id[0]));
    }

    private static UUID send(Connection connection) {
        try {
            return DB.jobs.send(connection, NewJob.json("sent", "{}"));
        } catch (java.sql.SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
