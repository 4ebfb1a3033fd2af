// graphile-worker with what its page on performance recommends for many short jobs: a local queue (so that one statement takes 500
// jobs) and batched completion. The harness starts one or two of these processes, each with 24 jobs at a time. For latency: 4 jobs at a
// time and no local queue, as a local queue waits. NO_LOG_SUCCESS=1 is set by the harness. Groups are named queues: jobs of one run in series,
// with the local queue too since 0.18 (graphile/worker issue 621). A fetch that finds fewer than it asked for waits for the next poll, and with
// queues many do, so they are polled each 10 ms. A local queue of 100 or 1,000 had less, and none at all a hundredth.

import { makeWorkerUtils, run } from "graphile-worker";
import { drive, grouped, handled, nextGroup } from "./driver.mjs";

const connectionString = process.env.DATABASE_URL;
const base = { connectionString, schema: "graphile_worker" };

drive({
  async setup() {
    const utils = await makeWorkerUtils(base);
    await utils.migrate();
    await utils.release();
  },
  async connect() {
    const utils = await makeWorkerUtils(base);
    await utils.withPgClient((client) => client.query("select 1"));
    return {
      bulk: (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: "bench", payload, queueName: nextGroup() }))),
      one: (payload) => utils.addJob("bench", payload, { queueName: nextGroup() }),
    };
  },
  async worker(latency) {
    // Loads what is to be loaded and opens a connection; jobs are taken after GO.
    const utils = await makeWorkerUtils(base);
    await utils.withPgClient((client) => client.query("select 1"));
    const speed = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    const poll = grouped ? { pollInterval: 10 } : {};
    const worker = { ...base, maxPoolSize: 25, ...(latency ? { concurrentJobs: 4 } : { ...speed, ...poll }) };
    return () => run({ preset: { worker }, taskList: { bench: handled }, noHandleSignals: true });
  },
});
