//! Assertions about sent messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jobwright::store::Store;
use jobwright::testing::{Pending, Sent, TestDatabase, assert_sent};
use jobwright::{Command, JobContext, JobError, NewJob, Outcome};
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
        "expected one job of kind \"letter\", but 0 of 0 sent are: nothing was sent"
    );
    cx.send(letter()).unwrap();
    cx.send(Invoice { order: 1 }).unwrap();
    assert_eq!(
        says(&cx, |sent| _ = sent.kind("letter").header("tenant", "other").once()),
        "expected one job of kind \"letter\" with header tenant=\"other\", but 0 of 2 sent are\
         \n  letter in post, in 5s, priority 3, tenant=\"acme\": {\"pages\":2,\"to\":{\"city\":\"London\",\"name\":\"Ada\"}}\
         \n      not: its header tenant is \"acme\"\
         \n  invoice in default: {\"order\":1}\
         \n      not: another kind"
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
        (Box::new(|sent| sent.kind("parcel")), "another kind"),
        (Box::new(|sent| sent.queue("default")), "its queue is \"post\""),
        (Box::new(|sent| sent.priority(0)), "its priority is 3"),
        (Box::new(|sent| sent.header("region", "eu")), "it has no header region"),
        (Box::new(|sent| sent.due_now()), "it is due in 5s"),
        (Box::new(|sent| sent.json(&1)), "its payload is another one"),
        (Box::new(|sent| sent.json_with(&json!({ "to": { "name": "Bob" } }))), "payload.to.name is \"Ada\""),
        (Box::new(|sent| sent.json_with(&json!({ "to": { "zip": 1 } }))), "payload.to.zip is missing"),
        (Box::new(|sent| sent.command(|_: &Invoice| true)), "another kind"),
        (Box::new(|sent| sent.matching("a parcel", |_| false)), "not a parcel"),
    ];
    for (narrow, why) in cases {
        let text = says(&cx, |sent| _ = narrow(sent).once());
        assert!(text.contains(why), "{text}");
    }
    let text = says(&cx, |sent| sent.kind("letter").never());
    assert!(text.contains("expected 0 jobs of kind \"letter\", but 1 of 1 sent are"), "{text}");
    cx.send(Invoice { order: 1 }).unwrap();
    assert!(says(&cx, |sent| drop(sent.due_later().times(2))).contains("it is due at once"));
    assert!(says(&cx, |sent| _ = sent.command(|invoice: &Invoice| invoice.order > 1).once()).contains("says no"));
    cx.rollback().await.unwrap();
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
