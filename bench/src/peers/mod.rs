//! Other executors on the same server, each from its own package and with the settings its documentation recommends for speed, in turn with ours. The
//! programs that drive them are in bench/peers.

mod driver;
mod list;
mod ours;
mod sources;
mod theirs;

use jobwright::Keep;
use serde_json::json;

use crate::Result;
use crate::load::{GROUPS, Make, grouped, plain};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;
use crate::stats::percentile;
use list::Peer;
use sources::Launch;

/// The work of one turn.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Enqueued 1,000 at once, then drained.
    drain: usize,
    /// Enqueued one at a time.
    single: usize,
    /// At 50 a second.
    latency: usize,
    /// Whether they are in groups.
    make: Make,
}

/// The figures of one turn, for us or a peer.
#[derive(Clone, Debug)]
struct Turn {
    /// Jobs a second.
    bulk: f64,
    single: f64,
    drain: f64,
    /// Seconds of the drain.
    server_cpu: Option<f64>,
    client_cpu: Option<f64>,
    /// Bytes of enqueueing and of the drain.
    wal: f64,
    /// Milliseconds of each job, from the return of the enqueueing call to the start of the handler.
    after_commit: Vec<f64>,
    /// The same from before that call.
    after_call: Vec<f64>,
}

impl Turn {
    fn json(&self, who: &str, counts: Counts) -> serde_json::Value {
        let of = |times: &[f64]| [0.5, 0.99].map(|share| percentile(times, share));
        json!({
            "case": "peers", "who": who, "jobs": counts.drain, "drain": self.drain, "bulk": self.bulk, "single": self.single,
            "server_cpu": self.server_cpu, "client_cpu": self.client_cpu, "wal": self.wal,
            "commit_to_start_p50_p99": of(&self.after_commit), "call_to_start_p50_p99": of(&self.after_call),
        })
    }
}

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    report.beside = "peer";
    let folder = match sources::fetch().await {
        Ok(folder) => folder,
        Err(why) => {
            report.note(format!("no peer was run ({why})"));
            return Ok(());
        }
    };
    for peer in list::all() {
        if !bench.args.demand(peer.case) {
            continue;
        }
        eprintln!("{} …", peer.case);
        compare(bench, report, &peer, &sources::launch(&folder, &peer)).await?;
    }
    report.note("A drain is over when the tables have no job that is not done, counted there.");
    Ok(())
}

async fn compare(bench: &Bench<'_>, report: &mut Report, peer: &Peer, launch: &Launch) -> Result<()> {
    let counts = Counts {
        drain: bench.args.count(peer.jobs, peer.jobs.min(2_000)),
        single: bench.args.count(3_000, 100),
        latency: bench.args.count(250, 50),
        make: match peer.groups {
            None => plain,
            Some(GROUPS) => grouped,
            Some(other) => return Err(format!("ours has {GROUPS} groups, and not {other}").into()),
        },
    };
    let (mut ours, mut kept, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        match theirs::turn(bench, peer, launch, counts).await {
            Ok(turn) => theirs.push(turn),
            Err(why) => {
                report.note(format!("{}: not run ({why})", peer.title()));
                return Ok(());
            }
        }
        ours.push(ours::turn(bench, counts).await?);
        kept.push(ours::drain(bench, counts, Keep::All).await?.rate);
        let ([.., own], [.., other]) = (&ours[..], &theirs[..]) else { continue };
        eprintln!("  {:.0} {}, {:.0} ours", other.drain, peer.name, own.drain);
        report.raw(other.json(peer.case, counts));
        report.raw(own.json("ours", counts));
    }
    lines(report, peer, counts, &ours, kept, &theirs);
    Ok(())
}

fn lines(report: &mut Report, peer: &Peer, counts: Counts, ours: &[Turn], kept: Vec<f64>, theirs: &[Turn]) {
    let title = peer.title();
    let each = |runs: &[Turn], of: &dyn Fn(&Turn) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    let both = |name: String, unit: Unit, beside: &str, of: &dyn Fn(&Turn) -> f64| {
        Line::new(name, unit, each(ours, of)).limit(beside, each(theirs, of)).required(Required::Ratio(1.0))
    };
    let same = "the same";
    let jobs = counts.drain;
    let of = peer.groups.map_or_else(String::new, |groups| format!(" of {groups} groups"));
    let drain = format!("{}: drain of {jobs} no-op jobs{of}", peer.case);
    report.add(both(drain, Unit::PerSecond, &title, &|turn| turn.drain).required(Required::Ratio(peer.least)));
    let drains = each(theirs, &|turn| turn.drain);
    let kept = Line::new("… with all our ends kept in the history", Unit::PerSecond, kept).limit(same, drains);
    report.add(kept.required(Required::Ratio(1.0)));
    let thousand = |seconds: Option<f64>| seconds.map(|seconds| seconds / jobs as f64 * 1000.0);
    type Cost = fn(&Turn) -> Option<f64>;
    let costs: [(&str, Cost); 2] = [
        ("… PostgreSQL's CPU for 1,000 jobs", |turn| turn.server_cpu),
        ("… clients' CPU for 1,000 jobs", |turn| turn.client_cpu),
    ];
    for (name, of) in costs {
        let values = |runs: &[Turn]| runs.iter().map(|turn| thousand(of(turn))).collect();
        report.add_known(name, Unit::CpuSeconds, values(ours), (same, values(theirs)), Some(Required::Ratio(1.0)));
    }
    let wal = "… WAL for a job, from its insert to its end".to_owned();
    report.add(both(wal, Unit::Bytes, same, &|turn| turn.wal / jobs as f64));
    report.add(both("… enqueue, 1,000 at once".to_owned(), Unit::PerSecond, peer.bulk, &|turn| turn.bulk));
    report.add(both("… enqueue, one after the other".to_owned(), Unit::PerSecond, same, &|turn| turn.single));
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let line = format!("… commit to start at 50/s, {name}");
        let beside = if peer.quick.is_empty() { same } else { peer.quick };
        report.add(both(line, Unit::Milliseconds, beside, &|turn| percentile(&turn.after_commit, share)));
        let line = format!("… from before the call, {name}");
        report.add(both(line, Unit::Milliseconds, same, &|turn| percentile(&turn.after_call, share)));
    }
}
