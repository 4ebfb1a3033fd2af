//! The peers.

/// Where a peer's package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kit {
    Npm,
    Python,
    Cargo,
}

#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its name for `--only`.
    pub(super) case: &'static str,
    pub(super) kit: Kit,
    /// Its package, in the version that bench/peers requires.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// The program in bench/peers.
    pub(super) program: &'static str,
    pub(super) processes: usize,
    /// How many jobs a drain has: enough for some seconds.
    pub(super) jobs: usize,
    /// Settings, in words.
    pub(super) settings: &'static str,
    pub(super) bulk: &'static str,
    /// Settings that differ when latency is measured.
    pub(super) quick: &'static str,
    /// The number of groups, of which only one job runs at a time: named queues, keys. `None`: plain jobs.
    pub(super) groups: Option<usize>,
    /// The method that its program should use, where it has several.
    pub(super) way: &'static str,
    /// The required ratio of our drain to its.
    pub(super) least: f64,
    /// Counts jobs that have ended. `{jobs}` is how many were enqueued, for peers that remove them.
    pub(super) done: &'static str,
}

impl Peer {
    pub(super) fn title(&self) -> String {
        format!("{} {}, {}", self.name, self.version, self.settings)
    }

    /// Returns the SQL that counts ended jobs.
    pub(super) fn count_done(&self, jobs: usize) -> String {
        self.done.replace("{jobs}", &jobs.to_string())
    }
}

/// In the order of the cases.
pub(super) fn all() -> Vec<Peer> {
    let plain = plain();
    let grouped = grouped(&plain);
    plain.into_iter().chain(grouped).collect()
}

/// The base of several others.
fn graphile() -> Peer {
    Peer {
        case: "graphile-npm",
        kit: Kit::Npm,
        name: "graphile-worker",
        version: "0.18.0",
        program: "graphile-worker.mjs",
        processes: 2,
        jobs: 100_000,
        settings: "2 processes of 24, local queue 500",
        bulk: "addJobs",
        quick: "4 at a time, no local queue",
        groups: None,
        way: "",
        least: 1.0,
        done: "select {jobs} - count(*) from graphile_worker._private_jobs",
    }
}

fn plain() -> Vec<Peer> {
    let graphile = graphile();
    vec![
        graphile.clone(),
        Peer { case: "graphile-npm-1", processes: 1, settings: "1 process of 24, local queue 500", ..graphile.clone() },
        Peer {
            case: "pg-boss",
            name: "pg-boss",
            version: "12.35.0",
            program: "pg-boss.mjs",
            processes: 1,
            jobs: 60_000,
            settings: "2 workers, batches of 1,000, burst",
            bulk: "insert",
            quick: "batches of 100, LISTEN/NOTIFY",
            done: "select count(*) from pgboss.job where name = 'bench' and state = 'completed'",
            ..graphile.clone()
        },
        Peer {
            case: "graphile-rust",
            kit: Kit::Cargo,
            name: "graphile_worker",
            version: "0.14.1",
            program: "graphile_worker",
            processes: 1,
            settings: "500 at a time, local queue 5,000",
            bulk: "add_jobs",
            ..graphile.clone()
        },
        Peer {
            case: "apalis",
            kit: Kit::Cargo,
            name: "apalis-postgres",
            version: "1.0.0",
            program: "apalis",
            processes: 1,
            jobs: 30_000,
            settings: "batches of 500, no task locks, spawned",
            bulk: "push_bulk",
            quick: "batches of 100, LISTEN/NOTIFY",
            done: "select count(*) from apalis.jobs where status = 'Done'",
            ..graphile.clone()
        },
        Peer {
            case: "awa",
            kit: Kit::Cargo,
            name: "awa",
            version: "0.6.9",
            program: "awa",
            processes: 1,
            jobs: 50_000,
            settings: "1,024 at a time, no deadlines",
            bulk: "enqueue_params_copy",
            quick: "4 at a time",
            done: "select coalesce((select sum(completed_count) from awa.receipt_completion_batches), 0)::int8 \
                   + coalesce((select sum(pruned_completed_count) from awa.queue_terminal_rollups), 0)::int8 \
                   + (select count(*) from awa.done_entries)",
            ..graphile.clone()
        },
        Peer {
            case: "underway",
            kit: Kit::Cargo,
            name: "underway",
            version: "0.2.0",
            program: "underway",
            processes: 1,
            jobs: 3_000,
            settings: "8 at a time",
            bulk: "1,000 enqueue_using in a transaction",
            quick: "",
            done: "select count(*) from underway.task where state = 'succeeded'",
            ..graphile.clone()
        },
        Peer {
            case: "procrastinate",
            kit: Kit::Python,
            name: "procrastinate",
            version: "3.10.0",
            program: "driver.py",
            jobs: 3_000,
            settings: "2 processes of 10, done jobs deleted",
            bulk: "batch_defer",
            quick: "2 at a time",
            done: "select {jobs} - count(*) from procrastinate_jobs",
            ..graphile
        },
    ]
}

/// Returns cases with jobs of 1,000 groups, by the peer's own means. Each of its methods is a separate case, so that its best one is included.
fn grouped(plain: &[Peer]) -> Vec<Peer> {
    let like = |case: &str| plain.iter().find(|peer| peer.case == case).cloned();
    let (Some(graphile), Some(boss), Some(awa)) = (like("graphile-npm"), like("pg-boss"), like("awa")) else {
        return Vec::new();
    };
    let of = |peer: Peer| Peer { groups: Some(1_000), jobs: 20_000, ..peer };
    let (graphile, boss, awa) = (of(graphile), of(boss), of(awa));
    let named = Peer {
        case: "graphile-queues",
        settings: "named queues, 2 processes of 24, local queue 500, poll 10 ms",
        least: 2.0,
        ..graphile
    };
    vec![
        named.clone(),
        Peer {
            case: "graphile-queues-1",
            processes: 1,
            settings: "named queues, 1 process of 24, local queue 500, poll 10 ms",
            ..named
        },
        Peer {
            case: "pg-boss-fifo",
            way: "fifo",
            settings: "key_strict_fifo, 1 worker, batches of 1,000, burst",
            ..boss.clone()
        },
        Peer {
            case: "pg-boss-groups",
            way: "groups",
            settings: "groupConcurrency 1, 2 workers, batches of 500, burst",
            ..boss
        },
        Peer { case: "awa-keys", settings: "ordering keys, 8 shards, 1,024 at a time, no deadlines", ..awa },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_a_peer() {
        let cases: Vec<&str> = all().iter().map(|peer| peer.case).collect();
        assert_eq!(cases, crate::args::PEER_CASES);
    }

    #[test]
    fn versions_are_those_asked_for() {
        for peer in all() {
            let (text, wanted) = match peer.kit {
                Kit::Npm => {
                    (include_str!("../../peers/npm/package.json"), format!("\"{}\": \"{}\"", peer.name, peer.version))
                }
                Kit::Python => {
                    (include_str!("../../peers/python/requirements.txt"), format!("{}=={}", peer.name, peer.version))
                }
                Kit::Cargo => (
                    include_str!("../../peers/rust/Cargo.lock"),
                    format!("name = \"{}\"\nversion = \"{}\"", peer.name, peer.version),
                ),
            };
            assert!(text.contains(&wanted), "{wanted}");
        }
    }
}
