package io.jobwright;

import io.jobwright.Cancellation.Reason;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** Renews the leases of all held jobs, every third of the lease, and learns which are lost or cancelled. */
final class Renewer implements Runnable {
    private final Settings settings;
    private final SqlJobs sql;
    private final Slots slots;
    private final Outage outage;
    private final HeldConnection connection;
    private final ScheduledExecutorService scheduler;

    Renewer(Settings settings, SqlJobs sql, Slots slots, Outage outage, HeldConnection connection, ScheduledExecutorService scheduler) {
        this.settings = settings;
        this.sql = sql.lenient();
        this.slots = slots;
        this.outage = outage;
        this.connection = connection;
        this.scheduler = scheduler;
    }

    @Override
    public void run() {
        long third = settings.lease().toMillis() / 3;
        long soon = Math.min(third / 4, 1_000);
        long next = third;
        try {
            next = renew() ? third : soon;
            outage.worked("the renewal of leases");
        } catch (SQLException | RuntimeException e) {
            outage.failed("the renewal of leases", e);
            next = soon;
        } finally {
            try {
                scheduler.schedule(this, next, TimeUnit.MILLISECONDS);
            } catch (RejectedExecutionException e) {
                // The worker has stopped.
            }
        }
    }

    /** Returns whether each answer was final: a job that another transaction is just ending is asked about soon again. */
    private boolean renew() throws SQLException {
        List<Running> held = slots.all().stream().filter(Running::isKept).toList();
        if (held.isEmpty()) {
            return true;
        }
        boolean isFinal = true;
        long sent = System.nanoTime();
        List<Lease> leases = connection.call(c -> sql.extendMany(c, held.stream().map(running -> running.job.handout()).toList(), null));
        Map<UUID, Lease.State> states = new HashMap<>();
        leases.forEach(lease -> states.put(lease.id(), lease.state()));
        for (Running running : held) {
            switch (states.getOrDefault(running.job.id(), Lease.State.LOST)) {
                case HELD -> running.renewed(sent + settings.lease().toNanos());
                case ENDING -> isFinal = false;
                case CANCELLED -> running.tell(Reason.CANCELLED, System.nanoTime());
                case LOST -> running.tell(Reason.LOST, System.nanoTime());
            }
        }
        return isFinal;
    }
}
