//! Operations on jobs by filter: suspend, resume, change, run at once, and the audit log of them.

use std::collections::BTreeMap;
use std::time::Duration;

use jobwright::admin::JobState::{Blocked, Dead, External, Running, Suspended, Timer, Waiting};
use jobwright::admin::{AffectedJobs, AuditFilter, Change, DueChange, JobFilter, JobState, Rule, Scope};
use jobwright::internal::Action;
use jobwright::internal::engine::{OperatorOptions, schedules, testing};
use jobwright::internal::parse_duration;
use jobwright::{JobId, NewJob, NewSchedule, Schedule, Unique};
use serde_json::json;

use crate::conformance::list_show_status::one_of_each;
use crate::support::jobs::{LATER, affected, claim_number, job, jobs, message};
use crate::support::{Jobs, TestDb};

const MEANT: OperatorOptions<'static> = OperatorOptions::UNNAMED;

/// Creates a job in each state, and one that waits behind the first of its group, which is running.
async fn everywhere<T: TestDb>(db: &T) -> (Jobs, BTreeMap<JobId, JobState>) {
    let store = db.jobs();
    one_of_each(db).await;
    let head = store.send(job().queue("grouped").exclusive("g")).await;
    store.admit_all().await;
    let node = store.node().await;
    assert_eq!(store.take_from("grouped", node, 1).await[0].id, head);
    store.send(job().queue("grouped").exclusive("g")).await;
    let states = snapshot(&store).await;
    assert_eq!(states.values().filter(|state| **state == Blocked).count(), 1);
    (store, states)
}

async fn snapshot(store: &Jobs) -> BTreeMap<JobId, JobState> {
    store.all().await.into_iter().map(|job| (job.id, job.state)).collect()
}

/// Applies the action to all jobs: first as a dry run, which changes nothing and must report the same counts.
async fn operate(store: &Jobs, action: &Action) -> AffectedJobs {
    let before = snapshot(store).await;
    let dry = store.operate(&JobFilter::default(), action, OperatorOptions::DRY_RUN).await.unwrap();
    assert_eq!(snapshot(store).await, before, "a dry run changes nothing");
    let done = store.operate(&JobFilter::default(), action, MEANT).await.unwrap();
    assert_eq!(done, dry);
    done
}

