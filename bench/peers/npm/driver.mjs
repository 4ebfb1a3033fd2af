// What both programs share: the words spoken with the harness (see bench/src/peers/driver.rs).
//
//   setup            makes the tables
//   bulk N | one N   READY, GO, enqueues N jobs 1,000 a call | one a call, DONE
//   work STEP        READY, GO, works until stdin ends; RAN for each STEP jobs
//   latency N        READY, GO, works and enqueues 50 a second, one line a job, DONE
//
// BENCH_GROUPS: jobs are of so many groups by turns, of which one at a time may run. BENCH_WAY: which of a peer's ways it is to go.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const [mode, count] = [process.argv[2], Number(process.argv[3] ?? 0)];
const text = JSON.parse(process.env.BENCH_PAYLOAD).text;
const WARM_UP = 20;
const groups = Number(process.env.BENCH_GROUPS ?? 0);
export const grouped = groups > 0;
export const way = process.env.BENCH_WAY ?? "";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (line) => process.stdout.write(`${line}\n`);

let enqueued = 0;
/** The group of the next job to be enqueued, if there are groups. */
export const nextGroup = () => (grouped ? `group-${enqueued++ % groups}` : undefined);

let ran = 0;
const starts = new Map();

/** What a job does: nothing, but it is counted or its moment is noted. */
export function handled(payload) {
  if (mode === "latency") starts.set(payload.n, performance.now());
  else if (++ran % count === 0) say("RAN");
}

/** The peer gives setup(), connect() → { bulk(payloads), one(payload) } and worker(latency) → start(). */
export async function drive({ setup, connect, worker }) {
  if (mode === "setup") {
    await setup();
    process.exit(0);
  }
  const start = mode === "work" || mode === "latency" ? await worker(mode === "latency") : undefined;
  const queue = mode === "work" ? undefined : await connect(mode === "latency");
  say("READY");
  await lines.next();
  await start?.();
  if (mode === "bulk") {
    for (let done = 0; done < count; done += 1000) {
      await queue.bulk(Array.from({ length: Math.min(1000, count - done) }, () => ({ text })));
    }
  } else if (mode === "one") {
    for (let n = 0; n < count; n++) await queue.one({ text });
  } else if (mode === "latency") await paced(queue);
  if (mode !== "work") say("DONE");
  // The harness reads the processor time before it ends this program.
  await lines.next();
  process.exit(0);
}

async function paced(queue) {
  const sent = [];
  let next = performance.now() + 500;
  for (let n = 0; n < WARM_UP + count; n++) {
    await sleep(Math.max(0, next - performance.now()));
    next = Math.max(next, performance.now() - 20) + 20;
    const before = performance.now();
    await queue.one({ n, text });
    sent.push([before, performance.now()]);
    // The worker has to be awake before it counts, and to be through before the end.
    const all = [WARM_UP, WARM_UP + count].includes(sent.length);
    while (all && starts.size < sent.length) await sleep(10);
  }
  for (let n = WARM_UP; n < sent.length; n++) {
    const [before, after] = sent[n];
    say(`LATENCY ${Math.max(0, starts.get(n) - after)} ${starts.get(n) - before}`);
  }
}
