package io.jobwright;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The jobs that this worker holds, and the waits for a free place, for news, and for the last one to end. */
final class Slots {
    private final int concurrency;
    private final Set<Running> held = new LinkedHashSet<>();
    private boolean news = true;
    private boolean stopping;
    private boolean groupsGoOn;

    Slots(int concurrency) {
        this.concurrency = concurrency;
    }

    /** Waits until there is room, and news or the end of the poll interval. Returns how much room, or 0 if the worker stops. */
    synchronized int awaitRoom(long pollNanos) throws InterruptedException {
        long end = System.nanoTime() + pollNanos;
        while (!stopping) {
            long left = end - System.nanoTime();
            int room = concurrency - held.size();
            if (room > 0 && (news || left <= 0)) {
                news = false;
                return room;
            }
            await(room > 0 ? left : pollNanos);
        }
        return 0;
    }

    /** A pause that only a stop makes shorter. */
    synchronized void pause(long millis) throws InterruptedException {
        long end = System.nanoTime() + millis * 1_000_000;
        for (long left = end - System.nanoTime(); left > 0 && !stopping; left = end - System.nanoTime()) {
            await(left);
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

    synchronized void add(Running running) {
        held.add(running);
    }

    /** A job that has ended makes room, and is a sign that more waits: a job that it sent, or the next of its group. */
    synchronized void remove(Running running) {
        if (held.remove(running)) {
            groupsGoOn |= running.job.exclusiveGroup() != null;
            news();
        }
    }

    /** Returns whether jobs of groups have ended since it was asked before. */
    synchronized boolean takeGroupsGoOn() {
        boolean goOn = groupsGoOn;
        groupsGoOn = false;
        return goOn;
    }

    synchronized void news() {
        news = true;
        notifyAll();
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
