package io.jobwright;

import io.jobwright.Cancellation.Reason;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The jobs that this worker holds, and the waits for a free place, for news, and for the last one to end. */
final class Slots {
    /** A reason to ask for so many jobs. */
    record Look(int room, boolean announced) {}

    private final int concurrency;
    private final boolean wakeAfterEnds;
    private final Set<Running> held = new LinkedHashSet<>();
    private final Set<String> leftGroups = new HashSet<>();
    private boolean news = true;
    private boolean announced;
    private boolean otherEnds;
    private boolean stopping;

    Slots(int concurrency, boolean wakeAfterEnds) {
        this.concurrency = concurrency;
        this.wakeAfterEnds = wakeAfterEnds;
    }

    /** Waits until there is room, and news or this moment. Returns null if the worker stops. */
    synchronized Look awaitLook(long until) throws InterruptedException {
        while (!stopping) {
            long left = until - System.nanoTime();
            int room = concurrency - held.size();
            if (room > 0 && (news || left <= 0)) {
                Look look = new Look(room, announced);
                news = false;
                announced = false;
                return look;
            }
            // Without room, the end of a job ends the wait.
            await(room > 0 ? left : 1_000_000_000);
        }
        return null;
    }

    /** A pause that only a stop makes shorter. */
    synchronized void pause(long millis) throws InterruptedException {
        long end = System.nanoTime() + millis * 1_000_000;
        for (long left = end - System.nanoTime(); left > 0 && !stopping; left = end - System.nanoTime()) {
            await(left);
        }
    }

    /** The same; an interrupt ends it too, and is passed on. */
    void pauseUninterrupted(long millis) {
        try {
            pause(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns whether all jobs have ended in time. */
    synchronized boolean awaitEmpty(long nanos) throws InterruptedException {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0 && !held.isEmpty(); left = end - System.nanoTime()) {
            await(left);
        }
        return held.isEmpty();
    }

    private void await(long nanos) throws InterruptedException {
        wait(Math.max(1, nanos / 1_000_000));
    }

    /** An earlier attempt of the same job, which may still be held after a pause of this process, is lost. */
    synchronized void add(Running running) {
        held.stream().filter(other -> other.job.id().equals(running.job.id())).forEach(other -> other.tell(Reason.LOST, System.nanoTime()));
        held.add(running);
        leftGroups.remove(running.job.exclusiveGroup());
    }

    /** A job that has ended makes room, and is a sign that more waits: a job that it sent, or the next of its group. */
    synchronized void remove(Running running) {
        if (held.remove(running)) {
            otherEnds |= wakeAfterEnds;
            // More names change nothing: it is enough that there are some.
            if (running.job.exclusiveGroup() != null && leftGroups.size() < 1_000) {
                leftGroups.add(running.job.exclusiveGroup());
            }
            news();
        }
    }

    /** Returns whether an executor may have to admit the next: a job of a group has ended here, and none of its group was taken since. It says so once. */
    synchronized boolean needsAdmission() {
        boolean needed = otherEnds || !leftGroups.isEmpty();
        otherEnds = false;
        leftGroups.clear();
        return needed;
    }

    synchronized void news() {
        news = true;
        notifyAll();
    }

    /** A notification says that there are jobs, or one may have been missed. */
    synchronized void announce() {
        announced = true;
        news();
    }

    synchronized void stop() {
        stopping = true;
        notifyAll();
    }

    synchronized boolean isStopping() {
        return stopping;
    }

    synchronized List<Running> all() {
        return new ArrayList<>(held);
    }
}
