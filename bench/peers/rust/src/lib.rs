//! What all drivers share: the words spoken with the harness. They are listed in bench/peers/npm/driver.mjs.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Jobs before those whose latency counts.
const WARM_UP: usize = 20;
const PACE: Duration = Duration::from_millis(20);

/// What a job carries: 100 bytes of JSON, and a number if its start is to be recognized.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Payload {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<usize>,
}

/// One peer.
#[allow(async_fn_in_trait, reason = "one thread drives it")]
pub trait Peer: Sized {
    /// Makes the tables.
    async fn setup() -> Result<()>;
    /// With connections of its own. `latency`: with the settings for a quick start instead of those for many jobs.
    async fn connect(latency: bool) -> Result<Self>;
    /// Enqueues all of them with one call, or in one transaction.
    async fn bulk(&mut self, payloads: Vec<Payload>) -> Result<()>;
    /// Enqueues one, and commits.
    async fn one(&mut self, payload: Payload) -> Result<()>;
    /// Works until the program ends.
    async fn work(self) -> Result<()>;
}

/// The group of the next job to be enqueued, if BENCH_GROUPS says that there are any: by turns.
pub fn next_group() -> Option<String> {
    static GROUPS: LazyLock<usize> =
        LazyLock::new(|| std::env::var("BENCH_GROUPS").map_or(0, |groups| groups.parse().expect("a number")));
    static ENQUEUED: AtomicUsize = AtomicUsize::new(0);
    (*GROUPS > 0).then(|| format!("group-{}", ENQUEUED.fetch_add(1, Ordering::Relaxed) % *GROUPS))
}

pub fn url() -> String {
    std::env::var("DATABASE_URL").expect("the harness sets DATABASE_URL")
}

static MODE: LazyLock<(String, usize)> = LazyLock::new(|| {
    let mut args = std::env::args().skip(1);
    let mode = args.next().expect("a mode");
    (mode, args.next().map_or(0, |count| count.parse().expect("a number")))
});
static RAN: AtomicUsize = AtomicUsize::new(0);
static STARTS: LazyLock<Mutex<HashMap<usize, Instant>>> = LazyLock::new(Mutex::default);

/// What a job does: nothing, but it is counted or its moment is noted.
pub fn handled(payload: &Payload) {
    if let Some(n) = payload.n {
        STARTS.lock().expect("not poisoned").insert(n, Instant::now());
    } else if (RAN.fetch_add(1, Ordering::Relaxed) + 1) % MODE.1 == 0 {
        println!("RAN");
    }
}

/// Does what the harness asks for.
pub async fn drive<P: Peer>() -> Result<()> {
    let text = serde_json::from_str::<Payload>(&std::env::var("BENCH_PAYLOAD")?)?.text;
    let payload = |n| Payload { text: text.clone(), n };
    let (mode, count) = (MODE.0.as_str(), MODE.1);
    if mode == "setup" {
        return P::setup().await;
    }
    let mut peer = P::connect(mode == "latency").await?;
    println!("READY");
    line().await?;
    match mode {
        "bulk" => {
            for first in (0..count).step_by(1000) {
                peer.bulk((first..count.min(first + 1000)).map(|_| payload(None)).collect()).await?;
            }
        }
        "one" => {
            for _ in 0..count {
                peer.one(payload(None)).await?;
            }
        }
        "work" => {
            // Until the harness closes stdin.
            tokio::select! {
                ended = peer.work() => ended?,
                _ = line() => std::process::exit(0),
            }
        }
        "latency" => {
            let sender = P::connect(true).await?;
            tokio::select! {
                ended = peer.work() => ended?,
                sent = paced(sender, payload, count) => sent?,
            }
        }
        other => return Err(format!("unknown mode {other:?}").into()),
    }
    println!("DONE");
    // The harness reads the processor time before it ends this program.
    line().await?;
    std::process::exit(0);
}

async fn line() -> Result<()> {
    Ok(tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new())).await?.map(|_| ())?)
}

async fn paced<P: Peer>(mut peer: P, payload: impl Fn(Option<usize>) -> Payload, count: usize) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut sent = Vec::new();
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for n in 0..WARM_UP + count {
        ticks.tick().await;
        let before = Instant::now();
        peer.one(payload(Some(n))).await?;
        sent.push((before, Instant::now()));
        // The worker has to be awake before it counts, and to be through before the end.
        while [WARM_UP, WARM_UP + count].contains(&sent.len())
            && STARTS.lock().expect("not poisoned").len() < sent.len()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let starts = STARTS.lock().expect("not poisoned");
    for (n, (before, after)) in sent.into_iter().enumerate().skip(WARM_UP) {
        let millis = |since| starts[&n].saturating_duration_since(since).as_secs_f64() * 1000.0;
        println!("LATENCY {} {}", millis(after), millis(before));
    }
    Ok(())
}
