//! The cost of the work: counters of the server, and of the processes on this machine.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::Result;

/// Clock ticks a second in `/proc/*/stat`: fixed by Linux's ABI.
const TICKS: f64 = 100.0;

/// The server, seen through connections that do nothing else.
pub(crate) struct Server {
    /// Connected to the database of the work.
    inside: Client,
    /// Connected to another database if there is one, so that watching does not count as work.
    outside: Client,
    database: String,
    /// The process whose children serve the connections, if the server runs on this machine.
    postmaster: Option<u32>,
    has_statements: bool,
}

/// Counters at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    wal: f64,
    commits: f64,
    statements: Option<f64>,
    server_cpu: Option<f64>,
    own_cpu: Option<f64>,
}

/// The difference of two snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Bytes.
    pub(crate) wal: f64,
    pub(crate) commits: f64,
    pub(crate) statements: Option<f64>,
    /// Seconds.
    pub(crate) server_cpu: Option<f64>,
    /// Seconds.
    pub(crate) own_cpu: Option<f64>,
}

/// What the statements of the database have cost so far.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) statements: f64,
    /// Pages that were accessed, in the cache or not.
    pub(crate) pages: f64,
    /// Bytes, of the whole server.
    pub(crate) wal: f64,
}

#[cfg(test)]
impl Counted {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            statements: self.statements - before.statements,
            pages: self.pages - before.pages,
            wal: self.wal - before.wal,
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            statements: self.statements + other.statements,
            pages: self.pages + other.pages,
            wal: self.wal + other.wal,
        }
    }
}

impl Server {
    pub(crate) async fn new(inside: Client, outside: Client) -> Result<Self> {
        let row = inside.query_one("select pg_backend_pid(), current_database()::text", &[]).await?;
        let (pid, database): (i32, String) = (row.get(0), row.get(1));
        let postmaster = u32::try_from(pid).ok().and_then(parent_of_postgres);
        // Fails unless the library was loaded when the server started.
        let has_statements = inside
            .batch_execute(
                "create extension if not exists pg_stat_statements; select calls from pg_stat_statements limit 1",
            )
            .await
            .is_ok()
            && outside.batch_execute("create extension if not exists pg_stat_statements").await.is_ok();
        Ok(Self { inside, outside, database, postmaster, has_statements })
    }

    /// Returns a client for preparation and cleanup.
    pub(crate) fn client(&self) -> &Client {
        &self.inside
    }

    pub(crate) async fn describe(&self) -> Result<Vec<(String, String)>> {
        let mut facts = Vec::new();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        facts.push(("cores".to_owned(), cores.to_string()));
        facts.push(("PostgreSQL".to_owned(), self.setting("server_version").await?));
        for name in ["shared_buffers", "synchronous_commit", "fsync", "full_page_writes", "max_wal_size", "autovacuum"]
        {
            facts.push((name.to_owned(), self.setting(name).await?));
        }
        let place = if self.postmaster.is_some() { "this machine" } else { "elsewhere" };
        facts.push(("server on".to_owned(), place.to_owned()));
        let statements = if self.has_statements { "loaded" } else { "not available" };
        facts.push(("pg_stat_statements".to_owned(), statements.to_owned()));
        facts.push(("load before".to_owned(), load()));
        Ok(facts)
    }

    async fn setting(&self, name: &str) -> Result<String> {
        Ok(self.outside.query_one("select current_setting($1)", &[&name]).await?.get(0))
    }

