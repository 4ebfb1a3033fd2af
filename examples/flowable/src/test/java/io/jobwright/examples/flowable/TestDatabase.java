package io.jobwright.examples.flowable;

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
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.flowable.engine.ProcessEngine;
import org.flowable.engine.impl.cfg.ProcessEngineConfigurationImpl;
import org.flowable.engine.impl.cfg.StandaloneProcessEngineConfiguration;
import org.flowable.job.service.impl.asyncexecutor.AsyncJobExecutorConfiguration;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.postgresql.ds.PGSimpleDataSource;

/**
 * A database of its own with jobwright, an executor, and a Flowable engine that does not execute. The engine's role owns the database, has its
 * name, and has no more rights on jobwright than the README says.
 */
final class TestDatabase implements BeforeAllCallback, AfterAllCallback {
    static final Duration PATIENCE = Duration.ofSeconds(120);

    final String name;
    private final String poll;
    /** For the tests. */
    private HikariDataSource pool;
    private HikariDataSource enginePool;
    ProcessEngine engine;
    private Path folder;
    private Process executor;

    TestDatabase(String poll) {
        this("flowable_" + UUID.randomUUID().toString().replace("-", "").substring(0, 12), poll);
    }

    private TestDatabase(String name, String poll) {
        this.name = name;
        this.poll = poll;
    }

    /** In another process: the database that the tests made. */
    static TestDatabase existing(String name, int connections) {
        TestDatabase database = new TestDatabase(name, null);
        database.pool = pool(name, null, 2 * connections);
        database.enginePool = pool(name, name, connections);
        database.engine = database.engine(false);
        Steps.database = database;
        return database;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        create();
        install();
    }

    /** Without the triggers. */
    void create() throws Exception {
        folder = Files.createTempDirectory("jobwright-flowable");
        try (Connection connection = driver(null).getConnection()) {
            update(connection, "create role " + name + " login password '" + name + "'");
            update(connection, "grant " + name + " to current_user");
            update(connection, "create database " + name + " owner " + name);
        }
        Files.writeString(folder.resolve("jobwright.toml"), """
                [executor]
                lease = "3s"
                poll_interval = "%s"
                [queues.flowable]
                external = true
                """.formatted(poll));
        jobwright("migrate");
        jobwright("grants", "sender", name, "--with", "unique", "--with", "cancel", "--apply");
        jobwright("grants", "worker", name, "--queue", "flowable", "--apply");
        executor = program("worker");
        pool = pool(name, null, 20);
        enginePool = pool(name, name, 20);
        engine = engine(false);
        Steps.database = this;
        Steps.reset();
        updateAsEngine("create table ledger (instance text, execution text, step text, started_at timestamptz, at timestamptz default clock_timestamp(), by text)");
        updateAsEngine("create table starts (instance text, execution text, at timestamptz default clock_timestamp(), by text)");
    }

    void install() throws Exception {
        script(enginePool, "install.sql");
    }

    /** After the workers have stopped. */
    void remove() throws Exception {
        script(pool, "remove.sql");
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        if (engine != null) {
            engine.close();
        }
        if (executor != null) {
            executor.destroy();
            if (!executor.waitFor(20, TimeUnit.SECONDS)) {
                executor.destroyForcibly();
            }
        }
        if (enginePool != null) {
            enginePool.close();
            pool.close();
        }
        try (Connection connection = driver(null).getConnection()) {
            update(connection, "drop database if exists " + name + " with (force)");
            update(connection, "drop role if exists " + name);
        }
    }

