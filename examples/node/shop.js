// A shop: an order and the job that makes its invoice are one commit, and so are the invoice and the end of that job.
import { setTimeout as sleep } from "node:timers/promises";

export const QUEUE = "billing";

/**
 * Stores an order and sends its job, in one transaction: there is never one without the other.
 * @param {import("pg").ClientBase} db
 * @param {string} address
 * @param {number} cents
 * @returns {Promise<string>} the number of the order
 */
export async function placeOrder(db, address, cents) {
  await db.query("begin");
  let id;
  try {
    const insert = "insert into customer_order (address, cents) values ($1, $2) returning id";
    id = (await db.query(insert, [address, cents])).rows[0].id;
    await db.query("select jobwright.send('invoice', $1::jsonb, queue => $2)", [{ order: id }, QUEUE]);
    await db.query("commit");
  } catch (error) {
    await db.query("rollback");
    throw error;
  }
  await wake(db);
  return id;
}

/**
 * Sends the job that reminds everyone who has not paid, unless there is one.
 * @param {import("pg").ClientBase} db
 * @param {number} seconds  how long each letter takes
 * @returns {Promise<string>} the job's id
 */
export async function sendReminders(db, seconds) {
  const send = "select jobwright.send('remind', $1::jsonb, queue => $2, unique_key => 'all') as id";
  const { rows: [{ id }] } = await db.query(send, [{ seconds }, QUEUE]);
  await wake(db);
  return id;
}

/** Announces jobs after their commit. It is for speed alone: workers find them without it too. */
async function wake(db) {
  await db.query("select jobwright.wake($1)", [QUEUE]);
}

/**
 * The kinds of jobs and their work.
 * @type {Record<string, import("./worker.js").Handler>}
 */
export const handlers = {
  /** Makes an invoice. What it writes with `db` is committed with the end of the job, or not at all. */
  async invoice({ payload }, { db }) {
    const insert = "insert into invoice (order_id, cents) select id, cents from customer_order where id = $1";
    const { rowCount } = await db.query(insert, [payload.order]);
    if (rowCount === 0) throw new Error(`there is no order ${payload.order}`);
    return { invoice: payload.order };
  },

  /**
   * Reminds everyone who has not paid: a long job, whose lease the worker extends. A letter that was sent is not rolled back. So between two letters it
   * looks whether the job is still its own.
   */
  async remind({ payload }, { db, signal, progress }) {
    const { rows } = await db.query("select id, address from customer_order where not paid order by id");
    for (const [index, order] of rows.entries()) {
      signal.throwIfAborted();
      await deliver(order.address, payload?.seconds ?? 0.1);
      await db.query("update customer_order set reminded = reminded + 1 where id = $1", [order.id]);
      await progress(Math.floor((100 * (index + 1)) / rows.length), `${index + 1} of ${rows.length} letters`);
    }
  },
};

/** Stands for a server of mail, which takes its time. */
async function deliver(address, seconds) {
  await sleep(1000 * seconds);
  console.log(`a reminder to ${address}`);
}
