// A database of its own with jobwright, an executor, the shop's tables, and workers as processes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
/** Longer than anything takes unless it is broken. */
const PATIENCE = 60_000;

const CONFIG = `
[executor]
lease = "2s"
poll_interval = "100ms"
[queues.billing]
external = true
`;

/** Asks until the answer is true. */
export async function eventually(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `still not true after ${PATIENCE} ms: ${what}`);
    await sleep(20);
  }
}

/** A process, with what it printed. */
class Running {
  constructor(command, args, env) {
    this.output = "";
    this.child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => { this.output += text; });
    }
    this.ended = new Promise((resolve, reject) => {
      this.child.on("error", reject).on("close", (code, signal) => resolve(signal ?? code));
    });
  }

  /** Returns the exit code, or the name of the signal that ended it. */
  async end() {
    let result;
    this.ended.then((ended) => { result = ended; });
    await eventually(`it ends: ${this.output}`, () => result !== undefined);
    return result;
  }

  async says(text) {
    await eventually(`it says “${text}”`, () => this.output.includes(text));
  }

  async kill(signal) {
    this.child.kill(signal);
    return this.end();
  }
}

export class Site {
  #running = new Set();

  static async create() {
    const site = new Site();
    site.admin = new pg.Client({ connectionString: process.env.DATABASE_URL });
    await site.admin.connect();
    site.name = `node_example_${randomBytes(6).toString("hex")}`;
    await site.admin.query(`create database ${site.name}`);
    const url = new URL(process.env.DATABASE_URL);
    url.pathname = `/${site.name}`;
    site.url = url.href;
    site.folder = await mkdtemp(join(tmpdir(), "jobwright-node-"));
    site.config = join(site.folder, "jobwright.toml");
    await writeFile(site.config, CONFIG);
    const migrate = site.jobwright("migrate");
    assert.equal(await migrate.end(), 0, migrate.output);
    const tables = site.shop(["tables"]);
    assert.equal(await tables.end(), 0, tables.output);
    // It ends leases and makes retries due.
    site.executor = site.jobwright("worker");
    site.db = new pg.Client({ connectionString: site.url });
    await site.db.connect();
    return site;
  }

  async remove() {
    for (const process of this.#running) await process.kill("SIGKILL");
    await this.db?.end();
    await this.admin.query(`drop database if exists ${this.name} with (force)`);
    await this.admin.end();
    await rm(this.folder, { recursive: true });
  }

  #start(command, args, more) {
    // The program refuses variables of this prefix that it does not know.
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("JOBWRIGHT_"));
    const process_ = new Running(command, args, { ...Object.fromEntries(inherited), DATABASE_URL: this.url, ...more });
    this.#running.add(process_);
    process_.ended.then(() => this.#running.delete(process_), () => this.#running.delete(process_));
    return process_;
  }

  jobwright(command) {
    return this.#start(process.env.JOBWRIGHT_BIN, ["--config", this.config, command], {});
  }

  shop(args, more = {}) {
    return this.#start(process.execPath, [MAIN, ...args], more);
  }

  /** Starts a worker with a lease of a second, or what is said. */
  worker(lease = 1, grace = 20) {
    return this.shop(["work"], { LEASE_SECONDS: String(lease), GRACE_SECONDS: String(grace) });
  }

  /** Returns the only value of a row. */
  async value(sql, parameters = []) {
    const { rows: [row] } = await this.db.query({ text: sql, values: parameters, rowMode: "array" });
    return row?.[0];
  }

  /** Holds up the writes to a table until `release`. */
  async lock(table) {
    const holder = new pg.Client({ connectionString: this.url });
    await holder.connect();
    await holder.query(`begin; lock table ${table} in exclusive mode`);
    const waiting = "select count(*)::int from pg_locks where not granted and relation = $1::regclass";
    return {
      isReached: () => eventually(`a write to ${table} waits`, async () => (await this.value(waiting, [table])) > 0),
      release: async () => { await holder.query("rollback"); await holder.end(); },
    };
  }

  /** Waits until no job is left. */
  async allDone() {
    await eventually("all jobs are done", async () => (await this.value("select count(*)::int from jobwright.jobs")) === 0);
  }

  /** Returns the state of a job: `null` if it is gone. */
  async state(id) {
    return (await this.value("select state from jobwright.jobs where id = $1", [id])) ?? null;
  }
}
