// pg-boss with what its documentation recommends for throughput: large batches and `burstWhenBatchFull`, which fetches again at once
// when a batch was full; two workers in one process. For latency: LISTEN/NOTIFY. Supervision and schedules are off, as they are work
// of their own. Completed jobs stay in the table, as it always does.
//
// Groups are keys of a queue with the policy key_strict_fifo, or groups with a concurrency of 1, as the harness asks. Only after a full batch is the
// next one fetched at once, so all workers together ask for no more than the 1,000 groups. The numbers are the best of 250 to 1,000 by 1 to 4.

import { PgBoss } from "pg-boss";
import { drive, handled, nextGroup, way } from "./driver.mjs";

const boss = (listen) =>
  new PgBoss({
    connectionString: process.env.DATABASE_URL,
    supervise: false,
    schedule: false,
    useListenNotify: listen,
  }).on("error", console.error);

/** What a job has besides its payload. */
const gated = {
  "": () => ({}),
  fifo: () => ({ singletonKey: nextGroup() }),
  groups: () => ({ group: { id: nextGroup() } }),
}[way];
const policy = way === "fifo" ? { policy: "key_strict_fifo" } : {};
const one = way === "groups" ? { groupConcurrency: 1 } : {};

const queue = (boss) => ({
  bulk: (payloads) => boss.insert("bench", payloads.map((data) => ({ data, ...gated() }))),
  one: (data) => boss.send("bench", data, gated()),
});

drive({
  async setup() {
    const it = await boss(false).start();
    await it.createQueue("bench", { notify: true, ...policy });
    await it.createQueue("bulk", { notify: false });
    await it.stop();
  },
  connect: async () => queue(await boss(false).start()),
  async worker(latency) {
    const it = await boss(latency).start();
    const size = { "": [1000, 2], fifo: [1000, 1], groups: [500, 2] }[way];
    const speed = { batchSize: size[0], localConcurrency: size[1], burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    const options = { ...(latency ? { batchSize: 100, pollingIntervalSeconds: 0.5 } : speed), ...one };
    return () => it.work("bench", options, async (jobs) => jobs.forEach((job) => handled(job.data)));
  },
});
