// node main.js tables | order ADDRESS CENTS | remind | work
import { readFile } from "node:fs/promises";
import pg from "pg";
import { QUEUE, handlers, placeOrder, sendReminders } from "./shop.js";
import { work } from "./worker.js";

const USAGE = "usage: node main.js tables | order ADDRESS CENTS | remind [SECONDS] | work, with DATABASE_URL=postgres://… in the environment";

/** Runs something with a connection of its own. */
async function connected(url, action) {
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  try {
    return await action(db);
  } finally {
    await db.end();
  }
}

async function main([command, ...rest]) {
  const url = process.env.DATABASE_URL;
  const number = (name, otherwise) => Number(process.env[name] ?? otherwise);
  if (url && command === "tables" && rest.length === 0) {
    const tables = await readFile(new URL("tables.sql", import.meta.url), "utf8");
    await connected(url, (db) => db.query(tables));
  } else if (url && command === "order" && rest.length === 2) {
    console.log(await connected(url, (db) => placeOrder(db, rest[0], Number(rest[1]))));
  } else if (url && command === "remind" && rest.length <= 1) {
    console.log(await connected(url, (db) => sendReminders(db, Number(rest[0] ?? 0.1))));
  } else if (url && command === "work" && rest.length === 0) {
    const stop = new AbortController();
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stop.abort());
    await work({ url, queue: QUEUE, handlers, stop: stop.signal, lease: number("LEASE_SECONDS", 60), grace: number("GRACE_SECONDS", 20) });
  } else {
    console.error(USAGE);
    process.exitCode = 2;
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`shop: ${error.message}`);
  process.exitCode = 1;
});
