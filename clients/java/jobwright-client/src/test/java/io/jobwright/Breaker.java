package io.jobwright;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.atomic.AtomicLong;
import javax.sql.DataSource;

/** A network that can be cut: while it is open, connections are refused, and those that were given out fail at each call. */
final class Breaker {
    volatile boolean isOpen;
    private final AtomicLong refused = new AtomicLong();
    private final DataSource dataSource;

    Breaker(DataSource dataSource) {
        this.dataSource = dataSource;
    }

    long refused() {
        return refused.get();
    }

    DataSource dataSource() {
        return (DataSource) Proxy.newProxyInstance(Breaker.class.getClassLoader(), new Class<?>[] {DataSource.class},
                (proxy, method, arguments) -> {
                    check();
                    Connection connection = dataSource.getConnection();
                    return Proxy.newProxyInstance(Breaker.class.getClassLoader(), new Class<?>[] {Connection.class}, (p, called, values) -> {
                        if (!called.getName().equals("close")) {
                            check();
                        }
                        try {
                            return called.invoke(connection, values);
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        }
                    });
                });
    }

    private void check() throws SQLException {
        if (isOpen) {
            refused.incrementAndGet();
            throw new SQLException("the network is cut", "08006");
        }
    }
}
