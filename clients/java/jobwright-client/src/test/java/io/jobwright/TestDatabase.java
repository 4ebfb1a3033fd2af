package io.jobwright;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.postgresql.ds.PGSimpleDataSource;

/** A schema of its own for a class of tests, with an executor that ends leases, makes timers due and admits the jobs of groups. */
final class TestDatabase implements BeforeAllCallback, AfterAllCallback {
    static final Duration PATIENCE = Duration.ofSeconds(60);
    static final String QUEUE = "work";

    /** With capitals, so that a name which is not quoted fails. */
    final String schema = "Java_" + UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    final String quoted = '"' + schema + '"';
    /** Before the name of a table or function. */
    final String in = quoted + ".";
    final Jobs jobs = new Jobs(schema);
    final SqlJobs sql = new SqlJobs(schema, Duration.ofSeconds(10));
    HikariDataSource pool;
    private final String configuration;
    private Path folder;
    private Process executor;

    TestDatabase() {
        this("100ms", "");
    }

    /** With an executor that looks by itself only so often, and more of its configuration. */
    TestDatabase(String poll, String more) {
        configuration = """
                [database]
                schema = "%s"
                [executor]
                lease = "2s"
                poll_interval = "%s"
                [queues.%s]
                external = true
                %s
                """.formatted(schema, poll, QUEUE, more);
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        folder = Files.createTempDirectory("jobwright-java");
        Files.writeString(folder.resolve("jobwright.toml"), configuration);
        run("migrate");
        executor = begin("worker");
        pool = pool("tests", 30);
        update("create table " + in + "written (job uuid not null, text text)");
        update("create table " + in + "starts (id uuid, attempt int, at timestamptz default clock_timestamp(), lease_until timestamptz,"
                + " by text, primary key (id, attempt))");
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        if (executor != null) {
            executor.destroy();
            if (!executor.waitFor(20, TimeUnit.SECONDS)) {
                executor.destroyForcibly();
            }
        }
        if (pool != null) {
            update("drop schema " + quoted + " cascade");
            pool.close();
        }
        delete(folder);
    }

    static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** Runs the program `jobwright` with these arguments to its end. */
    void run(String... arguments) throws Exception {
        Process process = begin(arguments);
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new IllegalStateException("`jobwright " + String.join(" ", arguments) + "` failed: " + Files.readString(log(arguments[0])));
        }
    }

    private Process begin(String... arguments) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(environment("JOBWRIGHT_BIN"), "--config", folder.resolve("jobwright.toml").toString());
        builder.command().addAll(List.of(arguments));
        // The program refuses variables of this prefix that it doesn't know.
        builder.environment().keySet().removeIf(name -> name.startsWith("JOBWRIGHT_"));
        builder.environment().put("DATABASE_URL", environment("DATABASE_URL"));
        return builder.redirectErrorStream(true).redirectOutput(log(arguments[0]).toFile()).start();
    }

    private Path log(String command) {
        return folder.resolve(command + ".log");
    }

    static String environment(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException(name + " is not set: these tests need DATABASE_URL=postgres://user@host:port/database and"
                    + " JOBWRIGHT_BIN=the program jobwright; clients/java/check.sh explains both");
        }
        return value;
    }

    /** A data source of the driver for DATABASE_URL, without a pool. */
    static PGSimpleDataSource driver(String application) {
        URI url = URI.create(environment("DATABASE_URL"));
        String[] user = url.getUserInfo().split(":", 2);
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setServerNames(new String[] {url.getHost()});
        source.setPortNumbers(new int[] {url.getPort() < 0 ? 5432 : url.getPort()});
        source.setDatabaseName(url.getPath().substring(1));
        source.setUser(user[0]);
        source.setPassword(user.length > 1 ? user[1] : null);
        source.setApplicationName(application);
        source.setLoginTimeout(5);
        source.setSocketTimeout(60);
        return source;
    }

    static HikariDataSource pool(String application, int size) {
        return pool(driver(application), size);
    }

    static HikariDataSource pool(DataSource source, int size) {
        HikariConfig config = new HikariConfig();
        config.setDataSource(source);
        config.setMaximumPoolSize(size);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(10_000);
        return new HikariDataSource(config);
    }

    /** A worker with short waits, for a test to add handlers. */
    JobWorkerBuilder worker() {
        return worker(pool);
    }

    JobWorkerBuilder worker(DataSource dataSource) {
        return JobWorker.on(dataSource, QUEUE).schema(schema).poll(Duration.ofMillis(100)).lease(Duration.ofSeconds(2)).cancelGrace(Duration.ofMillis(500));
    }

    UUID send(NewJob job) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            return jobs.send(connection, job.queue(QUEUE));
        }
    }

    UUID send(String kind) throws SQLException {
        return send(NewJob.json(kind, "{}"));
    }

    void update(String text, Object... values) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            update(connection, text, values);
        }
    }

    static void update(Connection connection, String text, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            statement.execute();
        }
    }

    void write(Connection connection, Job job, String text) throws SQLException {
        update(connection, "insert into " + in + "written values (?, ?)", job.id(), text);
    }

    long written(UUID job) throws SQLException {
        return (long) value("select count(*) from " + in + "written where job = ?", job);
    }

    /** Notes a start outside of the job's transaction. It fails if this attempt has been started before. */
    void start(Job job, String by) throws SQLException {
        update("insert into " + in + "starts (id, attempt, lease_until, by) values (?, ?, ?, ?)", job.id(), job.attempt(),
                java.time.OffsetDateTime.ofInstant(job.leaseUntil(), java.time.ZoneOffset.UTC), by);
    }

    Object value(String text, Object... values) throws SQLException {
        List<Object> found = values(text, values);
        return found.isEmpty() ? null : found.get(0);
    }

    List<Object> values(String text, Object... values) throws SQLException {
        try (Connection connection = pool.getConnection(); PreparedStatement statement = connection.prepareStatement(text)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            List<Object> found = new ArrayList<>();
            try (ResultSet result = statement.executeQuery()) {
                while (result.next()) {
                    found.add(result.getObject(1));
                }
            }
            return found;
        }
    }

    /** The state of a job, `gone` if there is none. */
    String state(UUID job) throws SQLException {
        Object state = value("select state from " + in + "jobs where id = ?", job);
        return state == null ? "gone" : state.toString();
    }

    Object column(UUID job, String column) throws SQLException {
        return value("select " + column + " from " + in + "jobs where id = ?", job);
    }

    void awaitState(UUID job, String state) throws Exception {
        await("job " + job + " to be " + state, () -> state(job).equals(state));
    }

    static void await(String event, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("waited " + PATIENCE.toSeconds() + " s for " + event);
            }
            Thread.sleep(10);
        }
    }

    /** Ends the connections of an application, as a restart of the server would. */
    int terminate(String application) throws SQLException {
        try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery("select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = '"
                        + application + "'")) {
            result.next();
            return result.getInt(1);
        }
    }
}
