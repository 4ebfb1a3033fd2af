//! Assertions about sent messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jiff::Timestamp;
use jobwright::Store;
use jobwright::testing::{Pending, Sent, TestDatabase, assert_sent};
use jobwright::{Command, JobContext, JobError, JobId, NewJob, Outcome, RetryPolicy, Unique};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::test_kit::kit::Kit;

#[derive(Serialize, Deserialize)]
struct Invoice {
    order: i64,
}

impl<S: Store> Command<S> for Invoice {
    const KIND: &'static str = "invoice";
    type State = ();

    async fn execute(self, _: &mut JobContext<'_, (), S>) -> Result<Outcome, JobError> {
        Ok(Outcome::Done)
    }
}

fn letter() -> NewJob {
    NewJob::json("letter", &json!({ "to": { "name": "Ada", "city": "London" }, "pages": 2 }))
        .queue("post")
        .priority(3)
        .header("tenant", "acme")
        .delay(Duration::from_secs(5))
}

/// Returns the message of a failed assertion.
fn says<P: Pending>(pending: &P, state: impl FnOnce(Sent<'_, P::Store>)) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| state(assert_sent(pending)))).expect_err("it should not be true");
    panic.downcast_ref::<String>().unwrap().clone()
}

pub(crate) async fn assertions_return_the_jobs_they_found<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    assert_sent(&cx).never();
    let id = cx.send(letter()).unwrap();
    let invoices = [cx.send(Invoice { order: 1 }).unwrap(), cx.send(Invoice { order: 2 }).unwrap()];

    let one = assert_sent(&cx)
        .kind("letter")
        .queue("post")
        .priority(3)
        .header("tenant", "acme")
        .due_later()
        .json(&json!({ "pages": 2, "to": { "city": "London", "name": "Ada" } }))
        .json_with(&json!({ "to": { "name": "Ada" } }))
        .matching("on few pages", |job| job.payload.as_bytes().len() < 100)
        .once();
    assert_eq!(one.id, id);
    assert_eq!(assert_sent(&cx).command(|invoice: &Invoice| invoice.order == 2).once().id, invoices[1]);
    let both = assert_sent(&cx).kind("invoice").due_now().times(2);
    assert_eq!(both.iter().map(|job| job.id).collect::<Vec<_>>(), invoices);
    assert_sent(&cx).kind("parcel").never();
    cx.rollback().await.unwrap();
}

pub(crate) async fn a_failed_assertion_lists_the_sent_jobs_and_the_mismatch<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    assert_eq!(
        says(&cx, |sent| _ = sent.kind("letter").once()),
        "expected one job of kind \"letter\"; nothing was sent"
    );
    cx.send(letter()).unwrap();
    cx.send(Invoice { order: 1 }).unwrap();
    assert_eq!(
        says(&cx, |sent| _ = sent.kind("letter").header("tenant", "other").once()),
        "expected one job of kind \"letter\" with header tenant=\"other\"; 2 were sent, 0 match\
         \n  letter in post, in 5s, priority 3, tenant=\"acme\": {\"pages\":2,\"to\":{\"city\":\"London\",\"name\":\"Ada\"}}\
         \n      does not match: its header tenant is \"acme\"\
         \n  invoice in default: {\"order\":1}\
         \n      does not match: its kind is \"invoice\""
    );
    assert_eq!(
        says(&cx, |sent| _ = sent.kind("invoice").command(|invoice: &Invoice| invoice.order > 1).once())
            .lines()
            .next()
            .unwrap(),
        "expected one \"invoice\" of kind \"invoice\" that the closure accepts; 2 were sent, 0 match"
    );
    cx.rollback().await.unwrap();
}

