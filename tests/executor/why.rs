//! Each cause that keeps a job from running is made, and named by `Admin::why`.

use std::time::Duration;

use jobwright::admin::Admin;
use jobwright::admin::{Holder, JobFilter, JobState, Rate, Reason, Rule, Scope, Serves};
use jobwright::headers::REPLY_QUEUE;
use jobwright::internal::engine::{Settlement, Verdict};
use jobwright::{CommandExecutor, JobId, NewJob, NodeId, Outcome};

use crate::support::environment::{Gate, PATIENCE, World, patient};
use crate::support::jobs::{hand_out_number, job, message, node_info};
use crate::support::{Jobs, SqlDb, eventually};

/// The reasons of a job.
async fn why(admin: &Admin, id: JobId) -> Vec<Reason> {
    admin.why(id).await.unwrap().expect("the job is there").reasons
}

/// What a node serves that has ten slots for the queue `default` and handles these kinds.
fn serves(kinds: &[&str]) -> Serves {
    let mut serves = Serves::default();
    serves.queues.insert("default".to_owned(), 10);
    serves.kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    serves
}

async fn register(store: &Jobs, serves: Serves) -> NodeId {
    store.register_node(&node_info("test").serves(serves)).await.unwrap()
}

async fn admin<W: World>(db: &W) -> Admin {
    db.messages().await.admin().by("ann")
}

/// Whether all texts are those of a sentence for people, without the forms of `Debug`.
fn reads_well(reasons: &[Reason]) {
    for reason in reasons {
        let text = reason.to_string();
        let forms = ["Some(", "None", "NodeId", "Reason", "Timestamp"];
        assert!(!text.is_empty() && !forms.iter().any(|form| text.contains(form)), "{text}");
    }
}

pub(crate) async fn nodes_that_do_not_take_it<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let (first, second) = (store.send(job()).await, store.send(job()).await);
    assert_eq!(why(&admin, first).await, [Reason::NoNode]);

    let other = register(&store, serves(&["other"])).await;
    let unhandled = Reason::KindNotHandled { queue: "default".to_owned(), kind: "kind".to_owned() };
    assert_eq!(why(&admin, first).await, std::slice::from_ref(&unhandled));
    let elsewhere = store.send(job().queue("elsewhere")).await;
    assert_eq!(why(&admin, elsewhere).await, [Reason::QueueNotServed { queue: "elsewhere".to_owned() }]);

    // One of a build that does not say what it serves: it may be the one.
    let silent = store.node().await;
    assert_eq!(why(&admin, first).await, [Reason::Next]);
    assert_eq!(why(&admin, elsewhere).await, [Reason::Next]);
    store.retire_node(silent).await.unwrap();
    assert_eq!(why(&admin, first).await, std::slice::from_ref(&unhandled));

    let able = register(&store, serves(&["kind"])).await;
    assert_eq!(why(&admin, first).await, [Reason::Next]);
    assert_eq!(why(&admin, second).await, [Reason::Behind { jobs: 1, slots: Some(20) }]);
    store.report_left_alone(able, Some(r#"{"kind": "there is no such program"}"#)).await.unwrap();
    let alone = Reason::LeftAlone {
        kind: "kind".to_owned(),
        node: "test".to_owned(),
        error: "there is no such program".to_owned(),
    };
    assert_eq!(why(&admin, first).await, [alone]);
    store.report_left_alone(able, None).await.unwrap();

    // A node whose lease is over is no help.
    db.end_lease(able).await;
    db.bury(able).await;
    assert_eq!(why(&admin, first).await, [unhandled]);
    db.bury(other).await;
    reads_well(&why(&admin, first).await);
}

pub(crate) async fn rules_that_hold_it<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    register(&store, serves(&["kind"])).await;
    let scopes = [
        (Scope::Queue, "default"),
        (Scope::Queue, "*"),
        (Scope::Kind, "kind"),
        (Scope::Kind, "*"),
        (Scope::Tenant, "acme"),
        (Scope::Tenant, "*"),
        (Scope::Key, "printer"),
        (Scope::Key, "*"),
    ];
    for (scope, name) in scopes {
        // One that was admitted before needs no permit any more.
        let id = store.send(job().tenant("acme").limit_key("printer")).await;
        admin.put_rule(&Rule::new(scope, name).paused(true)).await.unwrap();
        // Who changes something else of the rule has not paused it.
        admin.clone().by("bob").change_rule(scope, name, |rule| rule.running = Some(0)).await.unwrap();
        for _ in 0..2 {
            let reasons = why(&admin, id).await;
            let pauses = |reason: &Reason| matches!(reason, Reason::Paused { scope: of, name: is, by: Some(by), since: Some(_) } if (*of, &**is, &**by) == (scope, name, "ann"));
            assert!(reasons.iter().any(pauses), "{scope} {name}: {reasons:?}");
            let stops = |reason: &Reason| matches!(reason, Reason::Limit { scope: of, most: 0, running: 0, .. } if *of == scope);
            assert!(reasons.iter().any(stops), "{scope} {name}: {reasons:?}");
            assert_eq!(reasons.len(), 2, "{scope} {name}: {reasons:?}");
            assert!(reasons.iter().all(Reason::lasts));
            reads_well(&reasons);
            // The same when an admission pass has seen it.
            store.admit_all().await;
        }
        admin.put_rule(&Rule::new(scope, name)).await.unwrap();
        store.admit_all().await;
        assert_eq!(why(&admin, id).await, [Reason::Next], "{scope} {name}");
        admin.cancel(&JobFilter::ids([id])).await.unwrap();
    }
    let group = store.send(job().exclusive("account")).await;
    store.admit_all().await;
    for name in ["account", "*"] {
        admin.put_rule(&Rule::new(Scope::Group, name).paused(true)).await.unwrap();
        let reasons = why(&admin, group).await;
        let pauses =
            |reason: &Reason| matches!(reason, Reason::Paused { scope: Scope::Group, name: is, .. } if is == name);
        assert!(reasons.len() == 1 && pauses(&reasons[0]), "{name}: {reasons:?}");
        admin.put_rule(&Rule::new(Scope::Group, name)).await.unwrap();
    }
}

