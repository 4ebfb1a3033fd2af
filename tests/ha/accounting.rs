//! Committed jobs compared with those that took effect, on the server that survived.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::{Duration, Instant};

use jobwright::JobId;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::ha::cluster::Node;
use crate::ha::load::{Load, Sent};

/// Longer than anything takes unless it is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Seconds from the fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    /// Until a send succeeded that began after it.
    sends: f64,
    /// Until a job that was sent after it had run.
    runs: f64,
    /// Until no job was left that had been committed before it.
    pub(crate) rest: f64,
}

/// Measures until work goes on, on the server that took over.
pub(crate) async fn back(load: &Load, server: &Node, fault: Instant) -> Back {
    let client = server.client().await;
    let seconds = || fault.elapsed().as_secs_f64();
    let end = Instant::now() + PATIENCE;
    let (mut sends, mut runs, mut rest) = (None, None, None);
    while runs.is_none() || rest.is_none() {
        assert!(Instant::now() < end, "work does not go on: sends {sends:?}, runs {runs:?}, rest {rest:?}");
        let sure: Vec<Sent> = load.book.lock().unwrap().sure.clone();
        let (after, before): (Vec<Sent>, Vec<Sent>) = sure.iter().partition(|sent| sent.begun > fault);
        if let Some(first) = after.iter().map(|sent| sent.committed).min() {
            sends = Some(first.duration_since(fault).as_secs_f64());
        }
        let some: Vec<Uuid> = after.iter().filter(|sent| !sent.bare).take(20).map(|sent| *sent.id.as_uuid()).collect();
        if runs.is_none() && !some.is_empty() && count(&client, "done where id = any($1)", &some).await > 0 {
            runs = Some(seconds());
        }
        let old: Vec<Uuid> = before.iter().map(|sent| *sent.id.as_uuid()).collect();
        if rest.is_none() && count(&client, "jobwright.job where id = any($1)", &old).await == 0 {
            rest = Some(seconds());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Back { sends: sends.unwrap(), runs: runs.unwrap(), rest: rest.unwrap() }
}

async fn count(client: &Client, of: &str, ids: &[Uuid]) -> i64 {
    client.query_one(&format!("select count(*) from {of}"), &[&ids]).await.unwrap().get(0)
}

/// The result of a scenario.
#[derive(Debug)]
pub(crate) struct Account {
    title: String,
    /// Committed for certain.
    committed: usize,
    unknown: usize,
    /// Committed for certain, and missing after the fault.
    tail: usize,
    may_lose: bool,
    /// Jobs that exist without the effect that they must have.
    lost: usize,
    doubled: usize,
    /// Took effect or exists although an error said that nothing was kept.
    ghosts: usize,
    /// Jobs that are still there.
    stuck: usize,
    dead: usize,
    back: Option<Back>,
    more: Vec<String>,
}

impl Account {
    /// Stops the producers, waits until all is done, and counts. `may_lose`: the server that took over may lack the last commits.
    pub(crate) async fn settle(title: &str, load: &mut Load, server: &Node, may_lose: bool) -> Self {
        load.stop_producers().await;
        let client = server.client().await;
        let stuck = drained(&client).await;
        let book = std::mem::take(&mut *load.book.lock().unwrap());
        let sent = ids(&client, "select id from sent").await;
        let done = ids(&client, "select id from done").await;
        let bare = ids(&client, "select id from sent where bare").await;
        let tail = book.sure.iter().filter(|sure| !sent.contains_key(sure.id.as_uuid())).count();
        let noted = sent.keys().filter(|id| !bare.contains_key(*id));
        let ran = |id: &Uuid| load.gates.runs(JobId::from(*id)) > 0;
        let lost = noted.filter(|id| !done.contains_key(*id)).count() + bare.keys().filter(|id| !ran(id)).count();
        let failed: BTreeSet<Uuid> = book.failed.iter().map(|id| *id.as_uuid()).collect();
        let ghosts = failed.iter().filter(|id| sent.contains_key(*id) || done.contains_key(*id)).count()
            + done.keys().filter(|id| !sent.contains_key(*id)).count();
        let dead = client.query_one("select count(*) from jobwright.dead_letter_job", &[]).await.unwrap();
        let more = book.errors.iter().map(|(code, times)| format!("{code} {times}")).collect();
        Self {
            title: title.to_owned(),
            committed: book.sure.len(),
            unknown: book.unknown.len(),
            tail,
            may_lose,
            lost,
            doubled: done.values().filter(|times| **times > 1).count(),
            ghosts,
            stuck,
            dead: usize::try_from(dead.get::<_, i64>(0)).unwrap(),
            back: None,
            more,
        }
    }

    pub(crate) fn with(mut self, back: Back) -> Self {
        self.back = Some(back);
        self
    }

    /// Adds a remark to the table.
    pub(crate) fn telling(mut self, more: impl Into<String>) -> Self {
        self.more.push(more.into());
        self
    }

    fn exact(&self) -> bool {
        let Self { committed, tail, may_lose, lost, doubled, ghosts, stuck, dead, .. } = self;
        *committed > 0 && [lost, doubled, ghosts, stuck, dead] == [&0; 5] && (*tail == 0 || *may_lose)
    }

    /// Writes the row of the table, and fails the test if the account is not exact.
    #[track_caller]
    pub(crate) fn close(self) {
        let seconds =
            |of: fn(&Back) -> f64| self.back.as_ref().map_or("-".to_owned(), |back| format!("{:.1}", of(back)));
        let line = [
            self.title.clone(),
            if self.exact() { "exact".to_owned() } else { "WRONG".to_owned() },
            self.committed.to_string(),
            self.unknown.to_string(),
            self.tail.to_string(),
            self.lost.to_string(),
            self.doubled.to_string(),
            (self.ghosts + self.dead).to_string(),
            self.stuck.to_string(),
            seconds(|back| back.sends),
            seconds(|back| back.runs),
            seconds(|back| back.rest),
            self.more.join("; "),
        ]
        .join("\t");
        println!("{line}");
        if let Some(path) = std::env::var_os("JOBWRIGHT_HA_REPORT") {
            let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
            writeln!(file, "{line}").unwrap();
        }
        assert!(self.exact(), "{self:#?}");
    }
}

/// Waits until no job is left, and returns how many are.
async fn drained(client: &Client) -> usize {
    let left = "select (select count(*) from jobwright.job) + (select count(*) from jobwright.timer_job)
                     + (select count(*) from jobwright.suspended_job)
                     + (select count(*) from jobwright.external_job)";
    let end = Instant::now() + PATIENCE;
    loop {
        let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
        if left == 0 || Instant::now() > end {
            if left > 0 {
                let some = "select string_agg(job::text, E'\\n') from (select * from jobwright.job limit 5) job";
                let nodes = "select string_agg(node::text, E'\\n') from jobwright.node";
                for look in [some, nodes] {
                    let text: Option<String> = client.query_one(look, &[]).await.unwrap().get(0);
                    println!("{}", text.unwrap_or_default());
                }
            }
            return usize::try_from(left).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How often each is there.
async fn ids(client: &Client, query: &str) -> BTreeMap<Uuid, u32> {
    let mut found = BTreeMap::new();
    for row in client.query(query, &[]).await.unwrap() {
        *found.entry(row.get(0)).or_default() += 1;
    }
    found
}
