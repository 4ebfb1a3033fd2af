//! Unusable messages, from end to end: they are kept as rejected with the documented reason, and those behind them go on.

use std::collections::BTreeMap;

use jobwright::internal::Fence;
use jobwright::internal::wire_testing;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::interop::broker::{Broker, text};
use crate::interop::site::{HERE, Site, THERE};
use crate::support::environment::{PATIENCE, World as _};
use crate::support::{TestDb as _, amqp_url, eventually};

/// The reason of the rejection, and the properties, headers and body of the message.
type Case = (&'static str, BasicProperties, Vec<(&'static str, AMQPValue)>, Vec<u8>);

const UUID: &str = "0198c0de-0000-7000-8000-000000000001";

/// Returns a valid submission, which each case changes.
fn good() -> BasicProperties {
    BasicProperties::default().with_message_id("order-1".into()).with_type("send-invoice".into())
}

fn bad_submissions() -> Vec<Case> {
    let typed = |content_type: &str| good().with_content_type(content_type.into());
    let header = |name, value| vec![(name, value)];
    let unnamed = || BasicProperties::default().with_type("send-invoice".into());
    let unkind = || BasicProperties::default().with_message_id("order-1".into());
    let many = (0..65).map(|n| (&*format!("h{n}").leak(), text("v"))).collect();
    vec![
        ("missing-id", unnamed(), vec![], b"1".into()),
        ("bad-id", unnamed(), header("submissionId", text(&"i".repeat(256))), b"1".into()),
        ("bad-id", unnamed(), header("submissionId", text("a\0")), b"1".into()),
        ("missing-kind", unkind(), vec![], b"1".into()),
        ("missing-kind", unkind(), header("JMSType", text("TextMessage")), b"1".into()),
        ("bad-kind", unkind(), header("jobKind", text(&"k".repeat(101))), b"1".into()),
        ("bad-kind", unkind(), header("jobKind", text(" k")), b"1".into()),
        ("bad-queue", good(), header("queue", text("q\n")), b"1".into()),
        ("bad-queue", good(), header("queue", text("jobwright.reply")), b"1".into()),
        ("bad-header", good(), header("maxAttempts", text("many")), b"1".into()),
        ("bad-header", good(), header("jobPriority", AMQPValue::LongInt(40_000)), b"1".into()),
        ("bad-header", good(), header("latin1", AMQPValue::LongString(vec![0xe4].into())), b"1".into()),
        ("bad-header", good(), header("long", text(&"v".repeat(5000))), b"1".into()),
        ("bad-header", good(), header("list", AMQPValue::FieldArray(vec![].into())), b"1".into()),
        ("bad-header", good(), many, b"1".into()),
        ("bad-due", good(), header("delay", text("soon")), b"1".into()),
        ("bad-due", good(), header("dueAt", text("1969-01-01T00:00:00Z")), b"1".into()),
        ("bad-due", good(), vec![("delay", text("1s")), ("dueAt", text("2027-01-31T12:00:00Z"))], b"1".into()),
        ("bad-json", typed("application/json"), vec![], b"{".into()),
        ("bad-json", typed("application/json"), vec![], b"\"\xff\"".into()),
        ("bad-json", typed("application/json"), vec![], br#""a\u0000""#.into()),
        ("bad-content-type", typed("text\0plain"), vec![], b"x".into()),
        ("bad-encoding", good().with_content_encoding("gzip".into()), vec![], b"x".into()),
        ("java-serialized", typed("application/octet-stream"), vec![], b"\xac\xed\x00\x05t\x00\x01a".into()),
        ("java-serialized", typed("application/x-java-serialized-object"), vec![], b"x".into()),
        ("too-large", typed("text/plain"), vec![], vec![b'x'; 1024 * 1024 + 1]),
        ("expiration", good().with_expiration("60000".into()), vec![("delay", text("60s"))], b"1".into()),
        ("conflict", good().with_message_id("taken".into()), vec![], b"2".into()),
        ("not-stored", good().with_type("forbidden".into()), vec![], b"1".into()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bad_submission_is_rejected_with_its_reason_and_good_ones_go_on() {
    let Some(url) = amqp_url() else { return };
    let broker = Broker::connect(url).await;
    let site = Site::set(&broker).await;
    // A constraint that only the database knows.
    site.db.raw("alter table {schema}.job add constraint no check (kind <> 'forbidden')").await;
    let node = site.runs("send-invoice").await;
    site.submits("taken").await;
    eventually(PATIENCE, async || site.db.ledger().await.len() == 1).await;

    let cases = bad_submissions();
    let bodies = publish(&broker, &broker.names.submit(), &cases).await;
    site.submits("last").await;
    let refused = broker.take(&broker.names.rejected(), cases.len()).await;
    same(&reasons(&refused), &cases);
    for (properties, body) in &refused {
        assert_eq!(body, &bodies[&case(properties)], "the body is as it came");
        assert_eq!(properties.expiration(), &None, "it must stay until somebody has looked");
    }
    eventually(PATIENCE, async || site.db.ledger().await.len() == 2).await;
    site.db.drained().await;
    assert!(site.db.ledger().await.contains_key("test last null"));
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.submitted, stats.messages_refused), (2, cases.len() as u64));
    for queue in [broker.names.submit(), broker.names.dead(), broker.names.rejected()] {
        assert_eq!(broker.waiting(&queue).await, 0, "{queue}");
    }
    drop(site);
    broker.clear().await;
}

fn bad_reports(token: &str) -> Vec<Case> {
    let json = || BasicProperties::default().with_content_type("application/json".into());
    let about = |more: &[(&'static str, &str)]| {
        let mut headers =
            vec![("jobId", text(UUID)), ("version", AMQPValue::LongLongInt(1)), ("reportToken", text(token))];
        headers.extend(more.iter().map(|(name, value)| (*name, text(value))));
        headers
    };
    vec![
        ("missing-id", json(), vec![("status", text("done"))], vec![]),
        ("bad-id", json(), vec![("jobId", text("4711")), ("version", text("1")), ("status", text("done"))], vec![]),
        ("missing-version", json(), vec![("jobId", text(UUID)), ("status", text("done"))], vec![]),
        ("bad-token", json(), vec![("jobId", text(UUID)), ("version", text("1")), ("status", text("done"))], vec![]),
        ("bad-token", json(), about(&[("status", "done"), ("reportToken", &"A".repeat(22))]), vec![]),
        ("bad-token", json(), about(&[("status", "done"), ("version", "2")]), vec![]),
        ("bad-status", json(), about(&[]), vec![]),
        ("bad-status", json(), about(&[("status", "finished")]), vec![]),
        ("bad-header", json(), about(&[("status", "failed"), ("retry", "after")]), vec![]),
        ("bad-header", json(), about(&[("status", "extend"), ("lease", "8d")]), vec![]),
        ("bad-json", json(), about(&[("status", "done")]), b"{".into()),
        ("bad-encoding", json().with_content_encoding("gzip".into()), about(&[("status", "done")]), b"1".into()),
        ("java-serialized", json(), about(&[("status", "done")]), b"\xac\xed\x00\x05t".into()),
        ("too-large", json(), about(&[("status", "done")]), vec![b'1'; 1024 * 1024 + 1]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bad_report_is_kept_aside_and_good_ones_go_on() {
    let Some(url) = amqp_url() else { return };
    let broker = Broker::connect(url).await;
    let site = Site::set(&broker).await;
    let node = site.hands_out(std::time::Duration::from_secs(300)).await;
    let key = site.db.jobs().report_key().await.unwrap();
    let token = wire_testing::report_token(&key, Fence::new(UUID.parse().unwrap(), 1));
    let cases = bad_reports(&token);
    publish(&broker, &broker.names.reply(), &cases).await;
    // A valid report, on a job that does not exist.
    let headers = FieldTable::from(BTreeMap::from([
        ("jobId".into(), text(UUID)),
        ("version".into(), text("1")),
        ("reportToken".into(), text(&token)),
        ("status".into(), text("done")),
    ]));
    let good = BasicProperties::default().with_headers(headers);
    broker.publish((String::new(), broker.names.reply(), good, vec![])).await;
    let refused = broker.take(&broker.names.rejected_reports(), cases.len()).await;
    same(&reasons(&refused), &cases);
    eventually(PATIENCE, async || node.stats().reports_refused == 1).await;
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.reported, stats.messages_refused), (0, cases.len() as u64));
    assert_eq!(broker.waiting(&broker.names.reply()).await, 0);
    drop(site);
    broker.clear().await;
}

/// Publishes each with its number in a header, and returns the bodies.
async fn publish(broker: &Broker, queue: &str, cases: &[Case]) -> BTreeMap<usize, Vec<u8>> {
    for (n, (_, properties, headers, body)) in cases.iter().enumerate() {
        let mut table: BTreeMap<_, _> = [("jobwright-case".into(), text(&n.to_string()))].into();
        let queue_header = if queue == broker.names.submit() { HERE } else { THERE };
        table.insert("queue".into(), text(queue_header));
        table.extend(headers.iter().map(|(name, value)| ((*name).into(), value.clone())));
        let properties = properties.clone().with_headers(table.into());
        broker.publish((String::new(), queue.to_owned(), properties, body.clone())).await;
    }
    cases.iter().enumerate().map(|(n, (.., body))| (n, body.clone())).collect()
}

fn header(properties: &BasicProperties, name: &str) -> String {
    let table = properties.headers().as_ref().unwrap().inner();
    table[name].as_long_string().unwrap().to_string()
}

fn case(properties: &BasicProperties) -> usize {
    header(properties, "jobwright-case").parse().unwrap()
}

/// Returns the reason of each, by its number. Each also has a sentence for people.
fn reasons(refused: &[(BasicProperties, Vec<u8>)]) -> BTreeMap<usize, String> {
    refused
        .iter()
        .map(|(properties, _)| {
            let why = header(properties, "jobwright-error");
            assert!(why.len() > 20 && why.len() <= 1024, "{why}");
            (case(properties), header(properties, "jobwright-reason"))
        })
        .collect()
}

fn same(reasons: &BTreeMap<usize, String>, cases: &[Case]) {
    let expected: BTreeMap<_, _> =
        cases.iter().enumerate().map(|(n, (reason, ..))| (n, (*reason).to_owned())).collect();
    assert_eq!(reasons, &expected);
}