/// Asserts the state of each job, given the one it had before.
async fn moved(store: &Jobs, before: &BTreeMap<JobId, JobState>, to: impl Fn(JobState) -> JobState) {
    for (id, state) in before {
        assert_eq!(store.state(*id).await, Some(to(*state)), "after {state}");
    }
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn suspend_from_every_state<T: TestDb>(db: &T) {
    let (store, before) = everywhere(db).await;
    assert_eq!(operate(&store, &Action::Suspend).await, affected([(Waiting, 1), (Blocked, 1), (Timer, 1)]));
    moved(&store, &before, |state| if [Waiting, Blocked, Timer].contains(&state) { Suspended } else { state }).await;
    assert_eq!(operate(&store, &Action::Suspend).await.total(), 0);
}

pub(crate) async fn resume_from_every_state<T: TestDb>(db: &T) {
    let (store, before) = everywhere(db).await;
    assert_eq!(operate(&store, &Action::Resume).await, affected([(Suspended, 1)]));
    moved(&store, &before, |state| if state == Suspended { Waiting } else { state }).await;
}

pub(crate) async fn run_from_every_state<T: TestDb>(db: &T) {
    let (store, before) = everywhere(db).await;
    assert_eq!(operate(&store, &Action::RunNow).await, affected([(Timer, 1), (Suspended, 1)]));
    moved(&store, &before, |state| if [Timer, Suspended].contains(&state) { Waiting } else { state }).await;
}

pub(crate) async fn change_in_every_state<T: TestDb>(db: &T) {
    let (store, before) = everywhere(db).await;
    let idle = [Waiting, Blocked, Timer, Suspended, Dead];
    let counts = idle.map(|state| (state, 1));
    let change = Change::default().priority(7).max_attempts(33);
    assert_eq!(operate(&store, &Action::Change(change)).await, affected(counts));
    moved(&store, &before, |state| state).await;
    for job in store.all().await {
        let changed = idle.contains(&job.state);
        assert_eq!((job.priority == 7, job.max_attempts == 33), (changed, changed), "{}", job.state);
    }
    let change = Change::default().queue("elsewhere");
    assert_eq!(operate(&store, &Action::Change(change)).await, affected(counts));
    moved(&store, &before, |state| state).await;
    for job in store.all().await {
        assert_eq!(job.queue == "elsewhere", idle.contains(&job.state), "{}", job.state);
    }
    let change = Change::default().due(DueChange::In(LATER));
    assert_eq!(operate(&store, &Action::Change(change)).await.total(), 4, "a dead letter has no due date");
    moved(&store, &before, |state| if [Waiting, Blocked].contains(&state) { Timer } else { state }).await;
}

/// Jobs return to their former states with everything they carried.
pub(crate) async fn there_and_back<T: TestDb>(db: &T) {
    let store = db.jobs();
    let due = LATER + LATER;
    let plain = store.send(job().priority(3).header("a", "b").max_attempts(4)).await;
    let timer = store.send(job().delay(due).tenant("acme").limit_key("key").exclusive("other").ttl(due * 2)).await;
    let grouped = store.send(job().exclusive("g").tenant("acme")).await;
    let mut before = Vec::new();
    for id in [plain, timer, grouped] {
        before.push(store.detail(id).await);
    }
    assert_eq!(store.operate(&JobFilter::default(), &Action::Suspend, MEANT).await.unwrap().total(), 3);
    for (id, was) in [plain, timer, grouped].into_iter().zip(&before) {
        let is = store.detail(id).await;
        assert_eq!((is.summary.state, is.summary.due_at), (Suspended, was.summary.due_at));
        assert_eq!(is.options, was.options);
    }
    assert_eq!(store.operate(&JobFilter::default(), &Action::Resume, MEANT).await.unwrap().total(), 3);
    for (id, was) in [plain, timer, grouped].into_iter().zip(before) {
        let is = store.detail(id).await;
        assert_eq!((is.summary.state, is.summary.due_at), (was.summary.state, was.summary.due_at));
        assert_eq!((is.summary.seq, is.summary.created_at), (was.summary.seq, was.summary.created_at));
        assert_eq!((is.summary.priority, is.summary.max_attempts), (was.summary.priority, was.summary.max_attempts));
        assert_eq!((is.version, is.errors), (was.version, was.errors));
        assert_eq!((is.headers, is.options, is.blocked_on), (was.headers, was.options, was.blocked_on));
    }
    let node = store.node().await;
    store.admit_all().await;
    assert_eq!(store.take(node, 10).await.len(), 2);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// The first job of an ordered group, suspended while it waits for its next attempt, still blocks the others; one that is not ordered lets the next
/// one start.
pub(crate) async fn an_ordered_job_keeps_its_group<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for (queue, ordered) in [("ordered", true), ("loose", false)] {
        let one = || if ordered { job().queue(queue).ordered(queue) } else { job().queue(queue).exclusive(queue) };
        let sent = store.send_all([one(), one()]).await;
        store.admit_all().await;
        let first = store.take_from(queue, node, 9).await;
        assert_eq!((first.len(), first[0].id), (1, sent[0]));
        store.fail(node, &first[0], LATER, "again").await;
        let suspended = store.operate(&JobFilter::ids([sent[0]]), &Action::Suspend, MEANT).await.unwrap();
        assert_eq!(suspended, affected([(Timer, 1)]));
        store.admit_all().await;
        assert_eq!(store.take_from(queue, node, 9).await.len(), usize::from(!ordered), "{queue}");
        assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
        store.operate(&JobFilter::ids([sent[0]]), &Action::RunNow, MEANT).await.unwrap();
        store.admit_all().await;
        let next = store.take_from(queue, node, 9).await;
        assert_eq!(next.len(), usize::from(ordered), "{queue}");
        assert!(next.iter().all(|job| job.id == sent[0]));
    }
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// A job with a permit of one queue's limit is moved to another queue: it returns the permit, and needs one there.
pub(crate) async fn a_job_moved_to_another_queue_passes_admission_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    for queue in ["a", "b"] {
        store.put_rule(&Rule::new(Scope::Queue, queue).running(1)).await.unwrap();
    }
    let sent = store.send_all(["a", "a", "b"].map(|queue| job().queue(queue))).await;
    let queues = ["a".to_owned(), "b".to_owned()];
    admit(&store, &queues).await;
    let change = Action::Change(Change::default().queue("b"));
    let first = JobFilter::ids([sent[0]]);
    assert_eq!(store.operate(&first, &change, MEANT).await.unwrap().total(), 1);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
    admit(&store, &queues).await;
    let node = store.node().await;
    let (a, b) = (store.take_from("a", node, 9).await, store.take_from("b", node, 9).await);
    assert_eq!((a.len(), a[0].id), (1, sent[1]), "the place in the old queue is free");
    assert_eq!((b.len(), b[0].id), (1, sent[2]), "the new queue has no second place");
    store.finish(node, &b[0]).await;
    admit(&store, &queues).await;
    assert_eq!(store.take_from("b", node, 9).await[0].id, sent[0]);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

async fn admit(store: &Jobs, queues: &[String]) {
    let request = jobwright::internal::engine::AdmitRequest { limit: 100, queues, kinds: None, counting: false };
    while store.admit(&request).await.unwrap().more {}
}

/// A delivery to the old queue does not claim the job there.
pub(crate) async fn a_delivery_to_the_old_queue_is_out_of_date<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    let old = jobwright::internal::Fence::new(id, store.detail(id).await.version);
    let change = Action::Change(Change::default().queue("new"));
    store.operate(&JobFilter::ids([id]), &change, MEANT).await.unwrap();
    let node = store.node().await;
    assert_eq!(store.claim_delivered(node, claim_number(), &[old], None).await.unwrap().len(), 0);
    assert_eq!(store.take_from("new", node, 1).await[0].id, id);
}

/// The key follows the job wherever it is moved, and is free only when the job is gone.
pub(crate) async fn a_unique_job_stays_unique<T: TestDb>(db: &T) {
    let store = db.jobs();
    let one = || message(job().unique(Unique::key("once")));
    let first = one();
    assert_eq!(store.insert(std::slice::from_ref(&first), None).await.unwrap().rows, 1);
    let to = |queue: &str| Action::Change(Change::default().queue(queue));
    let later = Action::Change(Change::default().due(DueChange::In(LATER)));
    for action in [Action::Suspend, Action::Resume, to("x"), later, Action::Suspend, to("y"), Action::RunNow] {
        assert_eq!(store.operate(&JobFilter::default(), &action, MEANT).await.unwrap().total(), 1);
        assert_eq!(store.insert(&[one()], None).await.unwrap().rows, 0, "after {action:?}");
    }
    store.operate(&JobFilter::ids([first.id]), &Action::Delete, MEANT).await.unwrap();
    assert_eq!(store.insert(&[one()], None).await.unwrap().rows, 1);
}

pub(crate) async fn chosen_by_their_options<T: TestDb>(db: &T) {
    let store = db.jobs();
    let a = store.send(job().tenant("a").limit_key("x")).await;
    let b = store.send(job().tenant("b").exclusive("a")).await;
    store.send(job()).await;
    let filter = |change: fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (filter(|f| f.tenant = Some("a".into())), vec![a]),
        (filter(|f| f.group = Some("a".into())), vec![b]),
        (filter(|f| f.limit_key = Some("x".into())), vec![a]),
        (filter(|f| (f.tenant, f.limit_key) = (Some("b".into()), Some("x".into()))), vec![]),
    ] {
        let found: Vec<JobId> = store.find(&filter).await.into_iter().map(|job| job.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        let suspended = store.operate(&filter, &Action::Suspend, MEANT).await.unwrap();
        assert_eq!(suspended.total(), expected.len() as u64);
        store.operate(&filter, &Action::Resume, MEANT).await.unwrap();
    }
}

pub(crate) async fn nonsense_is_refused<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    for change in [
        Change::default(),
        Change::default().queue(" x"),
        Change::default().max_attempts(0),
        Change::default().priority(i16::MIN),
        Change::default().due(DueChange::In(parse_duration("100000d").unwrap())),
    ] {
        let refused = store.operate(&JobFilter::default(), &Action::Change(change), MEANT).await.unwrap_err();
        assert_eq!(refused.kind(), jobwright::ErrorKind::Invalid, "{refused}");
    }
    let nobody = OperatorOptions { by: Some(""), ..OperatorOptions::default() };
    assert!(store.operate(&JobFilter::default(), &Action::Cancel, nobody).await.is_err());
    assert_eq!(store.state(id).await, Some(Waiting));
}