/// Adds a condition.
type Narrow<S> = Box<dyn FnOnce(Sent<'_, S>) -> Sent<'_, S>>;

/// Each condition can be the one that fails.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the path of a method has a lifetime of its own")]
pub(crate) async fn each_condition_can_fail<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    cx.send(letter()).unwrap();
    let cases: Vec<(Narrow<S>, &str)> = vec![
        (Box::new(|sent| sent.kind("parcel")), "its kind is \"letter\""),
        (Box::new(|sent| sent.queue("default")), "its queue is \"post\""),
        (Box::new(|sent| sent.priority(0)), "its priority is 3"),
        (Box::new(|sent| sent.header("region", "eu")), "it has no header region"),
        (Box::new(|sent| sent.due_now()), "it is due in 5s"),
        (Box::new(|sent| sent.json(&1)), "its payload is different"),
        (Box::new(|sent| sent.json_with(&json!({ "to": { "name": "Bob" } }))), "payload.to.name is \"Ada\""),
        (Box::new(|sent| sent.json_with(&json!({ "to": { "zip": 1 } }))), "payload.to.zip is missing"),
        (Box::new(|sent| sent.command(|_: &Invoice| true)), "its kind is \"letter\""),
        (Box::new(|sent| sent.matching("a parcel", |_| false)), "not a parcel"),
    ];
    for (narrow, why) in cases {
        let text = says(&cx, |sent| _ = narrow(sent).once());
        assert!(text.contains(why), "{text}");
    }
    let text = says(&cx, |sent| sent.kind("letter").never());
    assert!(text.starts_with("expected no job of kind \"letter\"; 1 was sent, 1 matches"), "{text}");
    cx.send(Invoice { order: 1 }).unwrap();
    assert!(says(&cx, |sent| drop(sent.due_later().times(2))).contains("it is due at once"));
    let text = says(&cx, |sent| _ = sent.command(|invoice: &Invoice| invoice.order > 1).once());
    assert!(text.starts_with("expected one \"invoice\" that the closure accepts; 2 were sent, 0 match"), "{text}");
    assert!(text.contains("the closure does not accept it"), "{text}");
    cx.rollback().await.unwrap();
}

fn with_options() -> NewJob {
    NewJob::json("sync", &json!({ "customer": 7, "why": "changed" }))
        .max_attempts(3)
        .ordered("customer-7")
        .limit_key("crm")
        .ttl(Duration::from_secs(60))
        .retry(RetryPolicy::Fixed(Duration::from_secs(30)))
        .unique(Unique::fields(["/customer"]).while_waiting())
}

/// Of a job that was collected and of one that is stored.
pub(crate) async fn each_option_can_be_asserted<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    let id = cx.send(with_options()).unwrap();
    options_are_asserted(&cx, id);
    let text = says(&cx, |sent| sent.never());
    let described = "sync in default, 3 attempts, group \"customer-7\", limit key \"crm\", in strict order, time to live 60s, \
                     retry policy fixed(30s), unique while it waits, else keep the other job: {";
    assert!(text.contains(described), "{text}");
    cx.commit().await.unwrap();
    options_are_asserted(&db.sent().await.unwrap(), id);
}

fn options_are_asserted<P: Pending>(pending: &P, id: JobId) {
    let by_customer = || Unique::fields(["/customer"]);
    assert_sent(pending)
        .id(id)
        .max_attempts(3)
        .ordered("customer-7")
        .group("customer-7")
        .limit_key("crm")
        .ttl(Duration::from_secs(60))
        .retry(RetryPolicy::Fixed(Duration::from_secs(30)))
        .unique(by_customer().while_waiting())
        .once();
    let cases: Vec<(Narrow<P::Store>, &str)> = vec![
        (Box::new(|sent| sent.id(JobId::new())), "its id is "),
        (Box::new(|sent| sent.max_attempts(10)), "it has 3 attempts"),
        (Box::new(|sent| sent.ordered("customer-8")), "its group is \"customer-7\""),
        (Box::new(|sent| sent.limit_key("other")), "its limit key is \"crm\""),
        (Box::new(|sent| sent.ttl(Duration::from_secs(61))), "its time to live is 60s"),
        (Box::new(|sent| sent.retry(RetryPolicy::Fixed(Duration::from_secs(31)))), "its retry policy is fixed(30s)"),
        (Box::new(move |sent| sent.unique(by_customer())), "it holds its unique key while it waits"),
        (
            Box::new(move |sent| sent.unique(by_customer().while_waiting().reject())),
            "if its unique key is held, it is to keep the other job",
        ),
        (Box::new(|sent| sent.unique(Unique::key("7").while_waiting())), "its unique key is different"),
    ];
    for (narrow, why) in cases {
        let text = says(pending, |sent| _ = narrow(sent).once());
        assert!(text.contains(why), "{text}");
    }
    let text = says(pending, |sent| _ = sent.unique(by_customer().per_queue()).once());
    assert!(text.starts_with("expected one job unique by the fields /customer in its queue; 1 was sent"), "{text}");
}

