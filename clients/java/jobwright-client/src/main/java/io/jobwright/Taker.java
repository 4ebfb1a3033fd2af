package io.jobwright;

import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;

/** Takes jobs while there is room: at once after news, otherwise at each poll. */
final class Taker implements Runnable {
    private final Settings settings;
    private final SqlJobs sql;
    private final Slots slots;
    private final Outage outage;
    private final HeldConnection connection;
    private final Consumer<Running> start;
    private final Jobs jobs;

    Taker(Settings settings, SqlJobs sql, Slots slots, Outage outage, HeldConnection connection, Consumer<Running> start) {
        this.settings = settings;
        this.sql = sql;
        this.slots = slots;
        this.outage = outage;
        this.connection = connection;
        this.start = start;
        jobs = new Jobs(settings.schema(), settings.deadline());
    }

    @Override
    public void run() {
        Backoff backoff = new Backoff();
        try {
            for (int room = slots.awaitRoom(poll()); room > 0; room = slots.awaitRoom(poll())) {
                try {
                    take(room);
                    outage.worked("take");
                    backoff.reset();
                } catch (SQLException | RuntimeException e) {
                    outage.failed("take", e);
                    slots.pause(backoff.nextMillis());
                    slots.news();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void take(int room) throws SQLException {
        if (slots.takeGroupsGoOn()) {
            wakeExecutors();
        }
        long before = System.nanoTime();
        List<Job> taken = connection.call(c -> sql.take(c, settings.take(room)));
        for (Job job : taken) {
            Running running = new Running(job, before + settings.lease().toNanos());
            slots.add(running);
            start.accept(running);
        }
        if (taken.size() == room) {
            slots.news();
        }
    }

    /** An executor has to admit the next of a group. It looks now, and not at its next poll, and then notifies this worker. */
    private void wakeExecutors() {
        try {
            connection.call(c -> {
                jobs.wake(c, settings.queue());
                return null;
            });
            outage.worked("wake");
        } catch (SQLException e) {
            // It looks by itself in any case.
            outage.failed("wake", e);
        }
    }

    /** Up to two fifths longer than asked for, so that workers don't poll together. */
    private long poll() {
        Duration poll = settings.poll();
        return poll.toNanos() + ThreadLocalRandom.current().nextLong(poll.toNanos() * 2 / 5 + 1);
    }
}