/// Some thousands at a time, and all of them.
pub(crate) async fn more_than_one_transaction_takes<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(12_000)).await;
    let by = OperatorOptions { by: Some("ann"), ..OperatorOptions::default() };
    let all = JobFilter::default();
    assert_eq!(store.operate(&all, &Action::Suspend, by).await.unwrap(), affected([(Waiting, 12_000)]));
    assert_eq!(store.operate(&all, &Action::RunNow, by).await.unwrap(), affected([(Suspended, 12_000)]));
    let change = Action::Change(Change::default().queue("x"));
    assert_eq!(store.operate(&all, &change, by).await.unwrap(), affected([(Waiting, 12_000)]));
    assert_eq!(store.operate(&all, &Action::Delete, by).await.unwrap(), affected([(Waiting, 12_000)]));
    let audit = store.audit(&AuditFilter::default(), 10).await.unwrap();
    let words: Vec<&str> = audit.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(words, ["delete", "change", "run", "suspend"], "one entry an action, the newest first");
    assert!(audit.iter().all(|entry| entry.counts.as_object().unwrap().values().all(|count| count == 12_000)));
}

pub(crate) async fn the_audit_names_operator_and_action<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(NewJob::json("mail", &1).tenant("acme")).await;
    let ann = OperatorOptions { by: Some("ann"), ..OperatorOptions::default() };
    let filter = JobFilter::default().tenant("acme").kind("mail");
    store.operate(&filter, &Action::Suspend, OperatorOptions { dry_run: true, ..ann }).await.unwrap();
    store.operate(&filter, &Action::Suspend, OperatorOptions::UNNAMED).await.unwrap();
    assert_eq!(store.audit(&AuditFilter::default(), 10).await.unwrap(), [], "neither dry runs nor nobody");
    store.operate(&filter, &Action::Resume, ann).await.unwrap();
    let change = Change::default().priority(5);
    store.operate(&filter, &Action::Change(change), OperatorOptions { by: Some("bob"), ..ann }).await.unwrap();
    let rule = Rule::new(Scope::Tenant, "acme").paused(true);
    store.change_rule(Scope::Tenant, "acme", Box::new(move |old| *old = rule), Some("ann")).await.unwrap();
    let retry = Action::Retry { limit: Some(3), spread: Duration::from_secs(2) };
    store.operate(&JobFilter::ids([id]), &retry, ann).await.unwrap();

    let audit = store.audit(&AuditFilter::default(), 10).await.unwrap();
    let [retried, ruled, changed, resumed] = &audit[..] else { panic!("{audit:?}") };
    assert_eq!((resumed.who.as_str(), resumed.action.as_str()), ("ann", "resume"));
    assert_eq!(resumed.what, serde_json::json!({ "filter": { "kind": "mail", "tenant": "acme" } }));
    assert_eq!(resumed.counts, serde_json::json!({ "suspended": 1 }));
    assert_eq!((changed.who.as_str(), &changed.what["change"]), ("bob", &serde_json::json!({ "priority": 5 })));
    assert_eq!((ruled.action.as_str(), &ruled.what["name"]), ("rule", &serde_json::json!("acme")));
    assert_eq!(retried.what["filter"]["ids"], serde_json::json!([id]));
    assert_eq!(retried.counts, serde_json::json!({}), "it waits already: that somebody tried is kept");
    let bobs = AuditFilter::default().who("bob");
    assert_eq!(store.audit(&bobs, 10).await.unwrap(), std::slice::from_ref(changed));
    let before = AuditFilter::default().before(changed.id);
    assert_eq!(store.audit(&before, 10).await.unwrap(), std::slice::from_ref(resumed));
}

