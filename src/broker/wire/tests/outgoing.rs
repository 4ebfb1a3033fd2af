use super::*;
use crate::broker::wire::{ROWS, Reply, RowRef, dead, delivery, event, external, read_delivery, rejected, reply};
use crate::config::BrokerConfig;
use crate::job::{Fence, JobId};

fn pointed(kind: &str, version: i64) -> RowRef {
    RowRef { fence: Fence::new(JobId::new(), version), kind: kind.to_owned() }
}

#[test]
fn a_delivery_is_a_pointer_and_is_read_back() {
    let row = RowRef { fence: job(&[]).fence(), kind: "send-invoice".to_owned() };
    let sent = delivery(&names(), "billing", std::slice::from_ref(&row)).unwrap();
    assert_eq!((sent.exchange.as_str(), sent.routing_key.as_str()), ("", "jobwright.q.billing"));
    assert!(sent.mandatory && sent.body.is_empty());
    assert_eq!(sent.properties.delivery_mode(), &Some(2));
    assert_eq!(sent.properties.message_id().as_ref().unwrap().as_str(), row.fence.id.to_string());
    assert_eq!(sent.properties.kind().as_ref().unwrap().as_str(), "send-invoice");
    assert_eq!(read_delivery(&arrived(&sent)).unwrap(), [row]);
    // Whatever the database may hold must not end the program.
    let long = delivery(&names(), "billing", &[pointed(&"k".repeat(300), 0)]).unwrap();
    assert_eq!(read_delivery(&arrived(&long)).unwrap()[0].kind.len(), 300);
    assert!(delivery(&names(), "billing", &[]).is_none());
}

#[test]
fn a_delivery_of_several_rows_names_the_first_in_its_headers() {
    let kinds = ["print", "print", "draw \"quickly\"", "print", "\u{1}"];
    let rows: Vec<RowRef> = (0..ROWS).map(|n| pointed(kinds[n % kinds.len()], n as i64 % 3)).collect();
    let sent = delivery(&names(), "billing", &rows).unwrap();
    assert_eq!(read_delivery(&arrived(&sent)).unwrap(), rows);
    let single = delivery(&names(), "billing", &rows[..1]).unwrap();
    assert_eq!(sent.properties.headers(), single.properties.headers());
    assert_eq!(sent.properties.message_id(), single.properties.message_id());
    // The longest possible kinds.
    let long: Vec<RowRef> = (0..ROWS).map(|n| pointed(&format!("{n:0100}"), i64::from(i32::MAX))).collect();
    let sent = delivery(&names(), "billing", &long).unwrap();
    assert_eq!(read_delivery(&arrived(&sent)).unwrap(), long);
    assert!(sent.body.len() < 8 * 1024, "{}", sent.body.len());
}

#[test]
fn deliveries_that_are_none_are_refused() {
    let (id, version) = (text("0198c0de-0000-7000-8000-000000000001"), AMQPValue::LongLongInt(1));
    let kind = ("jobKind", text("k"));
    for (headers, reason) in [
        (vec![("version", version.clone()), kind.clone()], "missing-id"),
        (vec![("jobId", id.clone()), kind.clone()], "missing-version"),
        (vec![("jobId", id.clone()), ("version", version.clone())], "missing-kind"),
        (vec![("jobId", text("seven")), ("version", version.clone()), kind.clone()], "bad-id"),
        (vec![("jobId", id.clone()), ("version", text("x")), kind.clone()], "bad-header"),
        (vec![("jobId", AMQPValue::Double(1.0)), ("version", version.clone()), kind.clone()], "bad-id"),
    ] {
        refused(read_delivery(&message(BasicProperties::default(), &headers, "")), reason);
    }
    let long = vec![("jobId", id.clone()), ("version", version.clone()), ("jobKind", text(&"k".repeat(101)))];
    refused(read_delivery(&message(BasicProperties::default(), &long, "[]")), "bad-kind");
    let good = vec![("jobId", id), ("version", version), kind];
    let read = |body: &str| read_delivery(&message(BasicProperties::default(), &good, body));
    let other = "\"id\":\"0198c0de-0000-7000-8000-000000000002\"";
    for body in [
        "rubbish",
        "{}",
        "[1]",
        "[{}]",
        "[[]]",
        &format!("[{{{other}}}]"),
        "[{\"id\":\"two\",\"version\":1}]",
        &format!("[{{{other},\"version\":1.5}}]"),
        &format!("[{{{other},\"version\":9223372036854775808}}]"),
        &format!("[{{{other},\"version\":1,\"kind\":7}}]"),
        &format!("[{{{other},\"version\":1}}] and more"),
        &format!("[{}]", " ".repeat(64 * 1024)),
    ] {
        refused(read(body), "bad-rows");
    }
    let many = |rows: usize| format!("[{}]", vec![format!("{{{other},\"version\":1}}"); rows - 1].join(","));
    assert_eq!(read(&many(128)).unwrap().len(), 128);
    refused(read(&many(129)), "bad-rows");
    refused(read(&format!("[{{{other},\"version\":1,\"kind\":\"\"}}]")), "missing-kind");
    assert_eq!(read("[]").unwrap().len(), 1);
    // From a later version.
    let rows = read(&format!("[{{{other},\"version\":1,\"kind\":\"\\u006b2\",\"more\":{{}}}}]")).unwrap();
    assert_eq!(rows.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>(), ["k", "k2"]);
}