/// A limit or a rate names what has it, whichever scope it is of: on PostgreSQL, claims count some of them and admission passes the others.
pub(crate) async fn limits_that_are_reached<W: World>(db: &W) {
    let admin = admin(db).await;
    let names = [(Scope::Queue, "default"), (Scope::Kind, "wait"), (Scope::Tenant, "acme"), (Scope::Key, "printer")];
    // The rule is for this name, or for each.
    for ((scope, name), rule) in
        names.into_iter().flat_map(|(scope, name)| [((scope, name), name), ((scope, name), "*")])
    {
        admin.put_rule(&Rule::new(scope, rule).running(2)).await.unwrap();
        let gate = Gate::closed();
        let handler = gate.clone();
        let messages = db.messages().await;
        let executor = CommandExecutor::builder(messages.clone())
            .config(patient())
            .handle("wait", move |_| {
                let gate = handler.clone();
                async move {
                    gate.pass().await;
                    Ok(Outcome::Done)
                }
            })
            .queue("default", 10)
            .start()
            .await
            .unwrap();
        let send = || NewJob::json("wait", &1).tenant("acme").limit_key("printer");
        for _ in 0..2 {
            messages.send(send()).await.unwrap();
        }
        gate.waiting(2).await;
        let third = messages.send(send()).await.unwrap();
        let held = async || {
            let reasons = why(&admin, third).await;
            let reached = |reason: &Reason| {
                matches!(reason, Reason::Limit { scope: of, name: is, most: 2, running: 2, holders }
                    if (*of, &**is) == (scope, name) && !holders.is_empty())
            };
            reads_well(&reasons);
            reasons.len() == 1 && reached(&reasons[0]) && !reasons[0].lasts()
        };
        eventually(PATIENCE, held).await;
        let running = admin.list(&JobFilter::state(JobState::Running), &jobwright::admin::Page::new(1)).await.unwrap();
        let reasons = why(&admin, running[0].id).await;
        assert!(matches!(&reasons[..], [Reason::Runs { since: Some(_), .. }]), "{reasons:?}");
        gate.open();
        db.drained().await;
        executor.shutdown(Duration::ZERO).await.unwrap();
        admin.put_rule(&Rule::new(scope, rule)).await.unwrap();
    }
}

