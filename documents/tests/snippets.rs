//! The blocks of Rust in the documents, as `cargo xtask documents` writes them, and the README's program as a process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

include!(env!("JOBWRIGHT_DOCUMENTS", "`cargo xtask documents` compiles this: it writes the blocks first"));

/// How long a busy machine may take for what an idle one does at once. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);

/// Runs a block that is a part of a program.
#[track_caller]
fn run(place: &str, block: impl Future<Output = Result<(), Box<dyn std::error::Error>>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Err(why) = runtime.block_on(block) {
        panic!("{place}: this block of Rust has failed: {why}");
    }
}

#[tokio::test]
async fn the_readmes_program_invoices_its_order_and_stops_on_ctrl_c() {
    let [("README.md", test)] = PROGRAMS else {
        panic!("each of these programs needs a test that runs it: {PROGRAMS:?}")
    };
    let Some(database) = Database::create().await else { return };
    let client = database.connect().await;
    let mut program = Program::start(test, &database.url);

    // The first answer may come before the table is there.
    let has_table = "select to_regclass('orders') is not null";
    program.until("it has created its table", async || client.query_one(has_table, &[]).await.unwrap().get(0)).await;
    let invoiced = "select coalesce(bool_and(invoiced), false) from orders";
    program.until("the order is invoiced", async || client.query_one(invoiced, &[]).await.unwrap().get(0)).await;
    let left: i64 = client.query_one("select count(*) from jobwright.jobs", &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "the job's end commits with the invoice");

    let process = program.0.id();
    program.until("it waits for Ctrl-C", async || catches_interrupts(process)).await;
    program.interrupt();
    assert!(program.ended().await.success(), "it ends without an error");
}

/// A database of its own, which is dropped with this value.
struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    /// Creates it. `None`: this run has to do without servers, as the tests of the library may.
    async fn create() -> Option<Self> {
        if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
            return None;
        }
        let server = std::env::var("DATABASE_URL").expect("run `cargo xtask documents`, or set DATABASE_URL");
        let name = format!("readme_{}", jobwright::JobId::new().as_uuid().simple());
        let (place, parameters) = server.split_once('?').unwrap_or((&server, ""));
        let (place, _) = place.rsplit_once('/').expect("a URL that names a database");
        let url = format!("{place}/{name}?{parameters}");
        connect(&server).await.batch_execute(&format!("create database {name}")).await.unwrap();
        Some(Self { server, name, url })
    }

    async fn connect(&self) -> Client {
        connect(&self.url).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("drop database {} with (force)", self.name));
        // A runtime can't wait within another one.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { connect(&server).await.batch_execute(&drop).await.unwrap() });
        });
        let _ = dropped.join();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A process that runs a program of a document: this binary, started again for one test. It is killed when this is dropped.
struct Program(Child);

impl Program {
    fn start(test: &str, database: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture"]).env("DATABASE_URL", database);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Polls until `holds` returns true. Fails if that takes too long, or if the program ends before it.
    async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let start = Instant::now();
        while !holds().await {
            let ended = self.0.try_wait().unwrap();
            assert!(ended.is_none(), "the program has ended ({ended:?}) before this holds: {what}");
            assert!(start.elapsed() < PATIENCE, "not true after {PATIENCE:?}: {what}");
            tokio::time::sleep(POLL).await;
        }
    }

    fn interrupt(&self) {
        let sent = Command::new("kill").arg("-INT").arg(self.0.id().to_string()).status().unwrap();
        assert!(sent.success(), "kill -INT");
    }

    async fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the program still runs {PATIENCE:?} after SIGINT");
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process handles SIGINT, which ends it at once otherwise. Only Linux tells; elsewhere a program that came this far is believed.
fn catches_interrupts(process: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { return true };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    // Signal 2 is the second bit.
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}
