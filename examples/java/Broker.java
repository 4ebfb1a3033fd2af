import com.rabbitmq.client.ConnectionFactory;
import java.net.URISyntaxException;
import java.util.concurrent.TimeoutException;

/** The connection to the broker, shared by both programs. */
final class Broker {
    static ConnectionFactory factory() throws Exception {
        String url = System.getenv("AMQP_URL");
        if (url == null || url.isEmpty()) {
            throw new IllegalStateException("AMQP_URL is not set; use for example amqp://user:password@localhost:5672/%2f");
        }
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        factory.setConnectionTimeout(5_000);
        factory.setRequestedHeartbeat(10);
        // A program that lost its connection ends and is restarted: unacknowledged messages are delivered again anyway.
        factory.setAutomaticRecoveryEnabled(false);
        return factory;
    }

    static String prefix() {
        String prefix = System.getenv("JOBWRIGHT_BROKER_PREFIX");
        return prefix == null || prefix.isEmpty() ? "jobwright" : prefix;
    }

    /** Describes an error; never shows the URL, which contains a password. */
    static String explain(Exception e) {
        if (e instanceof URISyntaxException) {
            return "AMQP_URL is not a URL; use for example amqp://user:password@localhost:5672/%2f";
        }
        if (e instanceof TimeoutException) {
            return "the broker did not answer in time";
        }
        Throwable cause = e.getCause() == null ? e : e.getCause();
        return cause.getMessage() == null ? cause.toString() : cause.getMessage();
    }

    private Broker() {}
}
