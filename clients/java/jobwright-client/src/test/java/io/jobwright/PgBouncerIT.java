package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.postgresql.ds.PGSimpleDataSource;

/** Behind PgBouncer in transaction mode, where each transaction may be on another session of the server. */
class PgBouncerIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase();

    private static final PGSimpleDataSource SOURCE = TestDatabase.driver("pooled");
    private static Process pooler;
    private static Path folder;

    @BeforeAll
    static void start() throws Exception {
        PGSimpleDataSource server = TestDatabase.driver("pooled");
        folder = Files.createTempDirectory("jobwright-pgbouncer");
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Path file = folder.resolve("pgbouncer.ini");
        Files.writeString(file, """
                [databases]
                * = host='%s' port=%d user='%s'%s
                [pgbouncer]
                listen_addr = 127.0.0.1
                listen_port = %d
                unix_socket_dir =
                auth_type = any
                pool_mode = transaction
                default_pool_size = 6
                ignore_startup_parameters = extra_float_digits
                """.formatted(server.getServerNames()[0], server.getPortNumbers()[0], server.getUser(),
                server.getPassword() == null ? "" : " password='" + server.getPassword().replace("'", "''") + "'", port));
        List<String> command = new ArrayList<>(List.of(TestDatabase.environment("PGBOUNCER_BIN"), "-q", file.toString()));
        if (System.getProperty("user.name").equals("root")) {
            // It refuses to run as root, and this user has to read its file.
            command.addAll(1, List.of("-u", "nobody"));
        }
        pooler = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(folder.resolve("log").toFile()).start();
        SOURCE.setServerNames(new String[] {"127.0.0.1"});
        SOURCE.setPortNumbers(new int[] {port});
        SOURCE.setPrepareThreshold(0);
        SOURCE.setSslmode("disable");
        TestDatabase.await("PgBouncer to answer", () -> {
            try (var connection = SOURCE.getConnection()) {
                return connection.isValid(5);
            } catch (java.sql.SQLException e) {
                assertEquals(true, pooler.isAlive(), () -> log());
                return false;
            }
        });
    }

    private static String log() {
        try {
            return Files.readString(folder.resolve("log"));
        } catch (java.io.IOException e) {
            return e.toString();
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (pooler != null) {
            pooler.destroy();
            if (!pooler.waitFor(10, TimeUnit.SECONDS)) {
                pooler.destroyForcibly();
            }
        }
        // A file in it may hold a password.
        TestDatabase.delete(folder);
    }

    @Test
    void a_worker_runs_behind_it() throws Exception {
        List<UUID> sent = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            sent.add(DB.send(NewJob.json("pooled", "{}").exclusiveGroup(i % 4 == 0 ? "g" : null)));
        }
        UUID longer = DB.send("longer");
        try (var pool = TestDatabase.pool(SOURCE, 6); JobWorker worker = DB.worker(pool).concurrency(4).listen(false).lease(Duration.ofSeconds(1))
                .handler("pooled", (job, connection) -> {
                    DB.start(job, "pooled");
                    DB.write(connection, job, "x");
                }).handler("longer", (job, connection) -> {
                    TestDatabase.await("a renewal", () -> (boolean) DB.value("select lease_until > ?::timestamptz from " + DB.in
                            + "external_job where id = ?", job.leaseUntil().plusMillis(1_200).toString(), job.id()));
                    DB.write(connection, job, "x");
                }).start()) {
            TestDatabase.await("all jobs", () -> (long) DB.value("select count(*) from " + DB.in + "jobs") == 0);
        }
        sent.add(longer);
        for (UUID id : sent) {
            assertEquals(1, DB.written(id));
        }
        assertEquals((long) sent.size() - 1, DB.value("select count(*) from " + DB.in + "starts"), "no attempt failed");
    }
}