pub(crate) async fn a_rate_that_is_reached<W: World>(db: &W) {
    let admin = admin(db).await;
    for (scope, name) in
        [(Scope::Queue, "default"), (Scope::Kind, "kind"), (Scope::Tenant, "acme"), (Scope::Key, "printer")]
    {
        let job = || job().limit_key("printer");
        admin.put_rule(&Rule::new(scope, name).rate(1, Duration::from_secs(3600))).await.unwrap();
        let messages = db.messages().await;
        let executor = CommandExecutor::builder(messages.clone())
            .config(patient())
            .handle("kind", |_| async { Ok(Outcome::Done) })
            .start()
            .await
            .unwrap();
        messages.send(job().tenant("acme")).await.unwrap();
        eventually(PATIENCE, async || executor.stats().done == 1).await;
        let second = messages.send(job().tenant("acme")).await.unwrap();
        let reasons = why(&admin, second).await;
        let [Reason::Rate { scope: of, rate, until: Some(until), .. }] = &reasons[..] else { panic!("{reasons:?}") };
        assert_eq!((*of, *rate), (scope, "1/1h".parse::<Rate>().unwrap()));
        let left = until.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((3500..=3600).contains(&left), "{until}");
        reads_well(&reasons);
        executor.shutdown(Duration::ZERO).await.unwrap();
        admin.put_rule(&Rule::new(scope, name)).await.unwrap();
        admin.delete(&JobFilter::default()).await.unwrap();
    }
}

pub(crate) async fn a_group_that_another_has<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let node = register(&store, serves(&["kind"])).await;
    let ids = store.send_all([job().ordered("account"), job().ordered("account")]).await;
    assert_eq!(why(&admin, ids[0]).await, [Reason::Admission]);
    store.admit_all().await;
    assert_eq!(why(&admin, ids[0]).await, [Reason::Next]);
    let first = store.take_one(node).await;
    let holder = async |state: JobState| {
        let reasons = why(&admin, ids[1]).await;
        reads_well(&reasons);
        let [Reason::Group { group, holder: Holder::Job { id, state: is, .. } }] = &reasons[..] else {
            panic!("{reasons:?}")
        };
        assert_eq!((&**group, *id, *is), ("account", ids[0], state));
        reasons[0].lasts()
    };
    assert!(!holder(JobState::Running).await);
    store.fail(node, &first, Duration::from_secs(3600), "no paper").await;
    assert!(!holder(JobState::Timer).await);
    // A suspended one keeps its group.
    admin.suspend(&JobFilter::ids([ids[0]])).await.unwrap();
    assert!(holder(JobState::Suspended).await);
    admin.resume(&JobFilter::ids([ids[0]])).await.unwrap();
    admin.run_now(&JobFilter::ids([ids[0]])).await.unwrap();
    store.admit_all().await;
    let first = store.take_one(node).await;
    assert!(store.settle_with(node, Settlement::new(first.fence(), Verdict::Dead).error("no paper", None)).await);
    assert!(holder(JobState::Dead).await);
    let reasons = why(&admin, ids[0]).await;
    assert!(matches!(&reasons[..], [Reason::Dead { error, .. }] if error == "no paper"), "{reasons:?}");
}

/// The permit is of a job that was cancelled and whose handler has not ended, or of one that is gone, as in a table that was restored alone.
pub(crate) async fn a_group_whose_job_is_gone<W: World + SqlDb>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let node = register(&store, serves(&["kind"])).await;
    let ids = store.send_all([job().exclusive("account"), job().exclusive("account")]).await;
    store.admit_all().await;
    assert_eq!(store.take_one(node).await.id, ids[0]);
    store.cancel(&JobFilter::ids([ids[0]]), false).await.unwrap();
    let reasons = why(&admin, ids[1]).await;
    let handler =
        |reason: &Reason| matches!(reason, Reason::Group { holder: Holder::Handler { id }, .. } if *id == ids[0]);
    assert!(reasons.len() == 1 && handler(&reasons[0]), "{reasons:?}");
    reads_well(&reasons);

    let id = if std::any::type_name::<W>().contains("Sqlite") { "randomblob(16)" } else { "gen_random_uuid()" };
    db.change(&format!("insert into {{}}permit (job_id, key) values ({id}, 'g:restored')")).await;
    let held = store.send(job().exclusive("restored")).await;
    let reasons = why(&admin, held).await;
    assert!(matches!(&reasons[..], [Reason::Group { holder: Holder::Gone, .. }]), "{reasons:?}");
    reads_well(&reasons);
}