    /** Runs the program to its end, and returns what it printed. */
    String jobwright(String... arguments) throws Exception {
        Process process = program(arguments);
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new IllegalStateException("jobwright " + String.join(" ", arguments) + " failed: " + Files.readString(log(arguments[0])));
        }
        return Files.readString(log(arguments[0]));
    }

    private Process program(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(environment("JOBWRIGHT_BIN"), "--config", folder.resolve("jobwright.toml").toString()));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        // The program refuses variables of this prefix that it doesn't know.
        builder.environment().keySet().removeIf(variable -> variable.startsWith("JOBWRIGHT_"));
        builder.environment().put("DATABASE_URL", environment("DATABASE_URL").replaceFirst("/[^/?]*([?].*)?$", "/" + name + "$1"));
        return builder.redirectErrorStream(true).redirectOutput(log(arguments[0]).toFile()).start();
    }

    private Path log(String command) {
        return folder.resolve(command + ".log");
    }

    private static String environment(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException(name + " is not set: the head of examples/flowable/check.sh explains it");
        }
        return value;
    }

    private static PGSimpleDataSource driver(String database) {
        URI url = URI.create(environment("DATABASE_URL"));
        String[] user = url.getUserInfo().split(":", 2);
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setServerNames(new String[] {url.getHost()});
        source.setPortNumbers(new int[] {url.getPort() < 0 ? 5432 : url.getPort()});
        source.setDatabaseName(database == null ? url.getPath().substring(1) : database);
        source.setUser(user[0]);
        source.setPassword(user.length > 1 ? user[1] : null);
        source.setLoginTimeout(5);
        source.setSocketTimeout(60);
        return source;
    }

    /** @param role null for that of DATABASE_URL */
    private static HikariDataSource pool(String database, String role, int connections) {
        PGSimpleDataSource driver = driver(database);
        if (role != null) {
            driver.setUser(role);
            driver.setPassword(role);
        }
        HikariConfig config = new HikariConfig();
        config.setDataSource(driver);
        config.setMaximumPoolSize(connections);
        config.setMinimumIdle(1);
        config.setConnectionTimeout(10_000);
        return new HikariDataSource(config);
    }

    /** Another engine on the same database. */
    ProcessEngine engine(boolean executes) {
        return engine(executes, configuration -> { });
    }

    ProcessEngine engine(boolean executes, Consumer<ProcessEngineConfigurationImpl> settings) {
        StandaloneProcessEngineConfiguration configuration = new StandaloneProcessEngineConfiguration();
        configuration.setEngineName(name + "-" + UUID.randomUUID());
        configuration.setDataSource(enginePool);
        configuration.setDatabaseSchemaUpdate("true");
        configuration.setAsyncExecutorActivate(executes);
        configuration.setAsyncExecutorConfiguration(new AsyncJobExecutorConfiguration());
        configuration.getAsyncExecutorConfiguration().setDefaultAsyncJobAcquireWaitTime(Duration.ofMillis(50));
        configuration.getAsyncExecutorConfiguration().setDefaultTimerJobAcquireWaitTime(Duration.ofMillis(50));
        settings.accept(configuration);
        return configuration.buildProcessEngine();
    }

    /** A worker with four slots and a short lease. */
    FlowableWorker worker() {
        return new FlowableWorker(engine, "test", 4, Duration.ofSeconds(3));
    }

    /** Deploys a process with these elements. Its name is that of its start event too. */
    void deploy(String process, String elements, String tenant) {
        engine.getRepositoryService().createDeployment().tenantId(tenant == null ? "" : tenant).addString(process + ".bpmn20.xml", """
                <definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:flowable="http://flowable.org/bpmn"
                             xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" targetNamespace="test">
                  <process id="%s">%s</process>
                </definitions>
                """.formatted(process, elements)).deploy();
    }

    void deploy(String process, String elements) {
        deploy(process, elements, null);
    }

    String start(String process) {
        return engine.getRuntimeService().startProcessInstanceByKey(process).getId();
    }

    boolean isRunning(String instance) {
        return engine.getRuntimeService().createProcessInstanceQuery().processInstanceId(instance).count() > 0;
    }

    void awaitEnd(String instance) throws Exception {
        await("instance " + instance + " to end", () -> !isRunning(instance));
    }

    /** How many jobs of jobwright there are, in any state. */
    long jobs() throws SQLException {
        return (long) value("select count(*) from jobwright.jobs where queue = 'flowable'");
    }

    void awaitNoJobs() throws Exception {
        await("no job to be left", () -> jobs() == 0);
    }

    private static void script(DataSource dataSource, String file) throws Exception {
        try (Connection connection = dataSource.getConnection()) {
            connection.setAutoCommit(false);
            update(connection, Files.readString(Path.of("sql", file)));
            connection.commit();
        }
    }

    void update(String text, Object... values) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            update(connection, text, values);
        }
    }

    private void updateAsEngine(String text) throws SQLException {
        try (Connection connection = enginePool.getConnection()) {
            update(connection, text);
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

    Object value(String text, Object... values) throws SQLException {
        try (Connection connection = pool.getConnection(); PreparedStatement statement = connection.prepareStatement(text)) {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            try (ResultSet result = statement.executeQuery()) {
                return result.next() ? result.getObject(1) : null;
            }
        }
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
}