pub(crate) async fn the_audit_names_the_operator_who_changed_a_schedule<T: TestDb>(db: &T) {
    let store = db.jobs();
    let jobs = &*store.0;
    let spec = |payload: i32| {
        let daily = Schedule::new("R/2026-01-01T00:00:00Z/P1D").unwrap();
        let job = NewJob::json("report", &payload).queue("reports");
        testing::schedule(NewSchedule::new("daily", daily, job)).unwrap()
    };
    let ann = Some("ann");
    let day =
        |n: i8| jiff::civil::date(2026, 2, n).at(0, 0, 0, 0).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    let order = |by, dry_run| OperatorOptions { by, dry_run, ..OperatorOptions::default() };
    // Actions without effect, dry runs and actions without an operator's name leave no entry.
    schedules::put(jobs, &spec(1), None, None).await.unwrap();
    schedules::put(jobs, &spec(1), None, ann).await.unwrap();
    schedules::resume(jobs, "daily", ann).await.unwrap();
    schedules::backfill(jobs, "daily", (day(1), day(8)), order(ann, true)).await.unwrap();
    schedules::run_now(jobs, "daily", None).await.unwrap();
    assert!(!schedules::delete(jobs, "none", ann).await.unwrap());
    assert_eq!(store.audit(&AuditFilter::default(), 10).await.unwrap(), []);
    assert!(schedules::pause(jobs, "daily", Some(" ")).await.is_err(), "an empty name");

    schedules::put(jobs, &spec(2), None, ann).await.unwrap();
    assert!(schedules::pause(jobs, "daily", ann).await.unwrap());
    assert!(schedules::resume(jobs, "daily", Some("bob")).await.unwrap());
    let (id, _) = schedules::run_now(jobs, "daily", ann).await.unwrap();
    let filled = schedules::backfill(jobs, "daily", (day(1), day(8)), order(ann, false)).await.unwrap();
    assert_eq!(filled.jobs, 7);
    assert!(schedules::delete(jobs, "daily", ann).await.unwrap());
    assert_eq!(store.count(Waiting).await, 9);
    let mut audit = store.audit(&AuditFilter::default(), 10).await.unwrap();
    audit.reverse();
    let words: Vec<&str> = audit.iter().map(|entry| entry.action.as_str()).collect();
    let verbs = ["put", "pause", "resume", "run", "backfill", "delete"];
    assert_eq!(words, verbs.map(|verb| format!("{verb}-schedule")));
    assert!(audit.iter().all(|entry| entry.what["schedule"] == "daily"), "{audit:?}");
    assert_eq!((audit[2].who.as_str(), &audit[0].what["outcome"]), ("bob", &json!("changed")));
    assert_eq!((&audit[3].what["job"], &audit[3].counts), (&json!(id), &json!({ "sent": 1 })));
    assert_eq!((&audit[4].what["occurrences"], &audit[4].counts), (&json!(7), &json!({ "sent": 7 })));
    assert_eq!(audit[1].counts, json!({}));
}

