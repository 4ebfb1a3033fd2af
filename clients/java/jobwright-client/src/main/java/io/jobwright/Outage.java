package io.jobwright;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.util.HashSet;
import java.util.Set;

/** Logs one line when calls begin to fail, and one when all of them work again, however many threads and tries are concerned. */
final class Outage {
    private static final Logger LOG = System.getLogger("io.jobwright.worker");

    private final String worker;
    private final Set<String> failing = new HashSet<>();
    private long since;

    Outage(String worker) {
        this.worker = worker;
    }

    synchronized void failed(String call, Throwable e) {
        if (failing.isEmpty()) {
            since = System.nanoTime();
            LOG.log(Level.WARNING, "{0}: {1} failed, trying again until it works: {2}", worker, call, text(e));
        } else {
            LOG.log(Level.DEBUG, worker + ": " + call + " failed", e);
        }
        failing.add(call);
    }

    private static String text(Throwable e) {
        return e instanceof SQLException sql && sql.getSQLState() != null ? sql.getMessage() + " (SQLSTATE " + sql.getSQLState() + ")" : e.toString();
    }

    synchronized void worked(String call) {
        if (failing.remove(call) && failing.isEmpty()) {
            LOG.log(Level.INFO, "{0}: the database answers again, after {1} ms", worker, Long.toString((System.nanoTime() - since) / 1_000_000));
        }
    }
}
