// pg-boss with what its documentation recommends for throughput: large batches and `burstWhenBatchFull`, which fetches again at once
// when a batch was full; two workers in one process. For latency: LISTEN/NOTIFY. Supervision and schedules are off, as they are work
// of their own. Completed jobs stay in the table, as it always does.

import { PgBoss } from "pg-boss";
import { drive, handled } from "./driver.mjs";

const boss = (listen) =>
  new PgBoss({
    connectionString: process.env.DATABASE_URL,
    supervise: false,
    schedule: false,
    useListenNotify: listen,
  }).on("error", console.error);

const queue = (boss) => ({
  bulk: (payloads) => boss.insert("bench", payloads.map((data) => ({ data }))),
  one: (data) => boss.send("bench", data),
});

drive({
  async setup() {
    const it = await boss(false).start();
    await it.createQueue("bench", { notify: true });
    await it.createQueue("bulk", { notify: false });
    await it.stop();
  },
  connect: async () => queue(await boss(false).start()),
  async worker(latency) {
    const it = await boss(latency).start();
    const speed = { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    const options = latency ? { batchSize: 100, pollingIntervalSeconds: 0.5 } : speed;
    return () => it.work("bench", options, async (jobs) => jobs.forEach((job) => handled(job.data)));
  },
});