/// A task that fails is in the way only if it does on each node that could do it; a node that leaves a kind alone is not if another one does not.
pub(crate) async fn some_nodes_that_can_not<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let (one, other) = (register(&store, serves(&["kind"])).await, register(&store, serves(&["kind"])).await);
    let id = store.send(job()).await;
    let due = store.send(job().delay(Duration::from_millis(1))).await;
    let blocked = store.send(job().exclusive("account")).await;
    eventually(PATIENCE, async || matches!(why(&admin, due).await[..], [Reason::Overdue { .. }])).await;
    assert_eq!(why(&admin, blocked).await, [Reason::Admission]);

    let alone = r#"{"kind": "there is no such program"}"#;
    store.report_left_alone(one, Some(alone)).await.unwrap();
    assert_eq!(why(&admin, id).await, [Reason::Next]);
    store.report_left_alone(other, Some(alone)).await.unwrap();
    assert!(matches!(why(&admin, id).await[..], [Reason::LeftAlone { .. }]));
    store.report_left_alone(one, None).await.unwrap();

    let failing = |task: &str| {
        let queue = if task == "claims" { r#""queue": "default","# } else { "" };
        format!(
            r#"[{{"task": "{task}", {queue} "failed": "it failed", "error": "a lock", "since": "2026-01-01T00:00:00Z"}}]"#
        )
    };
    for (task, job) in [("timers", due), ("admission", blocked), ("claims", id)] {
        let fails = async || {
            why(&admin, job)
                .await
                .into_iter()
                .any(|reason| matches!(&reason, Reason::Failing { task: of, .. } if of.task == task))
        };
        store.report_failing(one, Some(&failing(task))).await.unwrap();
        // The node that leaves the kind alone would not claim the job anyway.
        assert_eq!(fails().await, task == "claims", "{task}");
        store.report_failing(other, Some(&failing(task))).await.unwrap();
        assert!(fails().await, "{task}");
        let reasons = why(&admin, job).await;
        assert!(reasons.iter().any(Reason::lasts), "{reasons:?}");
        reads_well(&reasons);
        for node in [one, other] {
            store.report_failing(node, None).await.unwrap();
        }
        assert!(!fails().await, "{task}");
    }
}

/// A job that nothing keeps may have to wait for a slot.
pub(crate) async fn slots_that_are_busy<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let mut one = serves(&["kind"]);
    one.queues.insert("default".to_owned(), 1);
    let node = register(&store, one).await;
    let ids = store.send_all((0..3).map(|_| job())).await;
    assert_eq!(why(&admin, ids[0]).await, [Reason::Next]);
    store.take_one(node).await;
    assert_eq!(why(&admin, ids[1]).await, [Reason::Busy { slots: 1, before: 0 }]);
    let last = why(&admin, ids[2]).await;
    assert_eq!(last, [Reason::Busy { slots: 1, before: 1 }]);
    assert_eq!(last[0].to_string(), "the only slot of its queue is busy, and 1 job is before it");
}

pub(crate) async fn what_is_elsewhere<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let mut away = serves(&["kind"]);
    away.external.insert("partner".to_owned());
    let node = register(&store, away).await;
    let later = store.send(job().delay(Duration::from_secs(3600))).await;
    let reasons = why(&admin, later).await;
    assert!(matches!(&reasons[..], [Reason::Due { .. }]) && !reasons[0].lasts(), "{reasons:?}");
    admin.suspend(&JobFilter::ids([later])).await.unwrap();
    assert_eq!(why(&admin, later).await, [Reason::Suspended]);
    admin.run_now(&JobFilter::ids([later])).await.unwrap();
    assert_eq!(why(&admin, later).await, [Reason::Next]);
    admin.delete(&JobFilter::ids([later])).await.unwrap();
    assert_eq!(admin.why(later).await.unwrap(), None);

    let due = store.send(job().delay(Duration::from_millis(1))).await;
    eventually(PATIENCE, async || matches!(why(&admin, due).await[..], [Reason::Overdue { .. }])).await;

    let partner = store.send(job().queue("partner")).await;
    assert_eq!(why(&admin, partner).await, [Reason::NoWorker { queue: "partner".to_owned() }]);
    store.report_broker(node, Some("down")).await.unwrap();
    assert_eq!(why(&admin, partner).await, [Reason::NoBroker { queue: "partner".to_owned() }]);
    let reply = store.send(job().queue(REPLY_QUEUE)).await;
    assert_eq!(why(&admin, reply).await, [Reason::NoBroker { queue: REPLY_QUEUE.to_owned() }]);
    store.report_broker(node, Some("up")).await.unwrap();
    assert_eq!(why(&admin, partner).await, [Reason::Next]);
    assert_eq!(why(&admin, reply).await, [Reason::Next]);
    store.hand_out("partner", 1, Duration::from_secs(3600), hand_out_number()).await.unwrap();
    let reasons = why(&admin, partner).await;
    assert!(matches!(&reasons[..], [Reason::HandedOut { until: Some(_), worker: None }]), "{reasons:?}");
    reads_well(&reasons);
}