    /// Waits until this program has no other connections: only then has each backend reported its counters.
    pub(crate) async fn settle(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let others = "select count(*) from pg_stat_activity \
                      where datname = $1 and pid <> $2 and application_name like 'jobwright%'";
        let inside: i32 = self.inside.query_one("select pg_backend_pid()", &[]).await?.get(0);
        while self.outside.query_one(others, &[&self.database, &inside]).await?.get::<_, i64>(0) > 0 {
            if Instant::now() > deadline {
                eprintln!("others are connected to {}: counters may lack a little", self.database);
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Reads all counters. Those of transactions and tables are complete after [`settle`](Self::settle).
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let row = self
            .outside
            .query_one(
                "select (pg_current_wal_insert_lsn() - '0/0')::float8, xact_commit::float8 \
                 from pg_stat_database where datname = $1",
                &[&self.database],
            )
            .await?;
        let statements = if self.has_statements {
            // It counts itself only at the next call, and is excluded there.
            let calls = "select coalesce(sum(calls), 0)::float8 from pg_stat_statements \
                         where dbid = (select oid from pg_database where datname = $1) and query not like '%pg_stat_%' \
                         and query not like '%pg_backend_pid%'";
            Some(self.inside.query_one(calls, &[&self.database]).await?.get(0))
        } else {
            None
        };
        Ok(Snapshot {
            wal: row.get(0),
            commits: row.get(1),
            statements,
            server_cpu: self.postmaster.and_then(cpu_of_family),
            own_cpu: cpu(Path::new("/proc/self/stat")).map(|cpu| cpu.own),
        })
    }

    #[cfg(test)]
    pub(crate) fn has_statements(&self) -> bool {
        self.has_statements
    }

    /// Reads the counts without notifications and the settings of new connections: how many are sent together, and whether a pool makes one more
    /// connection, depends on timing. The counts are complete at any time, unlike a [`snapshot`](Self::snapshot). The query runs in the other
    /// database, so that it does not count itself.
    #[cfg(test)]
    pub(crate) async fn counted(&self) -> Result<Counted> {
        let sql = "select coalesce(sum(calls), 0)::float8, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8, \
                          (pg_current_wal_insert_lsn() - '0/0')::float8 \
                   from pg_stat_statements \
                   where dbid = (select oid from pg_database where datname = $1) and query not like '%pg_notify%' \
                   and (query not like 'set %' or query like 'set local %')";
        let row = self.outside.query_one(sql, &[&self.database]).await?;
        Ok(Counted { statements: row.get(0), pages: row.get(1), wal: row.get(2) })
    }

    /// Returns the share of a table's updates that stayed within their page.
    pub(crate) async fn hot_ratio(&self, schema: &str) -> Result<Option<f64>> {
        let row = self
            .inside
            .query_one(
                "select n_tup_hot_upd::float8 / nullif(n_tup_upd, 0) from pg_stat_user_tables \
                 where schemaname = $1 and relname = 'job'",
                &[&schema],
            )
            .await?;
        Ok(row.get(0))
    }

    /// Writes dirty pages out, so that no checkpoint falls into a measurement. Not every role may do that.
    pub(crate) async fn checkpoint(&self) {
        let _ = self.inside.batch_execute("checkpoint").await;
    }
}

impl Snapshot {
    pub(crate) fn until(self, end: Self) -> Usage {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| b - a);
        Usage {
            wal: end.wal - self.wal,
            commits: end.commits - self.commits,
            statements: both(self.statements, end.statements),
            server_cpu: both(self.server_cpu, end.server_cpu),
            own_cpu: both(self.own_cpu, end.own_cpu),
        }
    }
}

/// The fields of `/proc/PID/stat` for one process.
struct Cpu {
    name: String,
    parent: u32,
    own: f64,
    /// Those of children that have ended.
    children: f64,
}

fn cpu(file: &Path) -> Option<Cpu> {
    let text = std::fs::read_to_string(file).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let seconds =
        |a: usize| Some((fields.get(a)?.parse::<f64>().ok()? + fields.get(a + 1)?.parse::<f64>().ok()?) / TICKS);
    Some(Cpu { name, parent: fields.get(1)?.parse().ok()?, own: seconds(11)?, children: seconds(13)? })
}

/// Returns the processor time of a program and of its ended children, in seconds.
pub(crate) fn process_cpu(pid: u32) -> Option<f64> {
    cpu(Path::new(&format!("/proc/{pid}/stat"))).map(|process| process.own + process.children)
}

/// Returns the postmaster of a backend, if it runs on this machine.
pub(crate) fn parent_of_postgres(pid: u32) -> Option<u32> {
    // The server may be on another machine, and this PID may belong to another process.
    let process = cpu(Path::new(&format!("/proc/{pid}/stat")))?;
    (process.name == "postgres").then_some(process.parent)
}

/// Adds up all processes of a server, live and ended ones. A process that ends meanwhile would be in neither sum, so the sum is then repeated.
pub(crate) fn cpu_of_family(postmaster: u32) -> Option<f64> {
    let head = || cpu(Path::new(&format!("/proc/{postmaster}/stat")));
    for _ in 0..20 {
        let before = head()?;
        let living = living_children(postmaster)?;
        let after = head()?;
        if (before.children - after.children).abs() < f64::EPSILON {
            return Some(after.own + after.children + living);
        }
    }
    None
}

fn living_children(postmaster: u32) -> Option<f64> {
    let mut sum = 0.0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        if entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit())
            && let Some(process) = cpu(&entry.path().join("stat"))
            && process.parent == postmaster
        {
            sum += process.own;
        }
    }
    Some(sum)
}

/// Returns the load averages of this machine: above the number of its cores before the start, the figures are not worth much.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Resets the peak memory of this process, so that the next [`peak_memory`] covers only what follows.
pub(crate) fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak resident memory of this process, in bytes.
pub(crate) fn peak_memory() -> Option<f64> {
    memory_of("self", "VmHWM:")
}

/// Returns a process's memory as the system reports it, in bytes: `VmRSS:` now, `VmHWM:` at most.
pub(crate) fn memory_of(process: &str, field: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}
