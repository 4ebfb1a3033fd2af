package io.jobwright;

import io.jobwright.Cancellation.Reason;
import java.sql.Connection;
import java.time.Duration;

/**
 * A job that this worker holds, from {@code take} to its end. Its monitor decides every race between the thread that runs it and those that
 * renew, watch and stop.
 */
final class Running {
    private enum State {
        /** Its handler has not begun: it can be given back. */
        TAKEN,
        /** Its handler runs: it can be told to stop. */
        BEGUN,
        /** Its handler returned or threw: the rest is not interrupted. */
        ENDING,
        /** It is another's, or no one's. */
        OVER
    }

    final Job job;
    private State state = State.TAKEN;
    private Thread thread;
    private Connection connection;
    /** By {@link System#nanoTime}, from before the call that took or renewed it: never later than the database's own end. */
    private long leaseEnd;
    private long toldAt;

    Running(Job job, long leaseEnd) {
        this.job = job;
        this.leaseEnd = leaseEnd;
    }

    /** From now on this thread works for the job; it may have to wait for a connection. */
    synchronized boolean attach() {
        thread = Thread.currentThread();
        return state == State.TAKEN && !job.isCancelled();
    }

    /** The handler begins, unless the job was given back or lost meanwhile: a pause of this process may have lasted longer than the lease. */
    synchronized void begin(Connection on) {
        watch(System.nanoTime(), null);
        if (state != State.TAKEN || job.isCancelled()) {
            throw new NotOurs("the job was given back, or lost, before its handler began, or its transaction was begun twice");
        }
        state = State.BEGUN;
        connection = on;
    }

    /** The handler returned: from here on only the database decides, by the token, and an interrupt that the handler left behind is not for the commit. */
    synchronized void end() {
        watch(System.nanoTime(), null);
        if (job.isCancelled()) {
            throw new NotOurs("the job was " + job.cancellation().reason().orElseThrow() + " while its handler ran");
        }
        state = State.ENDING;
        Thread.interrupted();
    }

    /** The connection goes back to its owner, and must not be aborted any more. */
    synchronized void leaveConnection() {
        connection = null;
    }

    /** The transaction is over, however it ended. No interrupt comes later, and none stays. */
    synchronized void settle() {
        if (state != State.OVER) {
            state = State.ENDING;
        }
        connection = null;
        thread = null;
        Thread.interrupted();
    }

    /** Returns whether the handler has not begun and never will. */
    synchronized boolean giveBack() {
        if (state != State.TAKEN) {
            return false;
        }
        state = State.OVER;
        if (thread != null) {
            thread.interrupt();
        }
        return true;
    }

    synchronized void tell(Reason reason, long now) {
        if (state == State.ENDING || state == State.OVER || job.isCancelled()) {
            return;
        }
        job.cancellation().tell(reason);
        toldAt = now;
        if (thread != null) {
            thread.interrupt();
        }
    }

    synchronized void renewed(long end) {
        leaseEnd = end;
    }

    synchronized boolean leaseIsOver(long now) {
        return now - leaseEnd >= 0;
    }

    /** Returns whether its lease is to be renewed: the worker that stops keeps it too, until the handler has ended. */
    synchronized boolean isKept() {
        return state != State.OVER && !isLost() && job.cancellation().reason().orElse(null) != Reason.CANCELLED;
    }

    /** Returns whether another attempt may have begun, here too. */
    synchronized boolean isLost() {
        Reason told = job.cancellation().reason().orElse(null);
        return told == Reason.LOST || told == Reason.LEASE_ENDED;
    }

    synchronized boolean isOver() {
        return state == State.OVER;
    }

    /** Tells a job whose lease is over, and cuts off one that goes on for too long after it was told: its statement may wait for ever. */
    synchronized void watch(long now, Duration grace) {
        if (leaseIsOver(now)) {
            tell(Reason.LEASE_ENDED, now);
        }
        if (grace != null && job.isCancelled() && connection != null && now - toldAt >= grace.toNanos()) {
            JdbcTransactions.abort(connection);
            connection = null;
        }
    }

    /** Rolls back: the job is no longer this worker's. */
    static final class NotOurs extends RuntimeException {
        private static final long serialVersionUID = 1L;

        NotOurs(String message) {
            super(message);
        }
    }
}
