import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * An external worker: takes jobs of one queue from the broker, runs them, and reports the results. It needs no database.
 *
 * <p>The work is in {@link #onMessage}, which is given a message and either returns a result or throws, as a
 * message-driven bean would. Three things keep it correct:
 * <ul>
 * <li>the report is confirmed by the broker before the job is acknowledged, so after a crash in between the job runs twice,
 *     not never;</li>
 * <li>the report names the version of this hand-out, so a late report of an earlier attempt is refused; and it returns the token, so no
 *     other program can report on the job;</li>
 * <li>long work asks for a longer lease, or another worker gets the job.</li>
 * </ul>
 * So a job can run twice, and its work must tolerate that: {@code jobId} stays the same.
 *
 * <p>Environment: AMQP_URL (required), JOBWRIGHT_BROKER_PREFIX (default jobwright).
 * Exit codes: 0 ended after COUNT jobs, or after the given idle time; 1 failed; 2 wrong usage.
 */
public final class Worker {
    private static final long PATIENCE = TimeUnit.SECONDS.toMillis(10);

    private final Channel channel;
    private volatile boolean returned;

    private Worker(Channel channel) {
        this.channel = channel;
        channel.addReturnListener((code, text, exchange, key, properties, body) -> returned = true);
    }

    /** Does the work: returns the result as JSON, or null for none; throws if it fails. */
    private String onMessage(String kind, byte[] body, Map<String, Object> headers) throws Exception {
        switch (kind) {
            case "fail":
                throw new PermanentFailure("told to fail");
            case "retry":
                throw new IOException("told to try again");
            case "later":
                throw new TryLater("told to try later", "5m");
            case "slow":
                // In this example a header says how many seconds it takes. Work longer than a lease must ask for a new one in time.
                long seconds = Long.parseLong(String.valueOf(headers.getOrDefault("seconds", "1")));
                for (long n = 0; n < seconds; n++) {
                    extend(headers);
                    TimeUnit.SECONDS.sleep(1);
                }
                return null;
            default:
                return "{\"bytes\":" + body.length + ",\"by\":\"java\"}";
        }
    }

    /** No further attempt makes sense. */
    private static final class PermanentFailure extends Exception {
        private static final long serialVersionUID = 1L;

        PermanentFailure(String why) {
            super(why);
        }
    }

    /** Not now; the time is in milliseconds, or a text such as "5m". */
    private static final class TryLater extends Exception {
        private static final long serialVersionUID = 1L;
        final String after;

        TryLater(String why, String after) {
            super(why);
            this.after = after;
        }
    }

    /** Runs one job, reports it and acknowledges it. */
    private void handle(Delivery delivery) throws Exception {
        AMQP.BasicProperties properties = delivery.getProperties();
        Map<String, Object> headers = properties.getHeaders();
        String kind = String.valueOf(headers.get("jobKind"));
        Map<String, Object> report = about(headers);
        byte[] result = new byte[0];
        try {
            String json = onMessage(kind, delivery.getBody(), headers);
            report.put("status", "done");
            if (json != null) {
                result = json.getBytes(StandardCharsets.UTF_8);
            }
        } catch (Exception e) {
            report.put("status", "failed");
            report.put("error", e.getMessage() == null ? e.toString() : e.getMessage());
            report.put("detail", e.getClass().getName());
            report.put("retry", e instanceof PermanentFailure ? "never" : e instanceof TryLater ? "after" : "policy");
            if (e instanceof TryLater) {
                report.put("retryAfter", ((TryLater) e).after);
            }
        }
        send(report, result);
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        System.out.println(report.get("status") + " " + headers.get("jobId") + " " + kind + " attempt "
                + headers.get("attempt"));
    }

    /** Extends the lease: from now on for its original length. A header "lease" would set another length. */
    private void extend(Map<String, Object> headers) throws Exception {
        Map<String, Object> report = about(headers);
        report.put("status", "extend");
        send(report, new byte[0]);
        System.out.println("extend " + headers.get("jobId"));
    }

    /** Copies the headers that identify the hand-out, unchanged. */
    private static Map<String, Object> about(Map<String, Object> headers) {
        Map<String, Object> report = new HashMap<>();
        report.put("jobId", headers.get("jobId"));
        report.put("version", headers.get("version"));
        report.put("reportToken", headers.get("reportToken"));
        return report;
    }

    private void send(Map<String, Object> headers, byte[] body) throws Exception {
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                .contentType("application/json")
                .deliveryMode(2)
                .headers(headers)
                .build();
        channel.basicPublish("", Broker.prefix() + ".reply", true, properties, body);
        channel.waitForConfirmsOrDie(PATIENCE);
        // A message that no queue takes is returned, and confirmed nevertheless.
        if (returned) {
            throw new IOException("there is no queue " + Broker.prefix() + ".reply");
        }
    }

    public static void main(String[] args) {
        if (args.length < 1 || args.length > 3) {
            System.err.println("usage: Worker QUEUE [COUNT] [IDLE-SECONDS]   (COUNT 0 = no end)");
            System.exit(2);
        }
        try {
            long count = args.length > 1 ? Long.parseLong(args[1]) : 0;
            long idle = args.length > 2 ? Long.parseLong(args[2]) : Long.MAX_VALUE / 1_000_000_000L;
            work(args[0], count, idle);
        } catch (NumberFormatException e) {
            System.err.println("COUNT and IDLE-SECONDS are numbers: " + e.getMessage());
            System.exit(2);
        } catch (Exception e) {
            System.err.println("working failed: " + Broker.explain(e));
            System.exit(1);
        }
    }

    private static void work(String queue, long count, long idleSeconds) throws Exception {
        try (Connection connection = Broker.factory().newConnection("jobwright example worker")) {
            Channel channel = connection.createChannel();
            channel.confirmSelect();
            // Limits how many jobs this program prefetches: the lease of a job runs while it waits here.
            channel.basicQos(4);
            BlockingQueue<Delivery> waiting = new ArrayBlockingQueue<>(16);
            Worker worker = new Worker(channel);
            Delivery end = new Delivery(null, null, null);
            CancelCallback cancelled = tag -> waiting.offer(end);
            channel.addShutdownListener(why -> waiting.offer(end));
            channel.basicConsume(Broker.prefix() + ".x." + queue, false, (tag, delivery) -> waiting.offer(delivery), cancelled);
            System.out.println("ready " + queue);
            for (long done = 0; count == 0 || done < count; done++) {
                Delivery delivery = waiting.poll(idleSeconds, TimeUnit.SECONDS);
                if (delivery == null) {
                    return;
                }
                if (delivery == end) {
                    throw new IOException("the broker ended the subscription (queue deleted, or connection lost)");
                }
                worker.handle(delivery);
            }
        }
    }
}
