package io.jobwright;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;

/** Describes a {@link JobWorker}. It takes only kinds that have a handler, unless there is one for all {@linkplain #otherwise others}. */
public final class JobWorkerBuilder {
    private final DataSource dataSource;
    private final String queue;
    private final Map<String, Settings.Work> handlers = new LinkedHashMap<>();
    private Settings.Work otherwise;
    private String schema = Schema.DEFAULT;
    private String name;
    private List<String> contentTypes = List.of();
    private int concurrency = 4;
    private Duration lease = Duration.ofMinutes(1);
    private Duration poll = Duration.ofSeconds(5);
    private Duration deadline = Duration.ofSeconds(30);
    private Duration cancelGrace = Duration.ofSeconds(5);
    private TransactionRunner transactions;
    private boolean listen = true;
    private boolean wakeAfterEnds;
    private ThreadFactory threads;

    JobWorkerBuilder(DataSource dataSource, String queue) {
        this.dataSource = Objects.requireNonNull(dataSource, "dataSource");
        this.queue = Objects.requireNonNull(queue, "queue");
    }

    /**
     * Sets the handler of a kind.
     *
     * @param kind of the jobs
     * @param handler their work; called by several threads
     * @return this
     */
    public JobWorkerBuilder handler(String kind, JobHandler handler) {
        return resultHandler(kind, null, resultless(handler));
    }

    /**
     * Sets the handler of a kind whose jobs have results.
     *
     * @param kind of the jobs
     * @param keep how long a result can be read by the job's id: 1 second to 100 years; null: it is only sent as a reply, if one was asked for
     * @param handler their work; called by several threads
     * @return this
     */
    public JobWorkerBuilder resultHandler(String kind, Duration keep, ResultHandler handler) {
        handlers.put(Objects.requireNonNull(kind, "kind"), new Settings.Work(Objects.requireNonNull(handler, "handler"), keep));
        return this;
    }

    /**
     * Sets the handler of all kinds that have none of their own; the worker then takes any kind.
     *
     * @param handler their work; called by several threads
     * @return this
     */
    public JobWorkerBuilder otherwise(JobHandler handler) {
        otherwise = new Settings.Work(resultless(handler), null);
        return this;
    }

    private static ResultHandler resultless(JobHandler handler) {
        Objects.requireNonNull(handler, "handler");
        return (job, connection) -> {
            handler.run(job, connection);
            return null;
        };
    }

    /**
     * Sets the schema.
     *
     * @param schema {@code jobwright} without it
     * @return this
     */
    public JobWorkerBuilder schema(String schema) {
        this.schema = schema;
        return this;
    }

    /**
     * Sets the name for people, in {@code jobwright status} and in logs.
     *
     * @param name {@code queue@host:pid} without it
     * @return this
     */
    public JobWorkerBuilder name(String name) {
        this.name = name;
        return this;
    }

    /**
     * Sets how many jobs run at the same time.
     *
     * @param jobs 1 to 1,000; 4 without it
     * @return this
     */
    public JobWorkerBuilder concurrency(int jobs) {
        concurrency = jobs;
        return this;
    }

    /**
     * Sets the lease, which is renewed each third of it. Short ones mean short waits after a crash, and that a cancelled job is told soon.
     *
     * @param lease 1 second to 1 day; 1 minute without it
     * @return this
     */
    public JobWorkerBuilder lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /**
     * Sets the longest time between two looks at the queue, if no notification comes. After it found jobs that none announced it looks more
     * often: after 20 ms, and then less often by half each time.
     *
     * @param interval 10 ms or more; 5 seconds without it. Up to two fifths longer, so that workers don't poll together
     * @return this
     */
    public JobWorkerBuilder poll(Duration interval) {
        poll = interval;
        return this;
    }

    /**
     * Sets the deadline of each of the worker's own statements.
     *
     * @param deadline rounded up to seconds; 30 seconds without it, and never longer than a third of the lease, but 1 second at least
     * @return this
     */
    public JobWorkerBuilder deadline(Duration deadline) {
        this.deadline = deadline;
        return this;
    }

