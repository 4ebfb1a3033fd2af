//! Tests of the checks: event logs in which one thing is wrong.

use std::collections::BTreeMap;

use super::attempts::Past;
use super::check::{always, finally};
use super::event_log::{Entry, Line, What};
use super::load::{About, Sent};

/// An event log written by hand.
#[derive(Default)]
struct Written(Vec<Entry>);

impl Written {
    fn line(mut self, at: i64, what: What, job: &str, version: i64, node: i64, about: Option<String>) -> Self {
        let node = matches!(what, What::Claim | What::Lost | What::Death).then_some(node);
        self.0.push(Entry { line: Line { job: job.to_owned(), version, what, about }, node, at });
        self
    }

    fn starts(self, at: i64, job: &str, version: i64, node: i64, about: &About) -> Self {
        let about = serde_json::to_string(about).unwrap();
        self.line(at, What::Claim, job, version, node, None).line(at + 1, What::Start, job, version, node, Some(about))
    }

    fn ends(self, at: i64, job: &str, version: i64) -> Self {
        self.line(at, What::End, job, version, 0, None).line(at + 1, What::Done, job, version, 0, None)
    }

    /// A node dies, and the job is taken from it.
    fn dies(self, at: i64, node: i64, job: &str, version: i64) -> Self {
        self.line(at, What::Death, "", 0, node, Some("5".to_owned())).line(at, What::Lost, job, version, node, None)
    }

    #[track_caller]
    fn is_right(&self) {
        assert_eq!(always(&Past::of(&self.0)), Vec::<String>::new());
    }

    /// Asserts that the checks report this.
    #[track_caller]
    fn is_wrong(&self, said: &str) {
        let wrong = always(&Past::of(&self.0));
        assert!(wrong.iter().any(|what| what.contains(said)), "{wrong:?}");
    }
}

fn about(seq: i64) -> About {
    About { seq, n: Some(seq as u64), kind: "work".to_owned(), queue: "default".to_owned(), ..About::default() }
}

fn of_group(seq: i64, ordered: bool) -> About {
    About { group: Some("g".to_owned()), ordered, ..about(seq) }
}

#[test]
fn groups_that_overlap() {
    let (a, b) = (of_group(1, false), of_group(2, false));
    let one = || Written::default().starts(10, "a", 1, 1, &a);
    one().ends(20, "a", 1).starts(21, "b", 1, 2, &b).is_right();
    one().starts(15, "b", 1, 2, &b).ends(20, "a", 1).is_wrong("2 attempts at a time in group g");
    // The other one comes first: no overlap, but the wrong order.
    Written::default().starts(1, "b", 1, 2, &b).ends(5, "b", 1).starts(10, "a", 1, 1, &a).is_wrong("before");
}

/// The process of a node may continue after it was declared dead; its job belongs to another node.
#[test]
fn a_zombie_is_no_overlap_and_keeps_nothing() {
    let (a, b) = (of_group(1, false), of_group(2, false));
    let lost = || Written::default().starts(10, "a", 1, 1, &a).dies(30, 1, "a", 1).starts(40, "a", 2, 2, &a);
    let zombie = || lost().line(45, What::End, "a", 1, 1, None);
    zombie().ends(50, "a", 2).starts(60, "b", 1, 2, &b).is_right();
    assert_eq!(Past::of(&zombie().0).totals.late, 1);
    zombie().line(46, What::Done, "a", 1, 1, None).is_wrong("took effect, and was taken");
    zombie().ends(50, "a", 2).line(60, What::Done, "a", 1, 1, None).is_wrong("took effect 2 times");
    // No other job may start before it was taken.
    lost().starts(25, "b", 1, 2, &b).is_wrong("2 attempts at a time in group g");
    // It had its lease, and died later or not at all. Or it gave the job back when it could not renew the lease.
    let alive = Written::default().starts(10, "a", 1, 1, &a).line(30, What::Lost, "a", 1, 1, None);
    let alive = alive.starts(40, "a", 2, 2, &a).ends(50, "a", 2).line(60, What::End, "a", 1, 1, None);
    let robbed = |book: &Written| !Past::of(&book.0).robbed.is_empty();
    assert!(robbed(&alive));
    assert!(!finally(&Past::of(&alive.0), &Sent::default(), &BTreeMap::new()).is_empty());
    let dead = |book: Written, at| book.line(at, What::Death, "", 0, 1, Some("5".to_owned()));
    let alive = dead(alive, 1_000_000);
    assert!(robbed(&alive));
    let gave_back = Written::default().starts(10, "a", 1, 1, &a).line(30, What::Lost, "a", 1, 1, None);
    assert!(!robbed(&dead(gave_back.line(60, What::End, "a", 1, 1, None), 100_000)));
    Written::default().line(5, What::Death, "", 0, 1, Some("-5".to_owned())).is_wrong("before its lease was over");
}