#[test]
fn an_external_worker_gets_the_whole_job() {
    let job =
        job(&[("tenant", "acme"), ("replyTo", "answers"), ("correlationId", "c-1"), ("groupId", "g"), ("JMSX", "no")]);
    let sent = external(&names(), job.clone(), &key());
    assert_eq!((sent.exchange.as_str(), sent.routing_key.as_str()), ("", "jobwright.x.billing"));
    assert!(sent.mandatory);
    assert_eq!(sent.body, br#"{"order":42}"#);
    let id = job.id.to_string();
    let expected = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(2)
        .with_priority(4)
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_message_id(id.as_str().into())
        .with_timestamp(1_795_262_400)
        .with_type("send-invoice".into())
        .with_app_id("jobwright".into())
        .with_headers(table(&[
            ("jobId", text(&id)),
            ("jobKind", text("send-invoice")),
            ("queue", text("billing")),
            ("attempt", AMQPValue::LongLongInt(2)),
            ("maxAttempts", AMQPValue::LongLongInt(10)),
            ("version", AMQPValue::LongLongInt(3)),
            ("reportToken", text("K7Ph4MwZxItN5iDdqQILig")),
            ("JMSType", text("TextMessage")),
            ("JMSMessageID", text(&format!("ID:{id}"))),
            ("JMSTimestamp", AMQPValue::LongLongInt(1_795_262_400_250)),
            ("tenant", text("acme")),
            ("replyTo", text("answers")),
            ("correlationId", text("c-1")),
            ("groupId", text("g")),
        ]));
    assert_eq!(sent.properties, expected);
}

#[test]
fn bytes_are_sent_as_they_are_and_only_text_says_utf8() {
    for (payload, encoding) in [
        (Payload::text("grüezi"), Some("utf-8")),
        (Payload::bytes("Text/Plain", [0xff]), None),
        (Payload::bytes("image/png", [1, 2]), None),
        (Payload::bytes("x".repeat(300), [1]), None),
    ] {
        let job = Job { payload, kind: "k".repeat(400), ..job(&[("replyTo", &"q".repeat(300))]) };
        let sent = external(&names(), job.clone(), &key());
        assert_eq!(sent.body, job.payload.as_bytes());
        assert_eq!(sent.properties.content_encoding().as_ref().map(lapin::types::ShortString::as_str), encoding);
        assert_eq!(sent.properties.reply_to(), &None);
    }
}

#[test]
fn events_go_to_the_exchange_by_kind() {
    let sent = event(&names(), job(&[]));
    assert_eq!(
        (sent.exchange.as_str(), sent.routing_key.as_str()),
        ("jobwright.event", "jobwright.event.send-invoice")
    );
    assert!(!sent.mandatory);
    assert_eq!((header(&sent, "version"), header(&sent, "reportToken")), (None, None));
}

fn to(config: &BrokerConfig, queue: &str) -> Result<Reply, &'static str> {
    reply(&names(), config, job(&[("replyTo", queue)]))
}

#[test]
fn a_reply_goes_where_the_job_says_but_never_to_us() {
    let config = BrokerConfig::default();
    let answer = job(&[("replyTo", "answers"), ("correlationId", "c-1"), ("jobId", "asked")]);
    let Ok(Reply::Queue(sent)) = reply(&names(), &config, answer) else { panic!("refused") };
    assert_eq!((sent.exchange.as_str(), sent.routing_key.as_str()), ("", "answers"));
    assert!(sent.mandatory);
    assert_eq!(sent.properties.correlation_id().as_ref().unwrap().as_str(), "c-1");
    assert_eq!(header(&sent, "jobId"), Some(&text("asked")));
    assert!(reply(&names(), &config, job(&[])).is_err());
    // Whatever the patterns allow.
    let all = BrokerConfig { reply_to: Some(vec!["*".to_owned()]), ..BrokerConfig::default() };
    for ours in ["jobwright.reply", "jobwright.submit", "jobwright.dead", "jobwright.q.default", "jobwright.x.a", ""] {
        assert!(to(&config, ours).is_err() && to(&all, ours).is_err(), "{ours}");
    }
    assert!(to(&all, &"q".repeat(256)).is_err());
}