    /**
     * Sets how long a job that was told to stop may clean up, until its connection is aborted.
     *
     * @param grace 5 seconds without it
     * @return this
     */
    public JobWorkerBuilder cancelGrace(Duration grace) {
        cancelGrace = grace;
        return this;
    }

    /**
     * Sets how the transactions of handlers begin and commit.
     *
     * @param transactions {@link JdbcTransactions} of the data source without it
     * @return this
     */
    public JobWorkerBuilder transactions(TransactionRunner transactions) {
        this.transactions = transactions;
        return this;
    }

    /**
     * Sets whether it listens for notifications, with PostgreSQL's driver.
     *
     * @param listen true without it. Set false behind a pooler in transaction mode, where it has no effect and holds a connection
     * @return this
     */
    public JobWorkerBuilder listen(boolean listen) {
        this.listen = listen;
        return this;
    }

    /**
     * Sets whether executors are told of the ends of jobs. Where rules limit the jobs of this queue, an executor has to admit the next one, and
     * without this it learns of an end at its own next poll. After jobs of groups they are told in any case, if that may be needed.
     *
     * @param wake false without it
     * @return this
     */
    public JobWorkerBuilder wakeAfterEnds(boolean wake) {
        wakeAfterEnds = wake;
        return this;
    }

    /**
     * Names sealed or compressed formats that the handlers can read. Without it, such jobs are left to others.
     *
     * @param types content types, such as {@code application/jose}; {@code *} for all
     * @return this
     */
    public JobWorkerBuilder contentTypes(String... types) {
        contentTypes = List.of(types);
        return this;
    }

    /**
     * Sets the maker of the threads of handlers, for example a container's {@code ManagedThreadFactory}.
     *
     * @param threads ordinary ones without it, that keep the process alive until the worker is stopped
     * @return this
     */
    public JobWorkerBuilder threads(ThreadFactory threads) {
        this.threads = threads;
        return this;
    }

    /**
     * Starts the worker. It needs no database yet: while that can't be reached, it tries again.
     *
     * @return the worker, which runs until it is closed
     * @throws IllegalArgumentException if it could take nothing, or a number or duration is out of range
     */
    public JobWorker start() {
        require(!handlers.isEmpty() || otherwise != null, "the worker has no handler, so it could take nothing");
        require(concurrency >= 1 && concurrency <= 1_000, "concurrency must be 1 to 1000");
        require(lease.toMillis() >= 1_000 && lease.compareTo(Duration.ofDays(1)) <= 0, "the lease must be 1 second to 1 day");
        require(poll.toMillis() >= 10, "the poll interval must be 10 ms or more");
        require(!deadline.isNegative() && !deadline.isZero(), "the deadline must be longer than nothing");
        require(!cancelGrace.isNegative(), "the cancelGrace must not be negative");
        Duration third = Duration.ofMillis(Math.max(1_000, lease.toMillis() / 3));
        String called = name == null ? queue + "@" + host() + ":" + ProcessHandle.current().pid() : name;
        JobWorker worker = new JobWorker(new Settings(dataSource, queue, schema, called, Map.copyOf(handlers), otherwise, contentTypes, concurrency,
                lease, poll, deadline.compareTo(third) > 0 ? third : deadline, cancelGrace,
                transactions == null ? new JdbcTransactions(dataSource) : transactions, listen, wakeAfterEnds,
                threads == null ? numbered() : threads));
        worker.start();
        return worker;
    }

    private static void require(boolean holds, String message) {
        if (!holds) {
            throw new IllegalArgumentException(message);
        }
    }

    private ThreadFactory numbered() {
        AtomicInteger number = new AtomicInteger();
        return work -> {
            Thread thread = new Thread(work, "jobwright-" + queue + "-" + number.getAndIncrement());
            thread.setDaemon(false);
            return thread;
        };
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }
}