#[test]
fn a_failed_job_of_an_ordered_group_is_waited_for() {
    let failed = |ordered| {
        let a = of_group(1, ordered);
        let book = Written::default().starts(10, "a", 1, 1, &a).line(15, What::Failed, "a", 1, 1, None);
        let book = book.starts(20, "b", 1, 1, &of_group(2, ordered)).ends(30, "b", 1);
        book.starts(40, "a", 2, 1, &a).ends(50, "a", 2)
    };
    failed(false).is_right();
    failed(true).is_wrong("started before");
}

#[test]
fn limits_that_are_exceeded() {
    let (k0, k1) = (
        |seq| About { key: Some("k0".to_owned()), ..about(seq) },
        |seq| About { key: Some("k1".to_owned()), ..about(seq) },
    );
    Written::default().starts(1, "a", 1, 1, &k0(1)).starts(2, "b", 1, 1, &k0(2)).is_wrong("key k0");
    let two = || Written::default().starts(1, "a", 1, 1, &k1(1)).starts(2, "b", 1, 1, &k1(2));
    two().is_right();
    two().starts(3, "c", 1, 1, &k1(3)).is_wrong("key k1");
    let narrow = |seq| About { queue: "narrow".to_owned(), ..about(seq) };
    let five = (1..=5).fold(Written::default(), |book, n| book.starts(n, &n.to_string(), 1, 1, &narrow(n)));
    five.is_wrong("queue narrow");
}

#[test]
fn keys_and_occurrences_that_are_there_twice() {
    let unique = |seq, created_at, waiting| About { unique: Some(("u".to_owned(), waiting)), created_at, ..about(seq) };
    let two = |waiting, second| {
        let book = Written::default().starts(10, "a", 1, 1, &unique(1, 1, waiting)).ends(30, "a", 1);
        book.starts(40, "b", 1, 1, &unique(2, second, waiting)).ends(50, "b", 1)
    };
    two(false, 32).is_right();
    two(false, 20).is_wrong("held it until 31");
    two(true, 20).is_right();
    two(true, 5).is_wrong("held it until 10");

    let of =
        |name: &str, seq, at, created_at| About { schedule: Some((name.to_owned(), at)), created_at, ..about(seq) };
    let same = Written::default().starts(10, "a", 1, 1, &of("every", 1, 5, 5));
    same.starts(11, "b", 1, 1, &of("every", 2, 5, 5)).is_wrong("every sent");
    let guarded = Written::default().starts(10, "a", 1, 1, &of("guard", 1, 5, 5)).ends(20, "a", 1);
    guarded.starts(30, "b", 1, 1, &of("guard", 2, 15, 15)).is_wrong("guard: ");
}

#[test]
fn what_is_lost_or_invented() {
    let book = Written::default().starts(10, "a", 1, 1, &about(1)).ends(20, "a", 1);
    let end = |book: &Written, jobs: &[&str]| {
        let jobs = jobs.iter().map(|job| ((*job).to_owned(), true)).collect();
        finally(&Past::of(&book.0), &Sent { jobs, kept_out: 0 }, &BTreeMap::new())
    };
    assert_eq!(end(&book, &["a"]), Vec::<String>::new());
    assert!(end(&book, &[])[0].contains("was not sent"));
    assert!(end(&book, &["a", "b"])[0].contains("took no effect"));
    let more = book.line(15, What::Sent, "c", 0, 0, None);
    assert!(end(&more, &["a"])[0].contains("took no effect"));
}