pub(crate) async fn a_due_time_is_within_a_duration<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    cx.send(NewJob::json("now", &())).unwrap();
    cx.send(NewJob::json("soon", &()).delay(Duration::from_secs(300))).unwrap();
    cx.send(NewJob::json("later", &()).at(Timestamp::now().saturating_add(Duration::from_secs(3600)).unwrap()))
        .unwrap();
    fn check<P: Pending>(pending: &P) {
        assert_sent(pending).due_within(Duration::from_secs(299)).kind("now").once();
        assert_sent(pending).due_within(Duration::from_secs(300)).times(2);
        assert_sent(pending).due_within(Duration::from_secs(300)).due_later().kind("soon").once();
        assert_sent(pending).due_within(Duration::from_secs(3600)).times(3);
        let text = says(pending, |sent| _ = sent.kind("later").due_within(Duration::from_secs(60)).once());
        assert!(text.contains("due within 60s") && text.contains("it is due at "), "{text}");
    }
    check(&cx);
    cx.commit().await.unwrap();
    db.travel(Duration::from_secs(60)).await.unwrap();
    let stored = db.sent().await.unwrap();
    assert_sent(&stored).due_within(Duration::from_secs(240)).due_later().kind("soon").once();
    let text = says(&stored, |sent| _ = sent.kind("soon").due_within(Duration::from_secs(30)).once());
    assert!(text.contains("it is due at "), "{text}");
    let plain = db.messages().begin();
    let text = says(&plain, |sent| _ = sent.retry(RetryPolicy::Fixed(Duration::from_secs(1))).times(2));
    assert_eq!(text, "expected 2 jobs with retry policy fixed(1s); nothing was sent");
    let text = says(&stored, |sent| _ = sent.kind("soon").ttl(Duration::from_secs(1)).once());
    assert!(text.contains("it has no time to live"), "{text}");
    let text = says(&stored, |sent| _ = sent.kind("soon").unique(Unique::payload()).once());
    assert!(text.contains("it is not unique"), "{text}");
}

pub(crate) async fn stored_jobs_can_be_asserted_after_the_commit<S: Kit>(db: &TestDatabase<S>) {
    let mut cx = db.messages().begin();
    cx.send(letter()).unwrap();
    cx.send(Invoice { order: 1 }).unwrap();
    assert_sent(&db.sent().await.unwrap()).never();
    cx.commit().await.unwrap();
    let stored = db.sent().await.unwrap();
    assert_sent(&stored).kind("letter").queue("post").header("tenant", "acme").due_later().once();
    assert_sent(&stored).command(|invoice: &Invoice| invoice.order == 1).due_now().once();
    assert_sent(&stored).times(2);
}

/// In tests of handlers as plain functions.
pub(crate) async fn jobs_sent_by_a_handler_can_be_asserted_inside_it<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            executor.handle_with("sends", |cx| {
                Box::pin(async move {
                    assert_sent(cx).never();
                    cx.send(letter())?;
                    assert_sent(cx).kind("letter").once();
                    Ok(Outcome::Done)
                })
            })
        })
        .await
        .unwrap();
    db.messages().send(NewJob::json("sends", &())).await.unwrap();
    let summary = runner.drain().await.unwrap();
    assert_eq!(summary.done(), 1, "{summary}");
}
