//! The wire contract (broker/README.md) from end to end, as any client of AMQP sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use jobwright::{NewJob, Payload};
use lapin::types::AMQPValue::{self, Boolean, Double, LongInt, LongLongInt};
use lapin::types::ShortString;
use lapin::{BasicProperties, message::Delivery};
use serde_json::json;

use crate::interop::broker::{Broker, text, texts};
use crate::interop::site::{HERE, Site, THERE};
use crate::support::environment::{PATIENCE, World as _};
use crate::support::{amqp_url, eventually};

type Headers = BTreeMap<String, AMQPValue>;

fn headers(message: &Delivery) -> Headers {
    let table = message.properties.headers().as_ref().unwrap();
    table.inner().iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// Checks everything a worker of any language gets: each property, each header, and the type of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handed_out_job_looks_as_documented() {
    let Some(url) = amqp_url() else { return };
    let broker = Broker::connect(url).await;
    let site = Site::set(&broker).await;
    let node = site.hands_out(Duration::from_secs(300)).await;
    let mut messages = broker.consume(&broker.names.external(THERE)).await;
    let mut next = async || tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap().unwrap();

    let job = NewJob::json("print", &json!({ "order": 42 })).queue(THERE).max_attempts(3).reply_to("answers", "c-1");
    let job = job.tenant("Zürich").exclusive("customer-7").header("groupId", "not this one");
    // Headers whose names belong to the broker, to JMS or to this library are not passed on.
    let job = job.header("x-match", "any").header("JMSXGroupID", "no").header("CC", "elsewhere").header("version", "7");
    let job = job.header("reportToken", "mine");
    let before = jiff::Timestamp::now();
    let id = site.messages.send(job).await.unwrap().to_string();
    let message = next().await;
    assert_eq!((message.exchange.as_str(), message.routing_key.to_string()), ("", broker.names.external(THERE)));
    assert_eq!(message.data, br#"{"order": 42}"#);
    let Some(LongLongInt(sent)) = headers(&message).get("JMSTimestamp").cloned() else { panic!("no JMSTimestamp") };
    let age = sent - before.as_millisecond();
    // Two clocks: the database's, and this one.
    assert!((-60_000..60_000).contains(&age), "{age} ms");
    let expected = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(2)
        .with_priority(4)
        .with_message_id(id.as_str().into())
        .with_type("print".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_timestamp(u64::try_from(sent / 1000).unwrap())
        .with_app_id("jobwright".into());
    let expected = expected.with_headers(message.properties.headers().clone().unwrap());
    assert_eq!(message.properties, expected);
    let version = headers(&message)["version"].clone();
    assert!(matches!(version, LongLongInt(token) if (1..1 << 53).contains(&token)), "{version:?}");
    let token = headers(&message)["reportToken"].clone();
    assert!(token.as_long_string().is_some_and(|token| token.len() == 22), "{token:?}");
    let told: Headers = [
        ("jobId", text(&id)),
        ("jobKind", text("print")),
        ("queue", text(THERE)),
        ("version", version),
        ("reportToken", token),
        ("attempt", LongLongInt(1)),
        ("maxAttempts", LongLongInt(3)),
        ("JMSType", text("TextMessage")),
        ("JMSMessageID", text(&format!("ID:{id}"))),
        ("JMSTimestamp", LongLongInt(sent)),
        ("tenant", text("Zürich")),
        ("groupId", text("customer-7")),
        ("replyTo", text("answers")),
        ("correlationId", text("c-1")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(headers(&message), told);

    // Fields that depend on the payload and the priority.
    let bytes = [0xff, 0x00];
    for (payload, priority, content_type, encoding, on_wire) in [
        (Payload::text("Grüezi"), 1, "text/plain; charset=utf-8", Some("utf-8"), 5),
        (Payload::bytes("image/png", bytes), 100, "image/png", None, 9),
        (Payload::bytes("text/plain", bytes), -100, "text/plain", None, 1),
    ] {
        let body = payload.as_bytes().to_vec();
        let job = NewJob::new("print", payload).queue(THERE).priority(priority);
        site.messages.send(job).await.unwrap();
        let message = next().await;
        let properties = &message.properties;
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), content_type);
        assert_eq!(properties.content_encoding().as_ref().map(ShortString::as_str), encoding);
        assert_eq!(*properties.priority(), Some(on_wire));
        assert_eq!((properties.correlation_id(), properties.reply_to()), (&None, &None));
        assert_eq!(headers(&message)["JMSType"], text("TextMessage"));
        assert_eq!(message.data, body);
    }
    assert_eq!(node.shutdown(PATIENCE).await.unwrap().handed_out, 4);
    drop(site);
    broker.clear().await;
}

/// The message is as `RabbitMQ`'s JMS client writes a `TextMessage`: an id in a header, and no content type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jms_text_message_is_taken_in_and_run() {
    let Some(url) = amqp_url() else { return };
    let broker = Broker::connect(url).await;
    let site = Site::set(&broker).await;
    let node = site.runs("send-invoice").await;
    let id = "0198c0de-0000-7000-8000-000000000001";
    let jms = |id: &str, kind: (&str, &str)| {
        let mut table = texts(&[
            kind,
            ("JMSMessageID", &format!("ID:{id}")),
            ("JMSDeliveryMode", "PERSISTENT"),
            ("JMSCorrelationID", "c-1"),
            ("JMSXGroupID", "customer-7"),
            ("queue", HERE),
            ("sender", "jms"),
            ("jobPriority", "-7"),
        ]);
        for (name, value) in [
            ("JMSTimestamp", LongLongInt(1_795_262_400_250)),
            ("JMSPriority", LongInt(4)),
            ("vip", Boolean(true)),
            ("weight", Double(1.5)),
        ] {
            table.insert(name.into(), value);
        }
        BasicProperties::default()
            .with_content_type("application/octet-stream".into())
            .with_delivery_mode(2)
            .with_priority(4)
            .with_correlation_id("c-1".into())
            .with_headers(table)
    };
    let submit = broker.names.submit();
    // The kind may be the JMS type, unless the client uses that field itself.
    let sends = [
        (jms(id, ("JMSType", "send-invoice")), r#"{"order":42}"#),
        (jms(id, ("JMSType", "send-invoice")), r#"{"order":42}"#),
        (jms("4711", ("jobKind", "send-invoice")), "no JSON"),
    ];
    for (properties, body) in sends {
        broker.publish((String::new(), submit.clone(), properties, body.into())).await;
    }
    let expected = BTreeMap::from([(r#"jms  {"order": 42}"#.to_owned(), 1), ("jms ID:4711 no JSON".to_owned(), 1)]);
    eventually(PATIENCE, async || site.db.ledger().await == expected).await;
    site.db.drained().await;

    // Its headers are kept: this shows on a job that waits, because no handler knows its kind.
    let waiting = "0198c0de-0000-7000-8000-000000000002";
    broker.publish((String::new(), submit, jms(waiting, ("JMSType", "unknown")), b"text".into())).await;
    let id = waiting.parse().unwrap();
    site.db.reaches(id, jobwright::admin::JobState::Waiting).await;
    let detail = crate::support::TestDb::jobs(&site.db).detail(id).await;
    assert_eq!((detail.summary.kind.as_str(), detail.summary.priority), ("unknown", -7));
    assert_eq!(detail.payload, Payload::text("text"));
    assert_eq!(detail.options.group.as_deref(), Some("customer-7"));
    let kept = ["correlationId=c-1", "sender=jms", "vip=true", "weight=1.5"];
    let headers: Vec<_> = detail.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(headers, kept);
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.submitted, stats.messages_refused), (3, 0));
    drop(site);
    broker.clear().await;
}
