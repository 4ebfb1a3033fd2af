//! How claims of several processes avoid each other's rows on PostgreSQL.

use jobwright::internal::engine::{ClaimRequest, Claimed, ScanCursor, ScanRange, SharedCursor, Verdict};
use jobwright::{Job, JobId, NewJob, NodeId};

use crate::support::jobs::{claim_number, ids};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb};

/// Claims from one rank repeatedly, as a dispatcher with a backlog does.
struct Scanner<'a> {
    store: &'a Jobs,
    node: NodeId,
    kinds: Option<&'a [String]>,
    cursor: i64,
}

impl Scanner<'_> {
    async fn take(&mut self, limit: usize, span: i64, reserved_until: Option<i64>) -> Vec<Job> {
        self.claim(limit, span, reserved_until).await.jobs
    }

    async fn claim(&mut self, limit: usize, span: i64, reserved_until: Option<i64>) -> Claimed {
        let after = [ScanCursor { rank: 0, seq: self.cursor }];
        let shared_cursor = Some(SharedCursor { rank: 0, span, reserved_until });
        let mut request = ClaimRequest::new(self.node, claim_number(), "default", limit)
            .range(ScanRange::After { cursors: &after, shared_cursor });
        request.kinds = self.kinds;
        let claimed = self.store.claim(&request).await.unwrap();
        self.cursor = claimed.jobs.last().map_or(self.cursor, |job| job.seq);
        claimed
    }
}

fn scanner(store: &Jobs, node: NodeId) -> Scanner<'_> {
    Scanner { store, node, kinds: None, cursor: 0 }
}

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|n| NewJob::json("kind", &n)).collect()
}

async fn give_back(store: &Jobs, node: NodeId, jobs: &[Job]) {
    for job in jobs {
        assert!(store.settle_one(node, job.fence(), Verdict::Release).await);
    }
}

async fn waiting(store: &Jobs) -> Vec<JobId> {
    let node = store.node().await;
    ids(&store.take(node, 1000).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_begins_behind_the_rows_that_others_passed() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    let sent = store.send_all(jobs(60)).await;
    let (mut a, mut b) = (scanner(&store, store.node().await), scanner(&store, store.node().await));
    let first = a.take(10, 10, None).await;
    assert_eq!(ids(&first), sent[..10]);
    // They wait again, and b has seen nothing yet: the shared cursor makes it begin behind them.
    give_back(&store, a.node, &first).await;
    assert_eq!(ids(&b.take(10, 10, None).await), sent[10..20]);
    // Less was taken than reserved. The others begin behind the reserved range all the same, and its owner comes back for the rest first.
    let part = a.take(5, 10, None).await;
    assert_eq!(ids(&part), sent[20..25]);
    assert_eq!(ids(&b.take(10, 10, None).await), sent[30..40]);
    assert_eq!(ids(&a.take(10, 5, Some(part[0].seq + 9)).await), [&sent[25..30], &sent[40..45]].concat());
    // More was taken than reserved: locked and owned rows are passed over.
    assert_eq!(ids(&a.take(10, 5, None).await), sent[45..55]);
    assert_eq!(ids(&b.take(10, 10, None).await), sent[55..60]);
    assert_eq!(waiting(&store).await, sent[..10], "nothing but a look without marks finds these");
}

/// A claim filled from its own range, or from better ranks, reserves nothing, and the others do not begin further on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_filled_before_it_comes_to_the_shared_cursor_leaves_it_where_it_is() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    let sent = store.send_all(jobs(40)).await;
    let (mut a, mut b) = (scanner(&store, store.node().await), scanner(&store, store.node().await));
    let first = a.claim(5, 10, None).await;
    let start = first.jobs[0].seq - 1;
    assert_eq!((ids(&first.jobs), first.reserved_from), (sent[..5].to_vec(), Some(start)));
    let own = a.claim(5, 10, Some(start + 10)).await;
    assert_eq!((ids(&own.jobs), own.reserved_from), (sent[5..10].to_vec(), None));
    let urgent = store.send_all(jobs(2).into_iter().map(|job| job.priority(1))).await;
    let better = a.claim(2, 10, None).await;
    assert_eq!((ids(&better.jobs), better.reserved_from), (urgent, None));
    a.cursor = own.jobs[4].seq;
    // It begins where the range of the first claim ended. A claim whose rows others took is told where its new range begins.
    let next = b.claim(10, 4, None).await;
    assert_eq!((ids(&next.jobs), next.reserved_from), (sent[10..20].to_vec(), Some(start + 10)));
    let displaced = a.claim(3, 10, None).await;
    assert_eq!((ids(&displaced.jobs), displaced.reserved_from), (sent[20..23].to_vec(), Some(start + 14)));
    // Own rows, and some behind the shared cursor.
    let both = a.claim(10, 5, Some(start + 24)).await;
    assert_eq!((ids(&both.jobs), both.reserved_from), (sent[23..33].to_vec(), Some(start + 24)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_sent_later_are_never_passed_over() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    let sent = store.send_all(jobs(3)).await;
    let (mut a, mut b) = (scanner(&store, store.node().await), scanner(&store, store.node().await));
    assert_eq!(ids(&a.take(2, i64::MAX, None).await), sent[..2]);
    let later = store.send_all(jobs(2)).await;
    assert_eq!(ids(&b.take(10, 10, None).await), later);
    assert_eq!(waiting(&store).await, sent[2..]);
    // A cursor from before the sequence was set back.
    a.cursor = 1 << 40;
    let last = store.send_all(jobs(1)).await;
    assert_eq!(ids(&a.take(10, 10, None).await), []);
    assert_eq!(waiting(&store).await, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_cursor_is_for_claims_of_the_same_rows() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    // Whatever cursor the claims of each kind share, other claims have moved it on.
    let client = db.client().await;
    for n in 0..16 {
        let set = format!("select setval('shared_cursor_{n}', (12345::int8 << 48) | 15)");
        client.execute(&set, &[]).await.unwrap();
    }
    let [x, y] = ["x", "y"].map(|kind| [kind.to_owned()]);
    let mixed = store.send_all((0..20).map(|n| NewJob::json(if n % 2 == 0 { "x" } else { "y" }, &n))).await;
    let of = |odd: usize| mixed.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
    let node = store.node().await;
    let mut a = Scanner { kinds: Some(&x), ..scanner(&store, node) };
    let mut b = Scanner { kinds: Some(&y), ..scanner(&store, node) };
    assert_eq!(ids(&a.take(10, 20, None).await), of(0));
    assert_eq!(ids(&b.take(10, 20, None).await), of(1), "the cursor of others was believed");
}

/// Rows hidden for a delivery stay behind a shared cursor; a claim that includes hidden rows does not begin there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_include_hidden_rows_do_not_skip_them() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    let sent = store.send_all(jobs(20)).await;
    let mut a = scanner(&store, store.node().await);
    let taken = a.take(10, 10, None).await;
    give_back(&store, a.node, &taken).await;
    let shared_cursor = Some(SharedCursor { rank: 0, span: 10, reserved_until: None });
    let after = [ScanCursor { rank: 0, seq: taken[0].seq - 1 }];
    let range = ScanRange::After { cursors: &after, shared_cursor };
    let request = ClaimRequest::new(a.node, claim_number(), "default", 5).range(range).include_hidden(true);
    let claimed = store.claim(&request).await.unwrap();
    assert_eq!((ids(&claimed.jobs), claimed.reserved_from), (sent[..5].to_vec(), None));
}
