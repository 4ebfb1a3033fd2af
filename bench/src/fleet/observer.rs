//! The server as it is seen from another database, so that watching counts as nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::Result;
use crate::server::{cpu_of_family, parent_of_postgres};

/// How often connections are counted while their highest number is looked for.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Observer {
    client: Client,
    database: String,
    /// The process whose children serve the connections, if the server runs on this machine.
    postmaster: Option<u32>,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    at: Instant,
    /// Committed and rolled back. Each backend reports its own up to ten seconds late, at both ends of a window alike.
    transactions: f64,
    /// Of all the server's processes, those that have ended included, in seconds.
    cpu: Option<f64>,
}

/// The difference of two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) seconds: f64,
    pub(super) transactions: f64,
    pub(super) cpu: Option<f64>,
}

impl Observer {
    pub(super) async fn new(client: Client, database: String) -> Result<Self> {
        let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let postmaster = u32::try_from(pid).ok().and_then(parent_of_postgres);
        Ok(Self { client, database, postmaster })
    }

    /// Returns how many clients are connected to the fleet's database.
    pub(super) async fn connections(&self) -> Result<usize> {
        let sql = "select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'";
        let connections: i64 = self.client.query_one(sql, &[&self.database]).await?.get(0);
        Ok(connections as usize)
    }

    pub(super) async fn read(&self) -> Result<Reading> {
        let sql = "select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = $1";
        let transactions = self.client.query_one(sql, &[&self.database]).await?.get(0);
        Ok(Reading { at: Instant::now(), transactions, cpu: self.postmaster.and_then(cpu_of_family) })
    }

    /// Returns whether the server has closed this connection.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits until the number of connections has not changed for a while, and returns it.
    pub(super) async fn settled(&self, calm: Duration, patience: Duration) -> Result<usize> {
        let deadline = Instant::now() + patience;
        let (mut number, mut since) = (self.connections().await?, Instant::now());
        while since.elapsed() < calm && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.connections().await?;
            if now != number {
                (number, since) = (now, Instant::now());
            }
        }
        Ok(number)
    }

    /// Counts connections again and again, from now until the result is asked for.
    pub(super) fn watch(self) -> Watch {
        let most = Arc::new(AtomicUsize::new(0));
        let seen = most.clone();
        let task = tokio::spawn(async move {
            while let Ok(connections) = self.connections().await {
                seen.fetch_max(connections, Ordering::Relaxed);
                tokio::time::sleep(LOOK).await;
            }
        });
        Watch { most, task }
    }
}

/// A watch for the highest number of connections.
pub(super) struct Watch {
    most: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Ends it, and returns the highest number.
    pub(super) fn most(self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reading {
    pub(super) fn until(self, end: Self) -> Difference {
        Difference {
            seconds: end.at.duration_since(self.at).as_secs_f64(),
            transactions: end.transactions - self.transactions,
            cpu: self.cpu.zip(end.cpu).map(|(before, after)| after - before),
        }
    }
}
