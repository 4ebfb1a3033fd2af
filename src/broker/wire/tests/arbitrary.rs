//! Arbitrary input gives a value or a refusal, and messages passed on fit into AMQP's limits.

use lapin::types::{DecimalValue, ShortString};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::broker::wire::{ROWS, RowRef, dead, delivery, external, read_delivery, rejected, report, submission};
use crate::job::{Fence, Limits};

const NAMES: &[&str] = &[
    "jobId",
    "version",
    "reportToken",
    "jobKind",
    "jobPriority",
    "queue",
    "delay",
    "dueAt",
    "maxAttempts",
    "submissionId",
    "JMSType",
    "JMSMessageID",
    "JMSXGroupID",
    "groupId",
    "ordered",
    "tenant",
    "limitKey",
    "uniqueKey",
    "JMSCorrelationID",
    "cloudEvents_type",
    "replyTo",
    "correlationId",
    "status",
    "error",
    "detail",
    "retry",
    "retryAfter",
    "lease",
    "x-death",
    "CC",
    "traceparent",
];
const WORDS: &[&str] = &[
    "",
    "done",
    "failed",
    "extend",
    "never",
    "after",
    "1",
    "-1",
    "5s",
    "PT1M",
    "ID:",
    "TextMessage",
    "utf-8",
    "application/json",
    "application/octet-stream",
    "0198c0de-0000-7000-8000-000000000001",
    "2027-01-31T12:00:00Z",
    "99999999999999999999",
    "-9999-01-01T00:00:00Z",
    "P9999999999D",
    "\0",
    "ä",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![3 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,60}"]
}

fn short() -> impl Strategy<Value = ShortString> {
    word().prop_map(|text| ShortString::try_new(text).unwrap_or_default())
}

fn value() -> impl Strategy<Value = AMQPValue> {
    let leaf = prop_oneof![
        4 => word().prop_map(|text| AMQPValue::LongString(text.into())),
        1 => vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::LongString(bytes.into())),
        1 => vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::ByteArray(bytes.into())),
        1 => any::<bool>().prop_map(AMQPValue::Boolean),
        1 => any::<i8>().prop_map(AMQPValue::ShortShortInt),
        1 => any::<u32>().prop_map(AMQPValue::LongUInt),
        2 => any::<i64>().prop_map(AMQPValue::LongLongInt),
        1 => any::<u64>().prop_map(AMQPValue::Timestamp),
        1 => any::<f64>().prop_map(AMQPValue::Double),
        1 => any::<u32>().prop_map(|value| AMQPValue::DecimalValue(DecimalValue { scale: 2, value })),
        1 => Just(AMQPValue::Void),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|values| AMQPValue::FieldArray(values.into())),
            btree_map(short(), inner, 0..5).prop_map(|values| AMQPValue::FieldTable(values.into())),
        ]
    })
}

fn properties() -> impl Strategy<Value = BasicProperties> {
    let name = prop_oneof![4 => prop::sample::select(NAMES).prop_map(ShortString::from), 1 => short()];
    let headers = btree_map(name, value(), 0..12);
    let texts = vec(proptest::option::of(short()), 9);
    (headers, texts, any::<Option<u8>>(), any::<Option<u64>>()).prop_map(|(headers, texts, priority, timestamp)| {
        let mut properties = BasicProperties::default().with_headers(headers.into());
        let set: [fn(BasicProperties, ShortString) -> BasicProperties; 9] = [
            BasicProperties::with_content_type,
            BasicProperties::with_content_encoding,
            BasicProperties::with_correlation_id,
            BasicProperties::with_reply_to,
            BasicProperties::with_expiration,
            BasicProperties::with_message_id,
            BasicProperties::with_type,
            BasicProperties::with_user_id,
            BasicProperties::with_app_id,
        ];
        for (set, text) in set.into_iter().zip(texts) {
            if let Some(text) = text {
                properties = set(properties, text);
            }
        }
        if let Some(priority) = priority {
            properties = properties.with_priority(priority);
        }
        if let Some(timestamp) = timestamp {
            properties = properties.with_timestamp(timestamp);
        }
        properties
    })
}

