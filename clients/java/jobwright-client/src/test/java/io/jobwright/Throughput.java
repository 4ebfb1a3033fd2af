package io.jobwright;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * Measures how many jobs that do nothing one process runs per second, as the median of five rounds. It is no test; to run it, with the
 * variables of check.sh: {@code mvn test-compile dependency:build-classpath -Dmdep.outputFile=cp}, then
 * {@code java -cp target/classes:target/test-classes:$(cat cp) io.jobwright.Throughput} in the module's folder.
 */
final class Throughput {
    private static final TestDatabase DB = new TestDatabase();
    private static final int JOBS = 10_000;
    private static final int ROUNDS = 5;

    private interface Round {
        void run() throws Exception;
    }

    private Throughput() {}

    public static void main(String[] arguments) throws Exception {
        DB.beforeAll(null);
        try {
            measure("take 100, doneMany 100, one connection", JOBS, () -> loop(100));
            measure("take 100, done one by one, a commit each, one connection", JOBS / 5, () -> loop(1));
            for (int concurrency : new int[] {1, 4, 16}) {
                measure("worker, a commit each, concurrency " + concurrency, JOBS / 5, () -> worker(concurrency));
            }
            measure("worker, 100 groups, concurrency 4", JOBS / 20, () -> worker(4));
            measure("worker, one group, concurrency 4", JOBS / 50, () -> worker(4));
            DB.run("rules", "put", "kind", "other", "--running", "5");
            measure("worker, one group, concurrency 4, where a rule exists", JOBS / 50, () -> worker(4));
        } finally {
            DB.afterAll(null);
        }
    }

    private static void measure(String name, int jobs, Round round) throws Exception {
        String group = name.contains("one group") ? "'g'" : name.contains("groups") ? "'g' || n % 100" : "null";
        double[] rates = new double[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            DB.update("select " + DB.in + "send('noop', '{}', queue => 'work', exclusive_group => " + group + ")"
                    + " from generate_series(1, " + jobs + ") n");
            DB.update("vacuum analyze " + DB.in + "job, " + DB.in + "external_job");
            DB.jobs.wake(DB.pool, TestDatabase.QUEUE);
            long began = System.nanoTime();
            round.run();
            rates[i] = jobs * 1e9 / (System.nanoTime() - began);
        }
        Arrays.sort(rates);
        System.out.printf(Locale.ROOT, "%-60s %,8.0f jobs/s (%,.0f to %,.0f)%n", name, rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
    }

    private static void loop(int together) throws SQLException {
        try (Connection connection = DB.pool.getConnection()) {
            while (true) {
                List<Job> jobs = DB.sql.take(connection, new Take(TestDatabase.QUEUE, "throughput", 100, Duration.ofMinutes(1)));
                if (jobs.isEmpty()) {
                    return;
                }
                for (int i = 0; i < jobs.size(); i += together) {
                    DB.sql.doneMany(connection, jobs.subList(i, Math.min(jobs.size(), i + together)).stream().map(Job::handout).toList());
                }
            }
        }
    }

    private static void worker(int concurrency) throws Exception {
        try (JobWorker worker = DB.worker().concurrency(concurrency).poll(Duration.ofSeconds(5)).lease(Duration.ofMinutes(1))
                .handler("noop", (job, connection) -> {}).start()) {
            TestDatabase.await("all jobs", () -> (boolean) DB.value("select not exists (select from " + DB.in + "job)")
                    && (boolean) DB.value("select not exists (select from " + DB.in + "external_job)"));
        }
    }
}
