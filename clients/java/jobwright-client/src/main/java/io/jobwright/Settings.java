package io.jobwright;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadFactory;
import javax.sql.DataSource;

/** The options of a worker. */
record Settings(
        DataSource dataSource,
        String queue,
        String schema,
        String name,
        Map<String, Work> handlers,
        Work otherwise,
        List<String> contentTypes,
        int concurrency,
        Duration lease,
        Duration poll,
        Duration deadline,
        Duration cancelGrace,
        TransactionRunner transactions,
        boolean listen,
        boolean wakeAfterEnds,
        ThreadFactory threads) {

    /** A handler, and how long its result is kept. */
    record Work(ResultHandler handler, Duration keep) {}

    Work work(Job job) {
        return handlers.getOrDefault(job.kind(), otherwise);
    }

    Take take(int n) {
        return new Take(queue, name, n, lease, otherwise == null ? List.copyOf(handlers.keySet()) : List.of(), contentTypes);
    }
}
