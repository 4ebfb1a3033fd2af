package io.jobwright;

import io.jobwright.Cancellation.Reason;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/**
 * Takes jobs of one queue and runs them, each in one transaction: its handler's writes, the messages it sends and the end of the job are
 * one commit, or none of them happened.
 *
 * <pre>{@code
 * JobWorker worker = JobWorker.on(dataSource, "mail")
 *         .handler("send-mail", (job, connection) -> mailer.send(job.payload(), connection))
 *         .concurrency(8)
 *         .start();
 * Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
 * }</pre>
 *
 * <p>It takes no more jobs than it has free places. While handlers run it renews their leases; a job that was lost or cancelled is told
 * ({@link Job#isCancelled()} and an interrupt) and can't commit. If it ignores that for the {@code cancelGrace}, its connection is
 * aborted. A worker that dies is replaced after its leases.
 *
 * <p>After a lost connection it opens others, with pauses of up to 10 s, and logs one line for an outage and one for its end, to the
 * {@link System.Logger} {@code io.jobwright.worker}.
 *
 * <p>It needs {@code concurrency} + 3 connections of the data source, which should be a pool: one to take, one to renew, one to listen,
 * and one for each handler. Its own calls have deadlines. Those of handlers do not: set the driver's {@code socketTimeout} and
 * {@code loginTimeout}, and the pool's own time to wait.
 */
public final class JobWorker implements AutoCloseable {
    private static final Logger LOG = System.getLogger("io.jobwright.worker");
    private static final Duration GRACE = Duration.ofSeconds(30);

    private final Settings settings;
    private final SqlJobs sql;
    private final Slots slots;
    private final Outage outage;
    private final HeldConnection takes;
    private final HeldConnection renews;
    private final ThreadPoolExecutor handlers;
    private final ScheduledThreadPoolExecutor scheduler;
    private final Thread taker;
    private final Thread listener;

    JobWorker(Settings settings) {
        this.settings = settings;
        sql = new SqlJobs(settings.schema(), settings.deadline());
        slots = new Slots(settings.concurrency(), settings.wakeAfterEnds());
        outage = new Outage(settings.name());
        takes = new HeldConnection(settings.dataSource(), settings.deadline());
        renews = new HeldConnection(settings.dataSource(), settings.deadline());
        int most = settings.concurrency();
        handlers = new ThreadPoolExecutor(most, most, 1, TimeUnit.MINUTES, new LinkedBlockingQueue<>(), settings.threads());
        handlers.allowCoreThreadTimeOut(true);
        scheduler = new ScheduledThreadPoolExecutor(2, work -> daemon(work, "jobwright-leases"));
        taker = settings.threads().newThread(new Taker(settings, sql, slots, outage, takes, this::begin));
        listener = settings.listen() && hasDriver() ? daemon(new Listener(settings, slots, outage), "jobwright-listen") : null;
    }

    /** Asked here, because the class that listens can't even be loaded without PostgreSQL's driver. */
    private static boolean hasDriver() {
        try {
            Class.forName("org.postgresql.PGConnection", false, JobWorker.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }

    /**
     * Begins to describe a worker.
     *
     * @param dataSource a pool, with at least {@code concurrency} + 3 connections
     * @param queue from which jobs are taken
     * @return a builder
     */
    public static JobWorkerBuilder on(DataSource dataSource, String queue) {
        return new JobWorkerBuilder(dataSource, queue);
    }

    void start() {
        Renewer renewer = new Renewer(settings, sql, slots, outage, renews, scheduler);
        scheduler.schedule(renewer, settings.lease().toMillis() / 3, TimeUnit.MILLISECONDS);
        long watch = Math.max(10, Math.min(1_000, settings.lease().toMillis() / 20));
        scheduler.scheduleWithFixedDelay(this::watch, watch, watch, TimeUnit.MILLISECONDS);
        taker.start();
        if (listener != null) {
            listener.start();
        }
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = Executors.defaultThreadFactory().newThread(work);
        thread.setName(name);
        thread.setDaemon(true);
        return thread;
    }

    private void begin(Running running) {
        if (slots.isStopping()) {
            // The stop gives it back.
            return;
        }
        try {
            handlers.execute(new JobRun(settings, sql, slots, outage, running));
        } catch (RuntimeException | OutOfMemoryError e) {
            // Without a thread it must not be renewed for ever.
            LOG.log(Level.ERROR, settings.name() + ": no thread for " + running.job + ", which runs again after its lease", e);
            running.giveBack();
            slots.remove(running);
        }
    }

    private void watch() {
        long now = System.nanoTime();
        slots.all().forEach(running -> running.watch(now, settings.cancelGrace()));
    }

    /** Stops with 30 seconds for the jobs that run: {@link #stop}. */
    @Override
    public void close() {
        stop(GRACE);
    }

    /**
     * Takes no more, gives back the jobs whose handlers have not begun, and waits for the others, whose leases it renews meanwhile. When
     * the time is over they are interrupted, rolled back, and given back at no attempt. Calling it again has no effect.
     *
     * @param grace how long it waits for handlers
     * @return whether all of them have ended. If not, their jobs run elsewhere after their leases, and their work here can't commit
     */
    public boolean stop(Duration grace) {
        slots.stop();
        boolean ended = false;
        try {
            taker.join(settings.deadline().toMillis() + 5_000);
            if (listener != null) {
                listener.join(5_000);
            }
            giveBack();
            ended = slots.awaitEmpty(grace.toNanos());
            if (!ended) {
                slots.all().forEach(running -> running.tell(Reason.STOPPING, System.nanoTime()));
                ended = slots.awaitEmpty(settings.cancelGrace().plusSeconds(5).toNanos());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            // Those that still run are interrupted now, and shall know why.
            slots.all().forEach(running -> running.tell(Reason.STOPPING, System.nanoTime()));
            handlers.shutdownNow();
            scheduler.shutdownNow();
            takes.close();
            renews.close();
        }
        return ended;
    }

    private void giveBack() {
        List<Running> unbegun = slots.all().stream().filter(Running::giveBack).toList();
        List<Handout> released = unbegun.stream().filter(running -> !running.isLost()).map(running -> running.job.handout()).toList();
        try {
            if (!released.isEmpty()) {
                takes.call(connection -> sql.lenient().releaseMany(connection, released));
            }
        } catch (SQLException e) {
            outage.failed("giving back jobs that were not begun", e);
        }
        unbegun.forEach(slots::remove);
    }
}
