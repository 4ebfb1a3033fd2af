package io.jobwright;

import java.sql.Connection;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.support.TransactionTemplate;

/** Handlers run in transactions of Spring: everything that joins them, such as a JdbcTemplate or a @Transactional method, is in the same commit. */
public final class SpringTransactions implements TransactionRunner {
    private final TransactionTemplate template;
    private final DataSource dataSource;

    public SpringTransactions(TransactionTemplate template, DataSource dataSource) {
        this.template = template;
        this.dataSource = dataSource;
    }

    @Override
    public void run(Consumer<Connection> work) {
        template.executeWithoutResult(status -> {
            Connection connection = DataSourceUtils.getConnection(dataSource);
            try {
                work.accept(connection);
            } finally {
                DataSourceUtils.releaseConnection(connection, dataSource);
            }
        });
    }
}