/// A backfill is one action, whatever number of transactions it takes.
pub(crate) async fn a_long_backfill_is_one_entry<T: TestDb>(db: &T) {
    let store = db.jobs();
    let hourly = Schedule::new("R/2020-01-01T00:00:00Z/PT1H").unwrap();
    let new = NewSchedule::new("hourly", hourly, NewJob::json("tick", &()));
    schedules::put(&*store.0, &testing::schedule(new).unwrap(), None, None).await.unwrap();
    let time = ("2020-01-01T00:00:00Z".parse().unwrap(), "2020-04-01T00:00:00Z".parse().unwrap());
    let order = OperatorOptions { by: Some("ann"), ..OperatorOptions::default() };
    let filled = schedules::backfill(&*store.0, "hourly", time, order).await.unwrap();
    assert_eq!(filled.jobs, 91 * 24);
    let audit = store.audit(&AuditFilter::default(), 10).await.unwrap();
    assert_eq!((audit.len(), &audit[0].counts), (1, &json!({ "sent": 91 * 24 })));
}

/// A node learns which of its running jobs no longer belong to it.
pub(crate) async fn a_node_learns_which_of_its_jobs_are_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(3)).await;
    let taken = store.take(node, 3).await;
    let fences: Vec<_> = taken.iter().map(jobwright::Job::fence).collect();
    assert_eq!(store.stale_claims(node, &fences).await.unwrap(), []);
    store.cancel(&JobFilter::ids([taken[1].id]), false).await.unwrap();
    assert_eq!(store.stale_claims(node, &fences).await.unwrap(), [fences[1]]);
    assert_eq!(store.stale_claims(store.node().await, &fences).await.unwrap().len(), 3);
    assert_eq!(store.stale_claims(node, &[]).await.unwrap(), []);
}

pub(crate) async fn an_evicted_node_loses_its_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let (node, other) = (store.node().await, store.node().await);
    let taken = store.take(node, 2).await;
    store.take(other, 1).await;
    let released = store.evict(node, Some("ann")).await.unwrap().expect("it is known");
    assert_eq!((released.waiting, released.dead), (2, 0));
    assert!(!store.heartbeat(node).await.unwrap(), "nothing revives it");
    assert_eq!(store.complete(node, &[taken[0].fence()]).await.unwrap(), []);
    let detail = store.detail(taken[0].id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (Waiting, 1));
    assert!(detail.errors[0].error.contains("declared dead by hand"), "{}", detail.errors[0].error);
    assert_eq!((store.count(Running).await, store.count(External).await), (1, 0), "others keep theirs");
    let nodes = store.status().await.unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [other]);
    assert_eq!(store.evict(node, Some("ann")).await.unwrap(), None, "it is forgotten");
    let audit = store.audit(&AuditFilter::default(), 9).await.unwrap();
    assert_eq!((audit.len(), &audit[0].what), (1, &serde_json::json!({ "node": node })));
}
