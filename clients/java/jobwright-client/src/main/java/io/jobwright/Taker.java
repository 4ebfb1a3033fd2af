package io.jobwright;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.util.List;
import java.util.function.Consumer;

/** Takes jobs while there is room: after news at once, otherwise at its own pace. */
final class Taker implements Runnable {
    private static final Logger LOG = System.getLogger("io.jobwright.worker");

    private final Settings settings;
    private final SqlJobs sql;
    private final Slots slots;
    private final Outage outage;
    private final HeldConnection connection;
    private final Consumer<Running> start;
    private final Jobs jobs;
    private final Pace pace;

    Taker(Settings settings, SqlJobs sql, Slots slots, Outage outage, HeldConnection connection, Consumer<Running> start) {
        this.settings = settings;
        this.sql = sql;
        this.slots = slots;
        this.outage = outage;
        this.connection = connection;
        this.start = start;
        jobs = new Jobs(settings.schema(), settings.deadline());
        pace = new Pace(settings.poll(), System.nanoTime());
    }

    @Override
    public void run() {
        Backoff backoff = new Backoff();
        try {
            for (Slots.Look look = slots.awaitLook(pace.next()); look != null; look = slots.awaitLook(pace.next())) {
                try {
                    take(look);
                    outage.worked("take");
                    backoff.reset();
                } catch (SQLException | RuntimeException | Error e) {
                    outage.failed("take", e);
                    slots.pause(backoff.nextMillis());
                    slots.news();
                }
            }
        } catch (InterruptedException e) {
            LOG.log(Level.WARNING, "{0}: the thread that takes jobs was interrupted, as a container does when it stops: no more are taken", settings.name());
            Thread.currentThread().interrupt();
        }
    }

    private void take(Slots.Look look) throws SQLException {
        long before = System.nanoTime();
        List<Job> taken = connection.call(c -> sql.take(c, settings.take(look.room())));
        for (Job job : taken) {
            Running running = new Running(job, before + settings.lease().toNanos());
            slots.add(running);
            start.accept(running);
        }
        pace.looked(System.nanoTime(), !taken.isEmpty(), look.announced());
        if (taken.size() < look.room() && slots.needsAdmission()) {
            wakeExecutors();
        }
    }

    /**
     * The end of a job admits the next of its group, so that it is taken now. Where rules exist, and after a cancelled job, an executor has to
     * admit it. This role may not read whether that is so: if nothing of the group was there, an executor is asked to look.
     */
    private void wakeExecutors() {
        try {
            connection.call(c -> {
                jobs.wake(c, settings.queue());
                return null;
            });
            outage.worked("wake");
            pace.soon(System.nanoTime());
        } catch (SQLException e) {
            // It looks by itself in any case.
            outage.failed("wake", e);
        }
    }
}
