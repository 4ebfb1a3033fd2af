// A worker: it takes the jobs of a queue one after the other, and ends each in the transaction of its work. To run more at a time, start more processes.
import os from "node:os";
import pg from "pg";

/**
 * A job, as `jobwright.take` returns it.
 * @typedef {object} Job
 * @property {string} id
 * @property {string} token  the proof that the job is ours: it belongs in no log
 * @property {string} kind
 * @property {any} payload
 * @property {number} attempt  from 1 on
 *
 * What a handler gets beside its job.
 * @typedef {object} Tools
 * @property {pg.Client} db  the connection whose transaction also ends the job
 * @property {AbortSignal} signal  aborted when the job is no longer ours, or the time to stop is over
 * @property {(percent: number, note?: string) => Promise<void>} progress  what `jobwright jobs show` tells, at once and whatever is rolled back
 *
 * Does the work of a kind, and returns a result or nothing. If it throws, the work is rolled back and the job runs again by its retry policy.
 * @typedef {(job: Job, tools: Tools) => Promise<unknown>} Handler
 *
 * @typedef {object} Options
 * @property {string} url  postgres://…
 * @property {string} queue
 * @property {Record<string, Handler>} handlers  by kind; other kinds are left to other workers
 * @property {AbortSignal} stop  aborted when the worker is to take no more jobs
 * @property {number} [lease]  seconds for which a job is ours without an extension
 * @property {number} [grace]  seconds that a job has to end after `stop`; then it is rolled back and given back
 */

/** Milliseconds until the next look: after jobs that nothing announced, and at most. */
const SOON = 20, SELDOM = 5000;
/** The SQLSTATEs of ends that come too late, and of jobs that were cancelled. */
const LATE = ["JW002", "JW003"];

/**
 * Works until it is asked to stop. If a connection is lost, it throws: the lease of its job ends, and the job runs again.
 * @param {Options} options
 */
export async function work({ url, queue, handlers, stop, lease = 60, grace = 20 }) {
  const name = `${queue}@${os.hostname()}:${process.pid}`;
  let failure, hinted = false, wake = () => {};
  const lost = (error) => { failure ??= error; wake(); };
  const connect = async () => {
    const client = new pg.Client({ connectionString: url, keepAlive: true, application_name: name });
    client.on("error", lost);
    await client.connect();
    return client;
  };
  // The second one has no transaction open: it extends leases, notes progress, and hears hints.
  const db = await connect(), aside = await connect();
  aside.on("notification", ({ payload }) => {
    if (payload === `q${queue}` || payload === `r${queue}`) { hinted = true; wake(); }
  });
  stop.addEventListener("abort", () => wake());
  const rest = (milliseconds) => new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    wake = () => { clearTimeout(timer); resolve(undefined); };
  });
  try {
    await aside.query("listen jobwright_wake");
    const take = `select id, token, kind, payload, attempt
                  from jobwright.take($1, $2, lease => make_interval(secs => $3), kinds => $4)`;
    let pause = SELDOM, announced = false;
    while (!stop.aborted && !failure) {
      // A statement alone is a transaction: the job is ours before the work begins.
      const { rows: [job] } = await db.query(take, [queue, name, lease, Object.keys(handlers)]);
      if (job) {
        await run(job);
        if (!announced) pause = SOON;
      } else {
        if (!hinted && !stop.aborted && !failure) await rest(pause);
        [announced, hinted, pause] = [hinted, false, Math.min(1.5 * pause, SELDOM)];
      }
    }
    if (failure) throw failure;
  } catch (error) {
    throw failure ?? error; // a statement on a connection that was lost before says less
  } finally {
    await Promise.allSettled([db.end(), aside.end()]);
  }

  /** Runs a job, and extends its lease meanwhile. */
  async function run(job) {
    const giveUp = new AbortController();
    let givenBack = false, timer;
    const extension = setInterval(() => extend(job, giveUp).catch(lost), (1000 * lease) / 3);
    const stopping = () => {
      timer = setTimeout(() => { givenBack = true; giveUp.abort(new Error("the worker stops")); }, 1000 * grace);
    };
    if (stop.aborted) stopping();
    else stop.addEventListener("abort", stopping, { once: true });
    const progress = async (percent, note) => {
      await aside.query("select jobwright.progress($1, $2, $3, $4, strict => false)", [job.id, job.token, percent, note]);
    };
    console.log(`${job.id} ${job.kind}: attempt ${job.attempt}`);
    try {
      await db.query("begin");
      const result = await handlers[job.kind](job, { db, signal: giveUp.signal, progress });
      await db.query("select jobwright.done($1, $2, $3::jsonb)", [job.id, job.token, JSON.stringify(result)]);
      await db.query("commit");
      console.log(`${job.id} ${job.kind}: done`);
    } catch (error) {
      await db.query("rollback"); // without a connection this throws, and the worker ends
      await ended(job, error, givenBack);
    } finally {
      clearInterval(extension);
      clearTimeout(timer);
      stop.removeEventListener("abort", stopping);
    }
  }

  /** Extends the lease of a job, or tells its handler that the job is another's now. */
  async function extend(job, giveUp) {
    const sql = "select state from jobwright.extend_many(array[$1::uuid], array[$2::uuid], strict => false)";
    const { rows: [{ state }] } = await aside.query(sql, [job.id, job.token]);
    // `ending`: its transaction is just being committed.
    if (state === "lost" || state === "cancelled") giveUp.abort(new Error(`the job is ${state}`));
  }

  /** Records that a job was not done. Of one that is no longer ours, nothing is recorded; the group of one that was cancelled is free. */
  async function ended(job, error, givenBack) {
    if (givenBack) {
      console.log(`${job.id} ${job.kind}: given back`);
      await db.query("select jobwright.release($1, $2, strict => false)", [job.id, job.token]);
      return;
    }
    const text = String(error).replaceAll("\0", "?");
    console.log(`${job.id} ${job.kind}: ${LATE.includes(error?.code) ? "it was ended elsewhere" : text}`);
    await db.query("select jobwright.fail($1, $2, $3, $4, strict => false)", [job.id, job.token, text, error?.stack?.replaceAll("\0", "?")]);
  }
}