#[test]
fn a_reply_reaches_no_other_installation_unless_it_is_allowed_to() {
    let open = BrokerConfig::default();
    for theirs in ["other.submit", "other.reply", "other.dead", "other.submit.rejected", "other.reply.rejected"] {
        assert_eq!(to(&open, theirs).unwrap_err(), "broker.reply_to does not allow it", "{theirs}");
    }
    let allowed = ["answers.*", "shop.reply"].map(str::to_owned).to_vec();
    let strict = BrokerConfig { reply_to: Some(allowed), ..BrokerConfig::default() };
    for good in ["answers.", "answers.7", "answers.reply", "shop.reply"] {
        assert!(matches!(to(&strict, good), Ok(Reply::Queue(_))), "{good}");
    }
    for bad in ["answers", "other", "shop.reply.2", "my.answers.7", "jobwright.submit"] {
        assert!(to(&strict, bad).is_err(), "{bad}");
    }
}

#[test]
fn names_that_the_broker_keeps_get_no_reply_except_those_of_waiting_clients_if_that_is_on() {
    let off = BrokerConfig { reply_to: Some(vec!["*".to_owned()]), ..BrokerConfig::default() };
    let on = BrokerConfig { direct_reply: true, ..off.clone() };
    let waiting = "amq.rabbitmq.reply-to.g1aGV";
    assert_eq!(to(&off, waiting).unwrap_err(), "broker.direct_reply is off");
    let Ok(Reply::Direct(sent)) = to(&on, waiting) else { panic!("not direct") };
    assert_eq!((sent.routing_key.as_str(), sent.mandatory), (waiting, false));
    for bad in ["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.", "amq.direct", "amq."] {
        assert_eq!(to(&on, bad).unwrap_err(), "it is a name that the broker keeps for itself", "{bad}");
    }
    // A queue without its own name gets one from the broker.
    assert!(matches!(to(&BrokerConfig::default(), "amq.gen-7"), Ok(Reply::Queue(_))));
    // Nor is it sent to an external worker as a property: the broker would end the channel.
    for bad in ["amq.rabbitmq.reply-to", waiting] {
        assert_eq!(external(&names(), job(&[("replyTo", bad)]), &key()).properties.reply_to(), &None);
    }
}

#[test]
fn refused_messages_are_passed_on_with_the_reason_and_stay() {
    let why = Refusal { reason: "bad-json", text: "ä".repeat(1000) };
    let came = message(
        BasicProperties::default()
            .with_expiration("1000".into())
            .with_user_id("app".into())
            .with_message_id("m-1".into())
            .with_type("kind".into())
            .with_delivery_mode(1),
        &[("tenant", text("acme")), ("CC", text("elsewhere"))],
        "{",
    );
    let sent = rejected(&names(), came.clone(), &why);
    assert_eq!((sent.exchange.as_str(), sent.routing_key.as_str()), ("", "jobwright.submit.rejected"));
    assert_eq!(sent.body, b"{");
    assert_eq!((sent.properties.expiration(), sent.properties.user_id()), (&None, &None));
    assert_eq!(sent.properties.delivery_mode(), &Some(2));
    assert_eq!(sent.properties.message_id().as_ref().unwrap().as_str(), "m-1");
    assert_eq!(header(&sent, "jobwright-reason"), Some(&text("bad-json")));
    assert_eq!(header(&sent, "jobwright-error"), Some(&text(&"ä".repeat(512))));
    assert_eq!(header(&sent, "jobwright-expiration"), Some(&text("1000")));
    assert_eq!(header(&sent, "jobwright-user-id"), Some(&text("app")));
    assert_eq!(header(&sent, "tenant"), Some(&text("acme")));
    assert_eq!(header(&sent, "CC"), None);
    let sent = dead(&names(), came, &why);
    assert_eq!((sent.exchange.as_str(), sent.routing_key.as_str()), ("jobwright.dead", "jobwright.dead"));
}
