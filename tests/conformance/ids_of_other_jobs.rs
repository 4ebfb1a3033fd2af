//! A given id that is known as that of another job: blocked and moved jobs, unique ones, schedules, large flushes.

use jobwright::Store;
use jobwright::admin::{Change, JobFilter, JobState};
use jobwright::internal::Action;
use jobwright::internal::Submission;
use jobwright::internal::engine::{OperatorOptions, Received, UnitOfWork as _};
use jobwright::{ErrorKind, JobId, Misfire, NewJob, Overlap, Unique};

use crate::conformance::given_ids::is_refused_for_others;
use crate::conformance::schedules::{daily, days_ago, fire, read};
use crate::support::TestDb;
use crate::support::jobs::{LATER, job, message, messages};

pub(crate) async fn of_a_blocked_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().exclusive("g")).await;
    is_refused_for_others(db, &store, id, JobState::Blocked).await;
}

/// An operator moves a job to another queue. Its sender knows nothing of that, and sends it again.
pub(crate) async fn of_a_job_that_was_moved<T: TestDb>(db: &T) {
    let store = db.jobs();
    for sent in [job(), job().delay(LATER), job().exclusive("g"), job().tenant("acme")] {
        let id = store.send(sent).await;
        for queue in ["first", "second"] {
            let change = Action::Change(Change::default().queue(queue));
            let moved = store.operate(&JobFilter::ids([id]), &change, OperatorOptions::default()).await.unwrap();
            assert_eq!(moved.total(), 1);
            for known in ["default", queue] {
                let same = store.insert(&messages([job().queue(known).id(id)]), None).await.unwrap();
                assert_eq!(same.known, [id], "moved to {queue}, sent to {known}");
            }
            let error = store.insert(&messages([job().queue("third").id(id)]), None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
    }
}

pub(crate) async fn of_unique_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let unique = || job().unique(Unique::key("a"));
    let id = store.send(unique()).await;
    for other in [NewJob::json("other", &1).unique(Unique::key("b")).id(id), unique().queue("other").id(id)] {
        let flush = messages([job().unique(Unique::key("c")), other]);
        assert_eq!(store.insert(&flush, None).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    let again = store.insert(&messages([unique().id(id), job().unique(Unique::key("c"))]), None).await.unwrap();
    assert_eq!((again.rows, again.known, again.duplicates), (1, vec![id], vec![]), "the refused flush took no key");
}

/// Each statement of the flush is fine but the last, and all are found before the first has written something.
pub(crate) async fn in_a_flush_of_several_statements<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    let large = || NewJob::json("kind", &"x".repeat(1_000_000)).id(JobId::new());
    let flush = |last: NewJob| messages((0..20).map(|_| large()).chain([last]));
    let other = || NewJob::json("other", &1).id(id);
    assert_eq!(store.insert(&flush(other()), None).await.unwrap_err().kind(), ErrorKind::Conflict);
    let mut transaction = db.store().begin().await.unwrap();
    assert_eq!(transaction.insert(&flush(other()), None).await.unwrap_err().kind(), ErrorKind::Conflict);
    transaction.commit().await.unwrap();
    assert_eq!(store.all().await.len(), 1);
    let same = store.insert(&flush(job().id(id)), None).await.unwrap();
    assert_eq!((same.rows, same.known), (20, vec![id]));
}

/// Ids of occurrences can be computed by anybody. A schedule whose id another job has goes on with the next.
pub(crate) async fn of_occurrences<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.misfire(Misfire::All)).await;
    db.make_due("s", days_ago(2)).await;
    assert_eq!(fire(&store).await.jobs, 3);
    let ids: Vec<JobId> = store.all().await.into_iter().map(|job| job.id).collect();
    store.delete(&JobFilter::ids(ids.clone()), false).await.unwrap();
    store.send(NewJob::json("other", &1).id(ids[1])).await;
    db.make_due("s", days_ago(2)).await;
    fire(&store).await;
    assert_eq!(read(&store, "s").await.next_at, put.next_at, "it went on");
    let kinds = [store.detail(ids[0]).await, store.detail(ids[1]).await, store.detail(ids[2]).await];
    assert_eq!(kinds.map(|job| job.summary.kind), ["kind", "other", "kind"]);
    // A backfill sends the others likewise.
    store.delete(&JobFilter::ids([ids[0], ids[2]]), false).await.unwrap();
    let backfill = messages([ids[0], ids[1], ids[2]].map(|id| job().id(id)));
    assert_eq!(store.send_of_schedule(&backfill, None).await.unwrap(), 2);
    assert_eq!(store.send_of_schedule(&backfill[1..2], None).await.unwrap(), 0);
}

/// The job of another sender is not the schedule's last one. Otherwise a job that waits for years would stop a schedule that does not overlap.
pub(crate) async fn of_occurrences_that_do_not_overlap<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new.overlap(Overlap::Forbid)).await;
    db.make_due("s", days_ago(0)).await;
    assert_eq!(fire(&store).await.jobs, 1);
    let id = read(&store, "s").await.last_job.unwrap();
    store.delete(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(store.delete_schedules(&["s".to_owned()], None).await.unwrap(), 1);
    store.send(NewJob::json("other", &1).id(id).delay(LATER)).await;
    let put = daily(&store, "s", |new| new.overlap(Overlap::Forbid)).await;
    db.make_due("s", days_ago(0)).await;
    fire(&store).await;
    let went_on = read(&store, "s").await;
    assert_eq!((went_on.next_at, went_on.last_job, went_on.last_at, went_on.fired), (put.next_at, None, None, 0));
}

pub(crate) async fn of_a_unique_submission<T: TestDb>(db: &T) {
    let store = db.jobs();
    let submission = |job: NewJob, digest: u8| Submission { message: message(job), digest: [digest; 32] };
    let (id, fresh) = (store.send(job()).await, JobId::new());
    let unique = |job: NewJob, key: &str| job.unique(Unique::key(key));
    let batch =
        [submission(unique(NewJob::json("other", &1), "a").id(id), 1), submission(unique(job(), "b").id(fresh), 2)];
    assert_eq!(store.receive(&batch).await.unwrap(), [Received::Conflict(id), Received::Stored(fresh)]);
    assert_eq!(store.receive(&batch).await.unwrap(), [Received::Conflict(id), Received::Known(fresh)]);
    let free = JobId::new();
    let key = submission(unique(NewJob::json("other", &1), "a").id(free), 3);
    assert_eq!(store.receive(&[key]).await.unwrap(), [Received::Stored(free)], "the refused one took no key");
}
