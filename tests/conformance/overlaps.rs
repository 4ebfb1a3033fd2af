//! Repeating jobs that belong to a group.

use jobwright::admin::JobState;
use jobwright::admin::PutOutcome;
use jobwright::internal::engine::Hint;
use jobwright::{NewSchedule, Overlap, Schedule};

use crate::conformance::schedules::{fire_since, put_new, read};
use crate::support::TestDb;
use crate::support::jobs::job;

/// The schedule keeps its job's options. A job that waits for its group counts as alive.
pub(crate) async fn no_overlap_while_the_job_is_blocked<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (schedule, job) = (Schedule::new("P1D").unwrap(), job().exclusive("group").tenant("acme"));
    let options = job.options().clone();
    let new = NewSchedule::new("s", schedule, job).overlap(Overlap::Forbid);
    put_new(&store, new.clone()).await;
    assert_eq!(read(&store, "s").await.spec.message.options, options);
    assert_eq!(put_new(&store, new).await.outcome, PutOutcome::Unchanged);
    let fired = fire_since(db, "s", 5).await;
    assert_eq!((fired.jobs, fired.hints), (1, vec![Hint::Admission]));
    assert_eq!(store.count(JobState::Blocked).await, 1);
    assert_eq!(fire_since(db, "s", 4).await.overlapped, ["s"]);
}
