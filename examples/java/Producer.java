import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Submits jobs to jobwright. This program knows nothing of it but the queue and a few properties.
 *
 * <p>The program chooses the id of each job, so it may be run again after any failure: a job that was taken in before is not
 * taken in twice. The program succeeds only if the broker confirmed every message.
 *
 * <p>Environment: AMQP_URL (required), JOBWRIGHT_BROKER_PREFIX (default jobwright).
 * Exit codes: 0 all submitted, 1 failed, 2 wrong usage.
 */
public final class Producer {
    private static final long PATIENCE = TimeUnit.SECONDS.toMillis(30);

    public static void main(String[] args) {
        if (args.length < 2 || args.length > 4) {
            System.err.println("usage: Producer KIND COUNT [ID-PREFIX] [QUEUE]");
            System.exit(2);
        }
        String kind = args[0];
        int count;
        try {
            count = Integer.parseInt(args[1]);
        } catch (NumberFormatException e) {
            System.err.println("COUNT is \"" + args[1] + "\", not a number");
            System.exit(2);
            return;
        }
        String ids = args.length > 2 ? args[2] : "java-" + System.currentTimeMillis();
        String queue = args.length > 3 ? args[3] : "default";
        try {
            submit(kind, count, ids, queue);
        } catch (Exception e) {
            System.err.println("submitting failed: " + Broker.explain(e));
            System.exit(1);
        }
    }

    private static void submit(String kind, int count, String ids, String queue) throws Exception {
        try (Connection connection = Broker.factory().newConnection("jobwright example producer")) {
            Channel channel = connection.createChannel();
            AtomicReference<String> returned = new AtomicReference<>();
            channel.addReturnListener((code, text, exchange, key, properties, body) ->
                    returned.compareAndSet(null, "there is no queue " + key + " (" + text + ")"));
            channel.confirmSelect();
            for (int n = 1; n <= count; n++) {
                String id = ids + "-" + n;
                AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                        .messageId(id)
                        .type(kind)
                        .contentType("application/json")
                        .deliveryMode(2)
                        .headers(Map.of("queue", queue, "maxAttempts", 5, "sender", "java"))
                        .build();
                byte[] body = ("{\"n\":" + n + ",\"text\":\"Grüezi aus Java\"}").getBytes(StandardCharsets.UTF_8);
                // mandatory: without a queue the message is returned, instead of being confirmed and lost.
                channel.basicPublish("", Broker.prefix() + ".submit", true, properties, body);
                System.out.println("submitted " + id);
            }
            // Nothing is certain before this call. It throws if the broker refused a message, or did not confirm in time.
            channel.waitForConfirmsOrDie(PATIENCE);
            if (returned.get() != null) {
                throw new IllegalStateException(returned.get());
            }
            System.out.println("confirmed " + count);
        }
    }

    private Producer() {}
}
