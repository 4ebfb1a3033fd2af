package io.jobwright.examples.flowable;

import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.sql.DataSource;
import org.flowable.engine.ProcessEngine;
import org.flowable.engine.impl.cfg.ProcessEngineConfigurationImpl;

/**
 * Takes jobs of jobwright and executes the rows of Flowable that they stand for, instead of Flowable's own executor.
 *
 * <p>Each of its slots is a thread. It executes a row, ends its job and takes the next one in a single transaction
 * ({@link JobTransaction}): one commit for each job. A slot that finds nothing waits for a notification, and one that finds a job then
 * wakes another slot.
 */
public final class FlowableWorker implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(FlowableWorker.class.getName());
    /** Notifications may get lost. */
    private static final Duration POLL = Duration.ofSeconds(5);
    private static final Duration PAUSE_AFTER_ERROR = Duration.ofSeconds(1);

    private final DataSource dataSource;
    private final Functions functions;
    private final JobTransaction transaction;
    private final Bell bell = new Bell();
    private final Set<TakenJob> held = ConcurrentHashMap.newKeySet();
    private final List<Thread> slots = new ArrayList<>();
    private final Listener listener;
    private volatile boolean stopping;

    /**
     * Starts to work.
     *
     * @param engine whose own executor is switched off (asyncExecutorActivate)
     * @param name for people: {@code jobwright status} shows it
     * @param concurrency how many jobs run at once, each with a connection of the engine's data source; one more is needed
     * @param lease after which others take the jobs of a worker that died. It is renewed while jobs run
     */
    public FlowableWorker(ProcessEngine engine, String name, int concurrency, Duration lease) {
        ProcessEngineConfigurationImpl configuration = (ProcessEngineConfigurationImpl) engine.getProcessEngineConfiguration();
        if (configuration.getAsyncExecutor() != null && configuration.getAsyncExecutor().isActive()) {
            throw new IllegalStateException("Flowable's own executor is active and would execute the same rows: set asyncExecutorActivate to false");
        }
        dataSource = configuration.getDataSource();
        functions = new Functions(name, lease);
        transaction = new JobTransaction(configuration, functions);
        listener = new Listener(dataSource, bell, held, lease);
        for (int i = 0; i < concurrency; i++) {
            Thread slot = new Thread(this::work, "jobwright-flowable-" + i);
            slots.add(slot);
            slot.start();
        }
    }

    private void work() {
        TakenJob job = null;
        while (job != null || !stopping) {
            job = job == null ? await() : run(job);
        }
        bell.ring();
    }

    private TakenJob await() {
        try {
            bell.await(POLL);
            if (stopping) {
                return null;
            }
            try (Connection connection = dataSource.getConnection()) {
                connection.setAutoCommit(true);
                TakenJob job = functions.take(connection);
                if (job != null) {
                    held.add(job);
                    bell.ring();
                }
                return job;
            } catch (SQLException | RuntimeException e) {
                LOG.log(Level.WARNING, "no job of Flowable could be taken; it is tried again", e);
                Thread.sleep(PAUSE_AFTER_ERROR.toMillis());
                return null;
            }
        } catch (InterruptedException e) {
            // Only a stop ends a slot. An interrupt came from a delegate's own code.
            return null;
        }
    }

    /** Executes the row of a job, and returns the next job. */
    private TakenJob run(TakenJob job) {
        TakenJob next = null;
        try {
            next = transaction.execute(job, !stopping);
        } catch (Throwable thrown) {
            next = failed(job, thrown);
        }
        if (next != null) {
            held.add(next);
        }
        held.remove(job);
        return next;
    }

    private TakenJob failed(TakenJob job, Throwable thrown) {
        if (Functions.isLate(thrown)) {
            LOG.log(Level.INFO, "{0} was ended elsewhere, and its work here is rolled back", job);
            report(job, connection -> Functions.release(connection, job));
            return null;
        }
        LOG.log(Level.WARNING, job + " failed", thrown);
        if (job.kind().equals(TakenJob.EXECUTABLE)) {
            try {
                return transaction.recordFailure(job, thrown, !stopping);
            } catch (Throwable unrecorded) {
                LOG.log(Level.WARNING, "Flowable could not record the failure of " + job + "; jobwright repeats the job", unrecorded);
            }
        }
        report(job, connection -> Functions.fail(connection, job, thrown));
        return null;
    }

    private void report(TakenJob job, Report report) {
        try (Connection connection = dataSource.getConnection()) {
            connection.setAutoCommit(true);
            report.on(connection);
        } catch (SQLException | RuntimeException e) {
            LOG.log(Level.WARNING, job + " could not be ended; it runs again after its lease", e);
        }
        // No next job was taken with this end.
        bell.ring();
    }

    private interface Report {
        void on(Connection connection) throws SQLException;
    }

    /** Takes no more jobs, and returns when those that run have ended. */
    @Override
    public void close() {
        stopping = true;
        bell.ring();
        boolean interrupted = false;
        for (Thread slot : slots) {
            while (slot.isAlive()) {
                try {
                    slot.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        listener.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
