import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { placeOrder } from "../shop.js";
import { Site, eventually } from "./site.js";

/** @type {Site} */
let site;
before(async () => { site = await Site.create(); });
after(() => site.remove());

let workers = [];
const worker = (...args) => {
  const started = site.worker(...args);
  workers.push(started);
  return started;
};
afterEach(async () => {
  for (const process of workers) await process.kill("SIGKILL");
  workers = [];
  await site.db.query("truncate customer_order, invoice");
  assert.equal(await site.value("select count(*)::int from jobwright.jobs"), 0, "jobs are left over");
});

/** Returns how often each attempt of a job was begun by any worker. */
const starts = (id) => workers.flatMap(({ output }) => output.split("\n")).filter((line) => line.startsWith(`${id} `) && line.includes(": attempt "));
const onlyJob = () => site.value("select id from jobwright.jobs");

test("an order and its job are one commit", async () => {
  await assert.rejects(placeOrder(site.db, "ada@example.com", -1), /violates check constraint/);
  assert.equal(await onlyJob(), undefined);
  const order = await placeOrder(site.db, "ada@example.com", 100);
  assert.deepEqual(await site.value("select payload from jobwright.jobs"), { order });
  worker();
  await site.allDone();
});

test("workers share the orders, and each gets one invoice", async () => {
  const both = [worker(60), worker(60)];
  for (let n = 1; n <= 20; n++) await placeOrder(site.db, `a${n}@example.com`, n);
  await site.allDone();
  assert.equal(await site.value("select count(*)::int from invoice"), 20);
  for (const process of both) assert.equal(await process.kill("SIGTERM"), 0, process.output);
  const begun = both.map(({ output }) => output.match(/: attempt 1$/gm)?.length ?? 0);
  assert.equal(begun[0] + begun[1], 20, "each job was started once");
});

test("a job whose work fails is tried again, and nothing of it stays", async () => {
  const id = await site.value("select jobwright.send('invoice', '{\"order\": 0}', queue => 'billing', retry => 'fixed(1ms)', max_attempts => 2)");
  const process = worker();
  await eventually("it is a dead letter", async () => (await site.state(id)) === "dead");
  assert.equal(starts(id).length, 2);
  assert.match(process.output, /Error: there is no order 0/);
  await site.db.query("delete from jobwright.dead_letter_job");
});

test("the lease of a long job is extended, and it starts once", async () => {
  for (let n = 1; n <= 12; n++) await site.db.query("insert into customer_order (address, cents) values ('a', 1)");
  const sent = site.shop(["remind", "0.25"]);
  assert.equal(await sent.end(), 0, sent.output);
  const id = sent.output.trim();
  const both = [worker(), worker()];
  await eventually("it is halfway", async () => (await site.value("select percent from jobwright.progress where job_id = $1", [id])) >= 50);
  // Its lease is a second, and three have to pass.
  await site.allDone();
  assert.deepEqual(starts(id), [`${id} remind: attempt 1`], both.map(({ output }) => output).join());
  assert.equal(await site.value("select sum(reminded)::int from customer_order"), 12);
});

test("a worker that is killed is replaced after its lease, and its row is written once", async () => {
  const lock = await site.lock("invoice");
  await placeOrder(site.db, "ada@example.com", 100);
  const id = await onlyJob();
  const first = worker(3);
  await lock.isReached();
  const ends = await site.value("select lease_until from jobwright.external_job where id = $1", [id]);
  await first.kill("SIGKILL");
  const second = worker(3);
  await second.says(`${id} invoice: attempt 2`);
  const handedOut = await site.value("select handed_at from jobwright.external_job where id = $1", [id]);
  assert.ok(handedOut >= ends, "it was handed out again within its lease");
  await lock.release();
  await site.allDone();
  assert.equal(starts(id).length, 2);
  assert.equal(await site.value("select count(*)::int from invoice"), 1);
});

test("a worker that stood still past its lease can't commit", async () => {
  const lock = await site.lock("invoice");
  await placeOrder(site.db, "ada@example.com", 100);
  const id = await onlyJob();
  const first = worker();
  await lock.isReached();
  first.child.kill("SIGSTOP");
  const second = worker(60);
  await second.says(`${id} invoice: attempt 2`);
  await lock.release();
  // Both write the invoice now: one of them waits for the transaction of the other.
  first.child.kill("SIGCONT");
  await eventually("the first one is refused", () => /invoice: (it was ended elsewhere|error: duplicate key)/.test(first.output));
  await second.says(`${id} invoice: done`);
  assert.equal(await site.value("select count(*)::int from invoice"), 1);
  assert.ok(!first.output.includes("done"), first.output);
});

test("a worker that is asked to stop ends its job, and takes no other", async () => {
  const lock = await site.lock("invoice");
  await placeOrder(site.db, "ada@example.com", 100);
  const first = worker(60);
  await lock.isReached();
  const stopped = first.kill("SIGTERM");
  await placeOrder(site.db, "bob@example.com", 100);
  await lock.release();
  assert.equal(await stopped, 0, first.output);
  assert.equal(await site.value("select count(*)::int from invoice"), 1);
  assert.equal(await site.value("select count(*)::int from jobwright.jobs where state = 'waiting'"), 1);
  worker();
  await site.allDone();
});

test("a job that is too long for a stop is given back at no attempt", async () => {
  for (let n = 1; n <= 3; n++) await site.db.query("insert into customer_order (address, cents) values ('a', 1)");
  const id = await site.value("select jobwright.send('remind', '{\"seconds\": 1}', queue => 'billing')");
  const first = worker(60, 0.1);
  await first.says(`${id} remind: attempt 1`);
  assert.equal(await first.kill("SIGTERM"), 0, first.output);
  assert.match(first.output, /remind: given back/);
  assert.equal(await site.value("select coalesce(sum(reminded), 0)::int from customer_order"), 0, "the work was rolled back");
  const second = worker(60);
  await second.says(`${id} remind: attempt 1`);
  await site.allDone();
});

test("a handler learns that its job was cancelled", async () => {
  for (let n = 1; n <= 100; n++) await site.db.query("insert into customer_order (address, cents) values ('a', 1)");
  const id = await site.value("select jobwright.send('remind', '{\"seconds\": 0.2}', queue => 'billing')");
  const process = worker();
  await process.says(`${id} remind: attempt 1`);
  assert.equal(await site.value("select jobwright.cancel($1::uuid)", [id]), true);
  await process.says("the job is cancelled");
  await eventually("its end is known", async () => (await site.value("select count(*)::int from jobwright.terminating_handler")) === 0);
  assert.equal(await site.value("select sum(reminded)::int from customer_order"), 0);
});

test("a worker that loses its connection ends, and says why", async () => {
  const process = worker();
  await eventually("it listens", async () => (await site.value("select count(*)::int from pg_stat_activity where datname = current_database() and application_name like 'billing@%'")) === 2);
  await site.db.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'billing@%'");
  assert.equal(await process.end(), 1);
  assert.match(process.output, /^shop: .*terminat/m);
});
