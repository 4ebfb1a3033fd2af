use std::time::Duration;

use super::*;
use crate::broker::wire::{external, submission};
use crate::job::{Due, JobId, JobOptions, Limits, Submission, UniqueConflict, UniqueHold};

const UUID: &str = "0198c0de-0000-7000-8000-000000000001";

fn named() -> BasicProperties {
    BasicProperties::default().with_message_id(UUID.into()).with_type("send-invoice".into())
}

#[track_caller]
fn taken(message: &Incoming) -> Submission {
    submission(message, Limits { payload: 100, ..Limits::default() }).unwrap()
}

/// Makes a body with a content type; an empty one means none.
fn body(content_type: &str, body: impl Into<Vec<u8>>) -> Incoming {
    let properties = if content_type.is_empty() { named() } else { named().with_content_type(content_type.into()) };
    message(properties, &[], body)
}

#[test]
fn the_least_that_is_needed() {
    let Submission { message, .. } = taken(&body("", r#"{"order":42}"#));
    assert_eq!(message.id, UUID.parse().unwrap());
    assert!(message.id_given);
    assert_eq!((message.kind.as_str(), message.queue.as_str()), ("send-invoice", "default"));
    assert_eq!((message.priority, message.max_attempts, message.due), (0, 10, Due::Now));
    assert_eq!(message.payload, Payload::json_text(r#"{"order":42}"#).unwrap());
    assert!(message.headers.is_empty());
}

#[test]
fn submissions_of_a_jms_client_are_read() {
    let properties = BasicProperties::default()
        .with_content_type("application/octet-stream".into())
        .with_delivery_mode(2)
        .with_priority(4)
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into());
    let headers = [
        ("JMSMessageID", text(&format!("ID:{UUID}"))),
        ("JMSType", text("TextMessage")),
        ("JMSTimestamp", AMQPValue::LongLongInt(1_795_262_400_250)),
        ("JMSPriority", AMQPValue::LongInt(4)),
        ("JMSDeliveryMode", text("PERSISTENT")),
        ("JMSCorrelationID", text("c-1")),
        ("JMSXGroupID", text("customer-7")),
        ("jobKind", text("send-invoice")),
        ("queue", text("billing")),
        ("jobPriority", text("-7")),
        ("maxAttempts", AMQPValue::LongInt(3)),
        ("vip", AMQPValue::Boolean(true)),
        ("weight", AMQPValue::Double(1.5)),
    ];
    let Submission { message: taken, .. } = taken(&message(properties, &headers, "not JSON"));
    assert_eq!(taken.id, UUID.parse().unwrap());
    assert_eq!((taken.kind.as_str(), taken.queue.as_str()), ("send-invoice", "billing"));
    assert_eq!((taken.priority, taken.max_attempts), (-7, 3));
    assert_eq!(taken.payload, Payload::text("not JSON"));
    let kept: Vec<_> = taken.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(kept, ["correlationId=c-1", "replyTo=answers", "vip=true", "weight=1.5"]);
}

#[test]
fn the_id_is_found_where_it_may_be_in_this_order() {
    let id = |properties: BasicProperties, headers: &[(&str, AMQPValue)]| {
        let taken = taken(&message(properties.with_type("k".into()), headers, "1")).message;
        (taken.id, taken.headers.get("messageId").cloned())
    };
    let other = "0198c0de-0000-7000-8000-000000000002";
    let all = [("JMSMessageID", text("ID:jms")), ("submissionId", text(other))];
    let with_property = BasicProperties::default().with_message_id(UUID.into());
    assert_eq!(id(with_property, &all), (UUID.parse().unwrap(), None));
    assert_eq!(id(BasicProperties::default(), &all), (other.parse().unwrap(), None));
    let (jms, name) = id(BasicProperties::default(), &all[..1]);
    assert_eq!(name.as_deref(), Some("ID:jms"));
    // Pinned: producers rely on it across all versions.
    assert_eq!(jms.as_uuid().get_version_num(), 8);
    assert_eq!(jms, id(BasicProperties::default().with_message_id("jms".into()), &[]).0);
    assert_eq!(jms, PINNED.parse::<JobId>().unwrap());
}

/// The id of the text `jms`.
const PINNED: &str = "a40b7406-b844-8101-87e5-84705946b769";

#[test]
fn the_kind_is_found_where_it_may_be_in_this_order() {
    let kind = |properties: BasicProperties, headers: &[(&str, AMQPValue)]| {
        submission(&message(properties.with_message_id(UUID.into()), headers, "1"), Limits::default())
            .map(|taken| taken.message.kind)
    };
    let all = [("JMSType", text("d")), ("cloudEvents_type", text("c")), ("jobKind", text("a"))];
    let property = || BasicProperties::default().with_type("b".into());
    assert_eq!(kind(property(), &all).unwrap(), "a");
    assert_eq!(kind(property(), &all[..2]).unwrap(), "b");
    assert_eq!(kind(BasicProperties::default(), &all[..2]).unwrap(), "c");
    assert_eq!(kind(BasicProperties::default(), &all[..1]).unwrap(), "d");
    refused(kind(BasicProperties::default(), &[("JMSType", text("TextMessage"))]), "missing-kind");
    refused(kind(BasicProperties::default(), &[]), "missing-kind");
    refused(kind(property(), &[("jobKind", text(&"k".repeat(101)))]), "bad-kind");
    refused(kind(property(), &[("jobKind", text("a\0"))]), "bad-kind");
}

#[test]
fn bodies_have_their_stated_type_or_the_detected_one() {
    let json = || Payload::json_text("[1]").unwrap();
    for (content_type, content, expected) in [
        ("application/json; charset=UTF-8", &b"[1]"[..], json()),
        ("application/vnd.acme+json", b"[1]", json()),
        ("application/octet-stream", b"[1]", json()),
        ("", b"[1]", json()),
        ("", b"", Payload::text("")),
        ("application/octet-stream", b"hello", Payload::text("hello")),
        ("application/octet-stream", b"\"a\\u0000\"", Payload::text("\"a\\u0000\"")),
        ("application/octet-stream", b"\xff", Payload::bytes("application/octet-stream", b"\xff")),
        ("text/plain", b"[1]", Payload::bytes("text/plain", b"[1]")),
        ("image/png", b"\xff", Payload::bytes("image/png", b"\xff")),
    ] {
        let taken = taken(&body(content_type, content)).message;
        assert_eq!(taken.payload, expected, "{content_type}");
        let kept = taken.headers.get("contentType").map(String::as_str);
        assert_eq!(kept, content_type.contains("acme").then_some(content_type));
    }
}

#[test]
fn bodies_that_cannot_be_taken_are_refused() {
    let limits = Limits { payload: 100, ..Limits::default() };
    for (content_type, content, reason) in [
        ("application/json", &b"{"[..], "bad-json"),
        ("application/json", b"", "bad-json"),
        ("text/json", b"\"\xff\"", "bad-json"),
        ("application/json", b"\"a\\u0000\"", "bad-json"),
        ("application/json", b"1e999", "bad-json"),
        ("application/json", b"1e-16383", "bad-json"),
        ("application/x-java-serialized-object", b"x", "java-serialized"),
        ("application/octet-stream", b"\xac\xed\x00\x05t\x00\x01a", "java-serialized"),
        ("text/plain", &[b'x'; 101], "too-large"),
        ("text\0plain", b"x", "bad-content-type"),
    ] {
        refused(submission(&body(content_type, content), limits), reason);
    }
    let zipped = named().with_content_encoding("gzip".into());
    refused(submission(&message(zipped, &[], "x"), limits), "bad-encoding");
    let deep = "[".repeat(100_000);
    refused(submission(&body("application/json", deep), Limits::default()), "bad-json");
}

#[test]
fn when_it_may_run() {
    let due = |headers: &[(&str, AMQPValue)]| {
        submission(&message(named(), headers, "1"), Limits::default()).map(|taken| taken.message.due)
    };
    let moment = "2027-01-31T12:00:00Z".parse().unwrap();
    for (name, value, expected) in [
        ("delay", AMQPValue::LongInt(1500), Due::In(Duration::from_millis(1500))),
        ("delay", text("1500"), Due::In(Duration::from_millis(1500))),
        ("delay", text("PT1M30S"), Due::In(Duration::from_secs(90))),
        ("delay", AMQPValue::Void, Due::Now),
        ("dueAt", text("2027-01-31T13:00:00+01:00"), Due::At(moment)),
        ("dueAt", AMQPValue::Timestamp(1_801_396_800), Due::At(moment)),
        ("dueAt", text("1999-01-01T00:00:00Z"), Due::At("1999-01-01T00:00:00Z".parse().unwrap())),
    ] {
        assert_eq!(due(&[(name, value)]).unwrap(), expected, "{name}");
    }
    for (name, value) in [
        ("delay", AMQPValue::LongInt(-1)),
        ("delay", AMQPValue::LongLongInt(i64::MAX)),
        ("delay", text("soon")),
        ("delay", text(&"9".repeat(5000))),
        ("dueAt", text("tomorrow")),
        ("dueAt", text("9999-01-01T00:00:00Z")),
        ("dueAt", text("1969-01-01T00:00:00Z")),
    ] {
        refused(due(&[(name, value)]), "bad-due");
    }
    refused(due(&[("delay", AMQPValue::LongInt(1)), ("dueAt", text("2027-01-31T12:00:00Z"))]), "bad-due");
}

#[test]
fn groups_tenants_limit_keys_and_times_to_live_are_options() {
    let options = |properties, headers: &[(&str, AMQPValue)]| {
        let message = taken(&message(properties, headers, "1")).message;
        (message.options, message.headers.keys().cloned().collect::<Vec<_>>())
    };
    let group = |name: &str, ordered| JobOptions { group: Some(name.to_owned()), ordered, ..JobOptions::default() };
    assert_eq!(options(named(), &[("JMSXGroupID", text("j"))]), (group("j", false), vec![]));
    let both = [("JMSXGroupID", text("j")), ("groupId", text("g")), ("ordered", text("true"))];
    assert_eq!(options(named(), &both), (group("g", true), vec![]));
    assert_eq!(options(named(), &[("groupId", text("g")), ("ordered", AMQPValue::Boolean(true))]).0, group("g", true));
    assert_eq!(options(named(), &[("groupId", text("g")), ("ordered", text("false"))]).0, group("g", false));
    assert_eq!(
        options(named(), &[("groupId", text("")), ("ordered", AMQPValue::Void)]),
        (JobOptions::default(), vec![])
    );
    let named_so = [("tenant", text("acme")), ("limitKey", text("printer"))];
    let expected =
        JobOptions { tenant: Some("acme".to_owned()), limit_key: Some("printer".to_owned()), ..JobOptions::default() };
    assert_eq!(options(named(), &named_so), (expected, vec!["tenant".to_owned()]));
    let (mut found, headers) = options(named(), &[("uniqueKey", text("order-7"))]);
    let term = found.unique.take().unwrap();
    assert_eq!((found, headers), (JobOptions::default(), vec![]));
    assert_eq!((term.hold, term.conflict), (UniqueHold::Done, UniqueConflict::Keep));
    assert_eq!(options(named(), &[("uniqueKey", text(""))]).0, JobOptions::default());
    let expected = JobOptions { ttl: Some(Duration::from_secs(60)), ..JobOptions::default() };
    assert_eq!(options(named().with_expiration("60000".into()), &[]).0, expected);
}

#[test]
fn unreadable_submissions_are_refused() {
    let limits = Limits::default();
    let anonymous = BasicProperties::default().with_type("k".into());
    let unnamed = refused(submission(&message(anonymous.clone(), &[], "1"), limits), "missing-id");
    assert!(unnamed.contains("message_id"), "{unnamed}");
    refused(
        submission(&message(anonymous.clone(), &[("submissionId", text(&"i".repeat(256)))], "1"), limits),
        "bad-id",
    );
    refused(submission(&message(anonymous, &[("JMSMessageID", text("ID:"))], "1"), limits), "bad-id");
    for expiration in ["", "0", "-1", "1.5", "soon", "99999999999999999999", "9999999999999999"] {
        refused(submission(&message(named().with_expiration(expiration.into()), &[], "1"), limits), "expiration");
    }
    let late = message(named().with_expiration("1000".into()), &[("delay", text("1s"))], "1");
    refused(submission(&late, limits), "expiration");
    for (name, value, reason) in [
        ("queue", text("q\n"), "bad-queue"),
        ("queue", text("jobwright.reply"), "bad-queue"),
        ("queue", text("jobwright.event"), "bad-queue"),
        ("maxAttempts", AMQPValue::LongInt(0), "bad-header"),
        ("maxAttempts", text("many"), "bad-header"),
        ("maxAttempts", AMQPValue::LongLongInt(i64::MAX), "bad-header"),
        ("jobPriority", AMQPValue::LongInt(40_000), "bad-header"),
        ("ordered", text("true"), "bad-header"),
        ("ordered", text("yes"), "bad-header"),
        ("groupId", text(&"g".repeat(201)), "bad-header"),
        ("JMSXGroupID", text("a\nb"), "bad-header"),
        ("tenant", text(&"t".repeat(201)), "bad-header"),
        ("limitKey", text(" padded"), "bad-header"),
        ("uniqueKey", text(&"u".repeat(201)), "bad-header"),
        ("uniqueKey", text("a\nb"), "bad-header"),
        ("jobPriority", AMQPValue::LongInt(-32_768), "bad-header"),
        ("jobKind", AMQPValue::FieldTable(FieldTable::default()), "bad-header"),
        ("list", AMQPValue::FieldArray(vec![].into()), "bad-header"),
        ("bytes", AMQPValue::ByteArray(vec![1].into()), "bad-header"),
        ("latin1", AMQPValue::LongString(vec![0xe4].into()), "bad-header"),
        ("long", text(&"v".repeat(5000)), "bad-header"),
        ("nul", text("\0"), "bad-header"),
        ("replyTo", text(&"q".repeat(256)), "bad-header"),
        ("replyTo", text("amq.rabbitmq.reply-to"), "bad-header"),
        ("replyTo", text("amq.rabbitmq.reply-to.g1a"), "bad-header"),
        (" ", text("v"), "bad-header"),
    ] {
        refused(submission(&message(named(), &[(name, value)], "1"), limits), reason);
    }
    // As a property too. And if direct replies are on, addresses of waiting clients, which the broker has completed.
    let on = Limits { direct_reply: true, ..limits };
    let to = |queue: &str, limits| submission(&message(named().with_reply_to(queue.into()), &[], "1"), limits);
    assert!(refused(to("amq.rabbitmq.reply-to.g1a", limits), "bad-header").contains("broker.direct_reply"));
    assert!(to("amq.rabbitmq.reply-to.g1a", on).is_ok());
    for bad in ["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.", "amq.direct"] {
        refused(to(bad, on), "bad-header");
    }
    refused(submission(&message(named().with_user_id("a\0b".into()), &[], "1"), limits), "bad-header");
    let many: Vec<_> = (0..65).map(|n| format!("h{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), text("v"))).collect();
    refused(submission(&message(named(), &many, "1"), limits), "bad-header");
}

#[test]
fn the_digest_tells_messages_apart_and_ignores_how_they_came() {
    let base = || vec![("tenant", text("acme"))];
    let digest = |properties: BasicProperties, headers: &[(&str, AMQPValue)], body: &str| {
        taken(&message(properties, headers, body)).digest
    };
    let same = digest(named(), &base(), "[1]");
    let later = [
        ("tenant", text("acme")),
        ("traceparent", text("00-1-2-01")),
        ("JMSTimestamp", AMQPValue::LongLongInt(1)),
        ("x-delivery-count", AMQPValue::LongLongInt(2)),
        ("jobwright-reason", text("bad-json")),
    ];
    assert_eq!(digest(named().with_timestamp(5).with_delivery_mode(1), &later, "[1]"), same);
    let mut redelivered = message(named(), &base(), "[1]");
    redelivered.redelivered = true;
    assert_eq!(taken(&redelivered).digest, same);

    let mut seen = vec![same];
    let changed: [(BasicProperties, (&str, AMQPValue), &str); 15] = [
        (named(), ("tenant", text("acme")), "[2]"),
        (named(), ("tenant", text("other")), "[1]"),
        (named().with_type("other".into()), ("tenant", text("acme")), "[1]"),
        (named().with_priority(7), ("tenant", text("acme")), "[1]"),
        (named().with_content_type("text/plain".into()), ("tenant", text("acme")), "[1]"),
        (named().with_reply_to("answers".into()), ("tenant", text("acme")), "[1]"),
        (named(), ("queue", text("q")), "[1]"),
        (named(), ("delay", text("1s")), "[1]"),
        (named(), ("maxAttempts", text("2")), "[1]"),
        (named(), ("groupId", text("acme")), "[1]"),
        (named(), ("limitKey", text("acme")), "[1]"),
        (named(), ("uniqueKey", text("acme")), "[1]"),
        (named(), ("uniqueKey", text("other")), "[1]"),
        (named().with_expiration("1000".into()), ("tenant", text("acme")), "[1]"),
        (named().with_expiration("2000".into()), ("tenant", text("acme")), "[1]"),
    ];
    for (properties, header, body) in changed {
        let digest = digest(properties, &[header], body);
        assert!(!seen.contains(&digest));
        seen.push(digest);
    }
}

#[test]
fn our_own_messages_can_be_submitted() {
    let sent = external(&names(), job(&[("tenant", "acme"), ("correlationId", "c-1")]), &key());
    let Submission { message, .. } = taken(&arrived(&sent));
    assert_eq!((message.id, message.kind, message.queue), (job(&[]).id, job(&[]).kind, job(&[]).queue));
    assert_eq!(message.headers, job(&[("tenant", "acme"), ("correlationId", "c-1")]).headers);
    assert_eq!((message.priority, message.max_attempts), (0, 10));
    let mut asking = job(&[]);
    asking.options = JobOptions {
        group: Some("g".to_owned()),
        ordered: true,
        tenant: Some("acme".to_owned()),
        limit_key: Some("printer".to_owned()),
        ..JobOptions::default()
    };
    let Submission { message, .. } = taken(&arrived(&external(&names(), asking.clone(), &key())));
    assert_eq!(message.options, asking.options);
}
