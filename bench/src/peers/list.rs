//! The peers.

#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its name for `--only`.
    pub(super) case: &'static str,
    /// Its package, in the version that bench/peers/npm requires.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// The program in bench/peers/npm.
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
            ..graphile
        },
    ]
}

/// Returns cases with jobs of 1,000 groups, by the peer's own means. Each of its methods is a separate case, so that its best one is included.
fn grouped(plain: &[Peer]) -> Vec<Peer> {
    let like = |case: &str| plain.iter().find(|peer| peer.case == case).cloned();
    let (Some(graphile), Some(boss)) = (like("graphile-npm"), like("pg-boss")) else { return Vec::new() };
    let of = |peer: Peer| Peer { groups: Some(1_000), jobs: 20_000, ..peer };
    let (graphile, boss) = (of(graphile), of(boss));
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
            let wanted = format!("\"{}\": \"{}\"", peer.name, peer.version);
            assert!(include_str!("../../peers/npm/package.json").contains(&wanted), "{wanted}");
        }
    }
}
