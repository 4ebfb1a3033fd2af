package io.jobwright.examples.flowable;

import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.flowable.common.engine.impl.async.AsyncTaskExecutorConfiguration;
import org.flowable.engine.ProcessEngine;
import org.flowable.engine.delegate.DelegateExecution;
import org.flowable.engine.delegate.JavaDelegate;

/** Measures the worker beside Flowable's own executor, in turns, each on a database of its own. {@code bench.sh} says how to run it. */
public final class Bench {
    private static final String NOOP = Steps.task("a", Count.class, "flowable:async=\"true\"");
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final Map<String, Instant> STARTED = new ConcurrentHashMap<>();
    private static final Duration LEASE = Duration.ofSeconds(30);

    private final TestDatabase own = new TestDatabase("5s");
    private final TestDatabase ours = new TestDatabase("5s");
    private final int runs;
    private final int instances;

    private Bench(int runs, int instances) {
        this.runs = runs;
        this.instances = instances;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("starter")) {
            starter(arguments[1], Integer.parseInt(arguments[2]));
            return;
        }
        Bench bench = new Bench(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[2]));
        List<String> parts = List.of(arguments[1].split(","));
        try {
            bench.own.create();
            bench.ours.create();
            bench.ours.install();
            for (TestDatabase database : List.of(bench.own, bench.ours)) {
                database.deploy("noop", "<startEvent id=\"s\"/>" + Steps.flow("s", "a") + NOOP + Steps.flow("a", "e") + "<endEvent id=\"e\"/>");
                database.deploy("fan", "<startEvent id=\"s\"/>" + Steps.flow("s", "a")
                        + NOOP.replace("/>", "><multiInstanceLoopCharacteristics isSequential=\"false\"><loopCardinality>${times}</loopCardinality>"
                                + "</multiInstanceLoopCharacteristics></serviceTask>") + Steps.flow("a", "e") + "<endEvent id=\"e\"/>");
                database.deploy("slow", "<startEvent id=\"s\"/>" + Steps.flow("s", "a") + Steps.task("a", Steps.Slow.class, "flowable:async=\"true\"")
                        + Steps.flow("a", "e") + "<endEvent id=\"e\"/>");
            }
            bench.run(parts);
        } finally {
            bench.own.afterAll(null);
            bench.ours.afterAll(null);
        }
        // Flowable leaves threads behind.
        System.exit(0);
    }

    private void run(List<String> parts) throws Exception {
        drain(own, instances / 5);
        drain(ours, instances / 5);
        if (parts.contains("drain")) {
            pairs("drain of " + instances + " instances, jobs/s", false, () -> drain(own, instances), () -> drain(ours, instances));
        }
        if (parts.contains("fan")) {
            pairs("one instance, " + instances / 8 + " exclusive jobs, jobs/s", false, () -> fan(own, instances / 8), () -> fan(ours, instances / 8));
        }
        if (parts.contains("latency")) {
            pairs("commit to start, another process, 50/s, p50 ms", true, () -> latency(own), () -> latency(ours));
        }
        if (parts.contains("recovery")) {
            List<Double> seconds = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                seconds.add(recovery());
            }
            System.out.printf(Locale.ROOT, "kill -9 to start of the last interrupted job, s (lease %d s): %s%n", LEASE.toSeconds(), seconds);
        }
    }

    private interface Measure {
        double run() throws Exception;
    }

    /** Both in turns. The ratio is that of each pair, and above 1 ours is better. */
    private void pairs(String name, boolean lessIsBetter, Measure theirs, Measure mine) throws Exception {
        double[] own = new double[runs];
        double[] ours = new double[runs];
        double[] ratios = new double[runs];
        for (int i = 0; i < runs; i++) {
            own[i] = theirs.run();
            ours[i] = mine.run();
            ratios[i] = lessIsBetter ? own[i] / ours[i] : ours[i] / own[i];
            System.out.printf(Locale.ROOT, "  %s: Flowable %.1f, jobwright %.1f, ratio %.2f, load %.1f%n", name, own[i], ours[i], ratios[i],
                    ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
        }
        System.out.printf(Locale.ROOT, "%s: Flowable %s, jobwright %s, ratio %s%n", name, median(own), median(ours), median(ratios));
    }

    private static String median(double[] values) {
        Arrays.sort(values);
        return String.format(Locale.ROOT, "%.2f (%.2f-%.2f)", values[values.length / 2], values[0], values[values.length - 1]);
    }

    /** Returns what starts the worker, or Flowable's own executor as it is fastest, and what stops it. */
    private Callable<AutoCloseable> executor(TestDatabase database, int threads) {
        if (database == ours) {
            return () -> {
                WakeAfterCommit wakes = new WakeAfterCommit(ours.engine);
                FlowableWorker worker = new FlowableWorker(ours.engine, "bench", threads, LEASE);
                return () -> {
                    worker.close();
                    wakes.close();
                };
            };
        }
        ProcessEngine engine = own.engine(false, configuration -> {
            configuration.getAsyncExecutorConfiguration().setGlobalAcquireLockEnabled(true);
            configuration.getAsyncExecutorConfiguration().setMaxAsyncJobsDuePerAcquisition(1024);
            configuration.getAsyncExecutorConfiguration().setDefaultQueueSizeFullWaitTime(Duration.ofMillis(50));
            AsyncTaskExecutorConfiguration pool = new AsyncTaskExecutorConfiguration();
            pool.setCorePoolSize(threads);
            pool.setMaxPoolSize(threads);
            pool.setQueueSize(8192);
            configuration.setAsyncExecutorTaskExecutorConfiguration(pool);
        });
        return () -> {
            engine.getProcessEngineConfiguration().getAsyncExecutor().start();
            return engine::close;
        };
    }

    private double drain(TestDatabase database, int instances) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<?>> starts = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            starts.add(threads.submit(() -> {
                for (int j = 0; j < instances / 4; j++) {
                    database.start("noop");
                }
            }));
        }
        for (Future<?> start : starts) {
            start.get(300, TimeUnit.SECONDS);
        }
        threads.shutdown();
        admitted(database);
        return measure(database, 8, instances);
    }

    private double fan(TestDatabase database, int jobs) throws Exception {
        database.engine.getRuntimeService().createProcessInstanceBuilder().processDefinitionKey("fan").variable("times", jobs).start();
        admitted(database);
        // With more threads, Flowable's own executor is slower here.
        return measure(database, database == own ? 1 : 8, jobs);
    }

    /** Starting the instances is not measured, and neither is the executor's first look at their jobs. */
    private void admitted(TestDatabase database) throws Exception {
        if (database == ours) {
            ours.update("select jobwright.wake('flowable')");
            TestDatabase.await("the jobs to be admitted", () -> (boolean) ours.value(
                    "select not exists (select from jobwright.job j where blocked_on is not null and not exists"
                            + " (select from jobwright.job o where o.admitted and 'g:' || (o.options ->> 'group') = j.blocked_on))"));
        }
        database.update("vacuum analyze");
    }

    private double measure(TestDatabase database, int threads, int jobs) throws Exception {
        Callable<AutoCloseable> executor = executor(database, threads);
        COUNT.set(0);
        long begin = System.nanoTime();
        try (AutoCloseable running = executor.call()) {
            while (COUNT.get() < jobs) {
                if (System.nanoTime() - begin > 300_000_000_000L) {
                    throw new IllegalStateException(COUNT.get() + " of " + jobs + " jobs were executed in 300 s");
                }
                Thread.sleep(2);
            }
            double rate = jobs * 1e9 / (System.nanoTime() - begin);
            TestDatabase.await("the last commits", () -> (boolean) database.value("select not exists (select from act_ru_execution)"));
            return rate;
        }
    }

    private double latency(TestDatabase database) throws Exception {
        STARTED.clear();
        try (AutoCloseable running = executor(database, 8).call()) {
            Process starter = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx256m", "-cp", System.getProperty("java.class.path"),
                    Bench.class.getName(), "starter", database.name, "500").redirectError(ProcessBuilder.Redirect.INHERIT).start();
            List<Double> millis = new ArrayList<>();
            List<String[]> lines = new ArrayList<>();
            try (BufferedReader reader = starter.inputReader()) {
                reader.lines().map(line -> line.split(" ")).forEach(lines::add);
            }
            TestDatabase.await("all to start", () -> lines.stream().allMatch(line -> STARTED.containsKey(line[0])));
            lines.forEach(line -> millis.add(ChronoUnit.MICROS.between(Instant.parse(line[1]), STARTED.get(line[0])) / 1000.0));
            millis.sort(null);
            System.out.printf(Locale.ROOT, "    %s: p50 %.2f, p90 %.2f, p99 %.2f ms%n", database == ours ? "jobwright" : "Flowable", millis.get(millis.size() / 2),
                    millis.get(millis.size() * 9 / 10), millis.get(millis.size() * 99 / 100));
            return millis.get(millis.size() / 2);
        }
    }

    /** Starts instances and says when each of them was committed. The first hundred warm it up. */
    private static void starter(String name, int instances) throws Exception {
        TestDatabase database = TestDatabase.existing(name, 8);
        boolean bridged = (boolean) database.value("select exists (select from pg_trigger where tgname = 'flowable_job_inserted')");
        WakeAfterCommit wakes = bridged ? new WakeAfterCommit(database.engine) : null;
        long next = System.nanoTime();
        for (int i = -100; i < instances; i++) {
            String instance = database.start("noop");
            if (i >= 0) {
                System.out.println(instance + " " + Instant.now());
            }
            next += 20_000_000;
            TimeUnit.NANOSECONDS.sleep(next - System.nanoTime());
        }
        if (wakes != null) {
            wakes.close();
        }
        System.exit(0);
    }

    /** Kills a JVM with eight running jobs; another one stands by. */
    private double recovery() throws Exception {
        ours.update("truncate starts, ledger");
        Steps.database = ours;
        WorkerProcess killed = WorkerProcess.start(ours.name, "killed", LEASE, 8);
        TestDatabase.await("the worker to be ready", () -> (boolean) ours.value("select exists (select from starts where by = 'ready killed')"));
        for (int i = 0; i < 8; i++) {
            ours.engine.getRuntimeService().createProcessInstanceBuilder().processDefinitionKey("slow").variable("millis", 20_000).start();
        }
        TestDatabase.await("eight jobs to run", () -> (long) ours.value("select count(*) from starts where by = 'killed'") == 8);
        try (FlowableWorker other = new FlowableWorker(ours.engine, "other", 8, LEASE)) {
            Object at = ours.value("select clock_timestamp()");
            killed.kill();
            TestDatabase.await("eight starts elsewhere", () -> (long) ours.value("select count(*) from starts where by = 'tests'") == 8);
            double seconds = ((Number) ours.value("select extract(epoch from max(at) - ?)::float8 from starts where by = 'tests'", at)).doubleValue();
            System.out.printf(Locale.ROOT, "  recovery: %.1f s%n", seconds);
            return seconds;
        }
    }

    /** The no-op. */
    public static final class Count implements JavaDelegate {
        @Override
        public void execute(DelegateExecution execution) {
            STARTED.putIfAbsent(execution.getProcessInstanceId(), Instant.now());
            COUNT.incrementAndGet();
        }
    }
}