/// Generates properties of messages that are taken in.
fn good() -> impl Strategy<Value = BasicProperties> {
    let id = "[a-zA-Z0-9:/-]{1,40}[a-z]";
    (id, "[a-z-]{1,20}", "[a-z]{0,10}", btree_map("h[a-z]{1,8}", "[^\0]{0,40}", 0..6), any::<Option<u8>>()).prop_map(
        |(id, kind, correlation, own, priority)| {
            let headers: BTreeMap<ShortString, AMQPValue> =
                own.into_iter().map(|(name, value)| (name.into(), text(&value))).collect();
            let properties = BasicProperties::default()
                .with_message_id(id.into())
                .with_type(kind.into())
                .with_correlation_id(correlation.into())
                .with_headers(headers.into());
            match priority {
                Some(priority) => properties.with_priority(priority),
                None => properties,
            }
        },
    )
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..80), word().prop_map(String::into_bytes), Just(b"{\"a\":[1,2]}".to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoders_never_panic(properties in properties(), body in body()) {
        let message = incoming(properties, body);
        let limits = Limits { payload: 60, ..Limits::default() };
        let refusals = [
            read_delivery(&message).err(),
            report(&message, limits, None).err(),
            report(&message, limits, Some(&key())).err(),
            submission(&message, limits).err(),
        ];
        for why in refusals.into_iter().flatten() {
            prop_assert!(!why.reason.is_empty() && !why.text.is_empty() && why.text.len() < 2000, "{why:?}");
            for sent in [rejected(&names(), message.clone(), &why), dead(&names(), message.clone(), &why)] {
                prop_assert_eq!(&sent.body, &message.body);
                prop_assert!(sent.properties.expiration().is_none() && sent.properties.user_id().is_none());
            }
        }
        if let Ok(taken) = submission(&message, limits) {
            // The same message is always the same job.
            let again = submission(&message, limits).unwrap();
            prop_assert_eq!((again.message.id, again.digest), (taken.message.id, taken.digest));
        }
    }

    #[test]
    fn rejected_messages_can_be_submitted_again(properties in good(), body in body()) {
        let message = incoming(properties, body);
        let taken = submission(&message, Limits::default()).unwrap();
        let why = Refusal::conflict(taken.message.id);
        let again = submission(&arrived(&rejected(&names(), message.clone(), &why)), Limits::default()).unwrap();
        prop_assert_eq!((again.message.id, again.digest), (taken.message.id, taken.digest));
    }

    #[test]
    fn any_rows_can_be_delivered(rows in vec((any::<u128>(), any::<i64>(), ".{1,25}"), 1..=ROWS)) {
        let pointed = |(id, version, kind)| {
            RowRef { fence: Fence::new(uuid::Uuid::from_u128(id).into(), version), kind }
        };
        let rows: Vec<RowRef> = rows.into_iter().map(pointed).collect();
        let sent = delivery(&names(), "billing", &rows).unwrap();
        prop_assert_eq!(read_delivery(&arrived(&sent)).unwrap(), rows);
    }

    #[test]
    fn any_job_can_be_published(
        kind in ".{0,300}",
        own in btree_map(".{0,300}", ".{0,60}", 0..5),
        content_type in ".{0,300}",
        (priority, attempt, version) in (any::<i16>(), any::<u32>(), any::<i64>()),
        bytes in vec(any::<u8>(), 0..60),
    ) {
        let payload = Payload::bytes(content_type, bytes);
        let job = Job { kind, priority, attempt, version, payload, headers: own, ..job(&[]) };
        let sent = external(&names(), job.clone(), &key());
        prop_assert!((1..=9).contains(&sent.properties.priority().unwrap()));
        // Read as an executor would, if it received this message.
        let headers_alone = Incoming { body: Vec::new(), ..arrived(&sent) };
        let fences = read_delivery(&headers_alone).map(|rows| rows.iter().map(|row| row.fence).collect::<Vec<_>>());
        prop_assert_eq!(fences.ok(), (!job.kind.is_empty()).then(|| vec![job.fence()]));
    }
}
