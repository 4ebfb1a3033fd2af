package io.jobwright;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.postgresql.ds.PGSimpleDataSource;

/** A network between client and server that fails at the worst moment: once, when a client sends COMMIT, its connection is lost. */
final class Relay implements AutoCloseable {
    /** What the server gets of a COMMIT. */
    enum Mode { PASSES, ARRIVES_BUT_NO_ANSWER, IS_LOST }

    volatile Mode mode = Mode.PASSES;
    final AtomicInteger cut = new AtomicInteger();
    private final ServerSocket listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final PGSimpleDataSource source = TestDatabase.driver("relayed");
    private final String host = source.getServerNames()[0];
    private final int port = source.getPortNumbers()[0];

    Relay() throws IOException {
        daemon(() -> {
            while (true) {
                Socket client = listening.accept();
                Socket server = new Socket(host, port);
                daemon(() -> forward(client, server, true));
                daemon(() -> forward(server, client, false));
            }
        });
    }

    PGSimpleDataSource dataSource() {
        source.setServerNames(new String[] {listening.getInetAddress().getHostAddress()});
        source.setPortNumbers(new int[] {listening.getLocalPort()});
        source.setSslmode("disable");
        return source;
    }

    private void forward(Socket from, Socket to, boolean isClient) throws IOException {
        byte[] buffer = new byte[65_536];
        try (from; to) {
            InputStream in = from.getInputStream();
            for (int length = in.read(buffer); length >= 0; length = in.read(buffer)) {
                Mode now = mode;
                boolean isCut = isClient && now != Mode.PASSES
                        && new String(buffer, 0, length, StandardCharsets.ISO_8859_1).contains("COMMIT");
                if (!isCut || now == Mode.ARRIVES_BUT_NO_ANSWER) {
                    to.getOutputStream().write(buffer, 0, length);
                }
                if (isCut) {
                    mode = Mode.PASSES;
                    cut.incrementAndGet();
                    from.close();
                    // The server commits, as its next read finds the message before the end.
                    to.shutdownOutput();
                    while (in(to) >= 0) {
                        // Its answer is lost.
                    }
                    return;
                }
            }
        }
    }

    private static int in(Socket socket) throws IOException {
        return socket.getInputStream().read();
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void daemon(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                // An end closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listening.close();
    }
}
