package io.jobwright.examples.flowable;

import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A worker in a JVM of its own, for tests that kill or stop it. */
final class WorkerProcess {
    private final Process process;
    final String name;

    private WorkerProcess(Process process, String name) {
        this.process = process;
        this.name = name;
    }

    static WorkerProcess start(String database, String name, Duration lease, int concurrency) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx256m", "-cp", System.getProperty("java.class.path"),
                WorkerProcess.class.getName(), database, name, Long.toString(lease.toMillis()), Integer.toString(concurrency));
        return new WorkerProcess(builder.redirectErrorStream(true).redirectOutput(File.createTempFile("jobwright-flowable-" + name, ".log")).start(), name);
    }

    void signal(String signal) throws Exception {
        Process kill = new ProcessBuilder("kill", "-" + signal, Long.toString(process.pid())).inheritIO().start();
        if (!kill.waitFor(10, TimeUnit.SECONDS) || kill.exitValue() != 0) {
            throw new IllegalStateException("kill -" + signal + " " + process.pid() + " failed");
        }
    }

    boolean isAlive() {
        return process.isAlive();
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    public static void main(String[] arguments) throws Exception {
        Steps.process = arguments[1];
        int concurrency = Integer.parseInt(arguments[3]);
        TestDatabase database = TestDatabase.existing(arguments[0], concurrency * 2 + 4);
        FlowableWorker worker = new FlowableWorker(database.engine, arguments[1], concurrency, Duration.ofMillis(Long.parseLong(arguments[2])));
        database.update("insert into starts (by) values (?)", "ready " + arguments[1]);
        new CountDownLatch(1).await();
        worker.close();
    }
}