pub(crate) async fn what_no_poll_takes<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    register(&store, serves(&["kind"])).await;
    let mut hidden = message(job());
    hidden.hidden_for = Duration::from_secs(60);
    store.insert(std::slice::from_ref(&hidden), None).await.unwrap();
    let reasons = why(&admin, hidden.id).await;
    assert!(matches!(&reasons[..], [Reason::Hidden { .. }]) && !reasons[0].lasts(), "{reasons:?}");
    reads_well(&reasons);
    let expired = store.send(job().ttl(Duration::from_millis(1))).await;
    eventually(PATIENCE, async || matches!(why(&admin, expired).await[..], [Reason::Expired { .. }])).await;
    let odd = store.send(job().queue("unreadable:default")).await;
    assert_eq!(why(&admin, odd).await, [Reason::Unreadable]);
}

/// A job that is the first of its group may wait for a limit.
pub(crate) async fn two_things_at_once<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let node = register(&store, serves(&["kind"])).await;
    store.put_rule(&Rule::new(Scope::Tenant, "acme").running(1)).await.unwrap();
    let send = |group: &str| job().tenant("acme").exclusive(group);
    let ids = store.send_all([send("a"), send("b"), send("b")]).await;
    store.admit_all().await;
    assert_eq!(store.take_one(node).await.id, ids[0]);
    for (id, group_too) in [(ids[1], false), (ids[2], true)] {
        let reasons = why(&admin, id).await;
        let limit = |reason: &Reason| matches!(reason, Reason::Limit { most: 1, running: 1, holders, .. } if matches!(&holders[..], [Holder::Job { id, .. }] if *id == ids[0]));
        assert!(reasons.iter().any(limit), "{reasons:?}");
        let group = reasons.iter().any(|reason| matches!(reason, Reason::Group { .. }));
        assert_eq!(group, group_too, "{reasons:?}");
    }
}

pub(crate) async fn after_the_death_of_its_node<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    let (node, claimed) = store.running(job()).await;
    db.bury(node).await;
    register(&store, serves(&["kind"])).await;
    assert_eq!(why(&admin, claimed.id).await, [Reason::OwnerLost { node }]);
    store.release_lost(10, std::num::NonZeroU32::new(3)).await.unwrap();
    assert_eq!(why(&admin, claimed.id).await, [Reason::RunsAlone]);
}

/// Jobs that wait are sorted by what is in their way, and each class counts its jobs.
pub(crate) async fn all_that_wait<W: World>(db: &W) {
    let (store, admin) = (db.jobs(), admin(db).await);
    assert_eq!(admin.why_waiting(None, None).await.unwrap(), []);
    register(&store, serves(&["kind"])).await;
    store.send_all((0..5).map(|n| job().queue("typo").exclusive(format!("group {n}")))).await;
    let typos = store.send_all((0..3).map(|_| NewJob::json("typo", &1))).await;
    let paused = store.send_all((0..2).map(|_| job().tenant("acme"))).await;
    admin.put_rule(&Rule::new(Scope::Tenant, "acme").paused(true)).await.unwrap();
    let held = admin.why_waiting(Some("default"), None).await.unwrap();
    let found: Vec<_> = held.iter().map(|one| (one.jobs, one.example.id, one.example.lasts())).collect();
    assert_eq!(found, [(3, typos[0], true), (2, paused[0], true)]);
    assert!(matches!(&held[0].example.reasons[..], [Reason::KindNotHandled { .. }]), "{held:?}");
    assert!(matches!(&held[1].example.reasons[..], [Reason::Paused { by: Some(by), .. }] if by == "ann"), "{held:?}");
    let of_kind = admin.why_waiting(None, Some("typo")).await.unwrap();
    assert_eq!(of_kind.iter().map(|one| one.jobs).collect::<Vec<_>>(), [3]);
    let all = admin.why_waiting(None, None).await.unwrap();
    assert_eq!(all.iter().map(|one| one.jobs).sum::<u64>(), 10, "{all:?}");
}
