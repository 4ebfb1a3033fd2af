//! The jobs that have to be on time, and the memory of all processes meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobwright::NewJob;

use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;

pub(super) type Site = crate::delivery::site::Site<Pg<false>>;

/// Jobs in one commit.
const BATCH: u64 = 5;

/// Sends `rate` good jobs a second, each recorded in the transaction that sends it.
pub(super) async fn send(site: Arc<Site>, rate: u64, end: Instant) -> u64 {
    let messages = site.messages().await;
    let mut clock = tokio::time::interval(Duration::from_micros(1_000_000 * BATCH / rate));
    let mut sent = 0;
    while Instant::now() < end {
        clock.tick().await;
        let mut cx = messages.begin();
        let ids: Vec<_> = (0..BATCH).map(|n| *cx.send(NewJob::json("good", &n)).unwrap().as_uuid()).collect();
        let transaction = cx.transaction().await.unwrap();
        transaction.execute("insert into sent (id) select unnest($1::uuid[])", &[&ids]).await.unwrap();
        cx.commit().await.unwrap();
        sent += BATCH;
    }
    sent
}

/// The peak memory of each, in kB.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    pub(super) worker: AtomicU64,
    /// A PostgreSQL process, with the shared buffers that it touched; and without.
    pub(super) database: AtomicU64,
    pub(super) database_anonymous: AtomicU64,
    pub(super) broker: AtomicU64,
}

/// Returns a line of a process's status. 0: it has ended.
fn status(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(line));
    value.map_or(0, |value| value.trim().trim_end_matches("kB").trim().parse().unwrap())
}

/// Watches them all the time, until it is stopped.
pub(super) async fn watch(peaks: Arc<Peaks>, worker: u32, broker: u32, database: tokio_postgres::Client) {
    loop {
        // The kernel keeps the peak: only a process that ends between two checks is missed.
        peaks.worker.fetch_max(status(worker, "VmHWM:"), Ordering::Relaxed);
        peaks.broker.fetch_max(status(broker, "VmHWM:"), Ordering::Relaxed);
        for row in database.query("select pid from pg_stat_activity", &[]).await.unwrap() {
            let pid = row.get::<_, i32>(0).unsigned_abs();
            peaks.database.fetch_max(status(pid, "VmHWM:"), Ordering::Relaxed);
            peaks.database_anonymous.fetch_max(status(pid, "RssAnon:"), Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the process of the broker.
pub(super) fn pid_of(rabbit: &PrivateRabbit) -> u32 {
    let said = rabbit.ctl(&["eval", "os:getpid()."]);
    said.trim().trim_matches('"').parse().unwrap()
}
