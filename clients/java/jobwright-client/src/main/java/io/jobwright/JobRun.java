package io.jobwright;

import io.jobwright.Cancellation.Reason;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;

/** Runs one job in a transaction with its end, or rolls back and reports why. */
final class JobRun implements Runnable {
    private static final Logger LOG = System.getLogger("io.jobwright.worker");

    private static final long NO_TRANSACTION_MILLIS = 1_000;

    private final Settings settings;
    private final SqlJobs sql;
    private final Slots slots;
    private final Outage outage;
    private final Running running;
    private Throwable failure;
    private boolean begun;
    private boolean ended;

    JobRun(Settings settings, SqlJobs sql, Slots slots, Outage outage, Running running) {
        this.settings = settings;
        this.sql = sql;
        this.slots = slots;
        this.outage = outage;
        this.running = running;
    }

    @Override
    public void run() {
        try {
            boolean isLeft = !running.attach() || !inTransaction();
            running.settle();
            if (isLeft && !running.isOver()) {
                report();
            }
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, settings.name() + ": " + running.job + " could not be reported; it runs again after its lease", e);
        } finally {
            running.settle();
            slots.remove(running);
        }
    }

    /** Returns whether nothing is left to be said: the job's end was committed, or no one knows whether it was. */
    private boolean inTransaction() {
        try {
            settings.transactions().run(this::work);
            if (!begun) {
                failure = new IllegalStateException("the TransactionRunner did not run the work");
            }
        } catch (Throwable thrown) {
            if (ended && failure == null && isUnknown(thrown)) {
                LOG.log(Level.WARNING, "{0}: the connection was lost while {1} was committed: it is done, or runs again after its lease: {2}",
                        settings.name(), running.job, thrown);
                return true;
            }
            failure = failure == null ? thrown : failure;
        }
        return failure == null;
    }

    /** Returns whether a commit that threw this may have happened: the server did not refuse it, but fell silent, or was shut down. */
    private static boolean isUnknown(Throwable thrown) {
        int depth = 0;
        for (Throwable t = thrown; t != null && depth < 50; t = t.getCause(), depth++) {
            if (t instanceof SQLException e) {
                String state = e.getSQLState() == null ? "08" : e.getSQLState();
                return state.startsWith("08") || state.startsWith("57") || state.startsWith("58") || state.startsWith("XX") || state.equals("40003");
            }
        }
        return false;
    }

    /** The handler, and the end of its job. The exception is kept, because a manager of transactions may wrap or replace it. */
    private void work(Connection connection) {
        Job job = running.job;
        try {
            running.begin(connection);
            begun = true;
            outage.worked("a transaction for a job");
            Settings.Work work = settings.work(job);
            String result = work.handler().run(job, connection);
            running.end();
            sql.done(connection, job.handout(), result, result == null ? null : work.keep());
            ended = true;
        } catch (Throwable thrown) {
            failure = failure == null ? thrown : failure;
            throw new RolledBack(thrown);
        } finally {
            running.leaveConnection();
        }
    }

    /** Says how the job ended, in a transaction of its own. Tries again for as long as a lease, if the one it has lasts. */
    private void report() {
        Reason told = running.job.cancellation().reason().orElse(null);
        if (running.isLost() || SqlJobs.isLate(failure)) {
            LOG.log(Level.INFO, "{0}: {1} outlived its lease, and was rolled back", settings.name(), running.job);
            return;
        }
        boolean neverBegan = told == null && !begun && failure instanceof Exception;
        if (neverBegan) {
            outage.failed("a transaction for a job", failure);
            // Or it would be taken and given back in a circle.
            slots.pauseUninterrupted(NO_TRANSACTION_MILLIS);
        }
        HeldConnection.Use<Boolean> call = lastCall(neverBegan || told == Reason.CANCELLED || told == Reason.STOPPING || SqlJobs.isCancelled(failure));
        Backoff backoff = new Backoff();
        long end = System.nanoTime() + settings.lease().toNanos();
        while (true) {
            try {
                HeldConnection.once(settings.dataSource(), settings.deadline(), call);
                outage.worked("the report of a job");
                return;
            } catch (SQLException | RuntimeException e) {
                outage.failed("the report of a job", e);
            }
            long pause = backoff.nextMillis();
            long next = System.nanoTime() + pause * 1_000_000;
            if (next - end > 0 || running.leaseIsOver(next) || slots.isStopping()) {
                LOG.log(Level.WARNING, "{0}: {1} could not be reported; it runs again after its lease", settings.name(), running.job);
                return;
            }
            slots.pauseUninterrupted(pause);
        }
    }

    /** The call that ends the job without its work. If it is too late, it has no effect. */
    private HeldConnection.Use<Boolean> lastCall(boolean givenBack) {
        Job job = running.job;
        SqlJobs lenient = sql.lenient();
        if (givenBack) {
            return connection -> lenient.release(connection, job.handout());
        }
        if (failure instanceof LaterException later) {
            return connection -> lenient.later(connection, job.handout(), later.delay());
        }
        Failure recorded = failure == null ? new Failure("the handler was not run", null, null, false) : Failure.of(failure);
        Failure judged = failure instanceof FatalException ? recorded.fatal() : recorded;
        return connection -> {
            boolean isRecorded = lenient.fail(connection, job.handout(), judged);
            // It was committed if the exception came after that, from another participant in the transaction.
            String event = isRecorded ? "failed" : "was ended, or lost, before this could be recorded as a failure";
            LOG.log(Level.WARNING, "{0}: {1} {2}: {3}", settings.name(), job, event, judged.error());
            return isRecorded;
        };
    }

    /** Makes the manager of the transaction roll back. */
    private static final class RolledBack extends RuntimeException {
        private static final long serialVersionUID = 1L;

        RolledBack(Throwable cause) {
            super("the work of a job is rolled back", cause);
        }
    }
}
