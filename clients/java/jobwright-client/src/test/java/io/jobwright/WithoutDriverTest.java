package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.postgresql.ds.PGSimpleDataSource;

class WithoutDriverTest {
    /** In a class loader that has the client alone, as with another driver. */
    @Test
    void a_worker_needs_no_class_of_the_driver() throws Exception {
        URL client = JobWorker.class.getProtectionDomain().getCodeSource().getLocation();
        CountDownLatch asked = new CountDownLatch(2);
        ClassLoader here = getClass().getClassLoader();
        DataSource refusing = (DataSource) Proxy.newProxyInstance(here, new Class<?>[] {DataSource.class}, (proxy, method, values) -> {
            asked.countDown();
            throw new SQLException("not today", "08001");
        });
        try (URLClassLoader alone = new URLClassLoader(new URL[] {client}, ClassLoader.getPlatformClassLoader())) {
            assertThrows(ClassNotFoundException.class, () -> alone.loadClass("org.postgresql.PGConnection"));
            Object builder = alone.loadClass("io.jobwright.JobWorker").getMethod("on", DataSource.class, String.class).invoke(null, refusing, "q");
            Class<?> handler = alone.loadClass("io.jobwright.JobHandler");
            Object nothing = Proxy.newProxyInstance(alone, new Class<?>[] {handler}, (proxy, method, values) -> null);
            builder.getClass().getMethod("otherwise", handler).invoke(builder, nothing);
            Object worker = builder.getClass().getMethod("start").invoke(builder);
            assertTrue(asked.await(30, TimeUnit.SECONDS));
            assertEquals(true, worker.getClass().getMethod("stop", Duration.class).invoke(worker, Duration.ofSeconds(1)));
        }
    }

    @Test
    void a_worker_that_could_take_nothing_is_refused() {
        JobWorkerBuilder builder = JobWorker.on(new PGSimpleDataSource(), "q");
        assertThrows(IllegalArgumentException.class, builder::start);
        assertThrows(IllegalArgumentException.class, () -> builder.otherwise((job, connection) -> {}).concurrency(0).start());
        assertThrows(IllegalArgumentException.class, () -> builder.concurrency(1).lease(Duration.ofMillis(999)).start());
    }
}
