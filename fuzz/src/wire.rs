//! Messages of the broker, starting with the frames.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::basic::{gen_properties, parse_properties};
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable};
use jobwright::JobId;
use jobwright::internal::Fence;
use jobwright::internal::Names;
use jobwright::internal::engine::testing;
use jobwright::internal::wire_testing::{self, Refused};
use lapin::BasicProperties;

/// The default of `database.max_payload`, which the codec of the tests has.
const LARGEST: usize = 1024 * 1024;
/// The depth at which the parser stops reading (ADR 56), and the value itself.
const DEEPEST: usize = 33;

/// Checks the bytes of a connection as the client reads them: a frame, and the next one behind it.
pub(crate) fn frames(input: &[u8]) {
    let mut rest = input;
    while let Ok((left, frame)) = parse_frame(rest) {
        assert!(left.len() < rest.len(), "a frame of no length");
        if let AMQPFrame::Header(_, header) = &frame {
            nowhere_deep(&header.properties);
            let message = header.properties.clone();
            let _ = wire_testing::submission(message.clone(), left.to_vec());
            let _ = wire_testing::report(message.clone(), left.to_vec());
            let _ = wire_testing::delivery(message, left.to_vec());
        }
        rest = left;
    }
}

/// Parses properties, then the body.
fn message(input: &[u8]) -> Option<(BasicProperties, Vec<u8>)> {
    let (body, properties) = parse_properties(input).ok()?;
    nowhere_deep(&properties);
    Some((properties, body.to_vec()))
}

/// Values that are cloned and dropped recursively must not be deeper than a small stack allows.
fn nowhere_deep(properties: &BasicProperties) {
    for value in properties.headers().iter().flat_map(|table| table.inner().values()) {
        assert!(depth(value) <= DEEPEST, "{} levels", depth(value));
    }
}

fn depth(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::FieldArray(array) => 1 + array.as_slice().iter().map(depth).max().unwrap_or(0),
        AMQPValue::FieldTable(table) => 1 + table.inner().values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

pub(crate) fn submission(input: &[u8]) {
    let Some((properties, body)) = message(input) else { return };
    match wire_testing::submission(properties.clone(), body.clone()) {
        Ok(taken) => {
            let (kind, payload) = (&taken.message.kind, &taken.message.payload);
            assert!(!kind.is_empty() && kind.len() <= 100, "{kind:?}");
            assert!(payload.as_bytes().len() <= LARGEST);
            assert!(taken.message.headers.iter().all(|(name, value)| !name.contains('\0') && !value.contains('\0')));
            let again = wire_testing::submission(properties, body).expect("what was taken once is taken again");
            assert_eq!(again.digest, taken.digest, "what is sent twice is known again");
        }
        Err(refused) => readable(&refused),
    }
}

pub(crate) fn report(input: &[u8]) {
    let Some((properties, body)) = message(input) else { return };
    match wire_testing::report(properties, body) {
        Ok(report) => assert!(report.result.is_none_or(|result| result.as_bytes().len() <= LARGEST)),
        Err(refused) => readable(&refused),
    }
}

/// Reading returns what the writer named: a message is written and read again, if it is no larger than one of ours.
pub(crate) fn delivery(input: &[u8]) {
    let Some((properties, body)) = message(input) else { return };
    match wire_testing::delivery(properties, body) {
        Ok(rows) => {
            assert!(!rows.is_empty() && rows.iter().all(|(_, kind)| !kind.is_empty()));
            let names = Names::new("jobwright");
            let (_, _, properties, body) = wire_testing::delivery_of(&names, "q", &rows).expect("there are rows");
            assert_eq!(wire_testing::delivery(properties, body).expect("what we write can be read"), rows);
        }
        Err(refused) => readable(&refused),
    }
}

/// External input is passed on to an external worker: any client must be able to read what is written.
pub(crate) fn envelope(input: &[u8]) {
    let Some((properties, body)) = message(input) else { return };
    let Ok(taken) = wire_testing::submission(properties, body) else { return };
    let job = testing::job(taken.message, 1, 7, 2, jiff::Timestamp::UNIX_EPOCH);
    let names = Names::new("jobwright");
    let (_, routing_key, properties, body) = wire_testing::external(&names, &job);
    assert!(routing_key.len() <= 255, "a routing key is a short string: {routing_key:?}");
    assert_eq!(body, job.payload.as_bytes());
    let written = bytes(&properties);
    let (rest, read) = parse_properties(&written[..]).expect("what we write can be read");
    assert!(rest.is_empty());
    assert_eq!(read, properties);
}

/// Asserts that a refusal has a word for programs and a text for people, whatever was sent.
fn readable((word, text): &Refused) {
    assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{word:?}");
    assert!(!text.is_empty() && text.len() < 4096, "{} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fn bytes(properties: &BasicProperties) -> Vec<u8> {
    let mut written = gen_properties(properties)(WriteContext::from(Vec::new())).expect("it can be written");
    std::mem::take(&mut written.write)
}

/// Returns headers of every type.
fn headers(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

pub(crate) fn submission_seeds() -> Vec<Vec<u8>> {
    let mut nested = AMQPValue::Boolean(true);
    for _ in 0..40 {
        nested = AMQPValue::FieldArray(FieldArray::from(vec![nested]));
    }
    let plain =
        || BasicProperties::default().with_type("send-invoice".into()).with_content_type("application/json".into());
    let all = headers(&[
        ("jobKind", text("print")),
        ("jobQueue", text("printing")),
        ("priority", AMQPValue::ShortInt(7)),
        ("maxAttempts", AMQPValue::LongInt(3)),
        ("delay", text("PT5M")),
        ("dueAt", AMQPValue::Timestamp(1_800_000_000)),
        ("group", text("acme")),
        ("ordered", AMQPValue::Boolean(true)),
        ("tenant", text("acme")),
        ("replyTo", text("answers")),
        ("unique", text("key")),
        ("x-deep", nested),
    ]);
    let id = JobId::new().to_string();
    [
        (plain(), &b"{\"order\":42}"[..]),
        (plain().with_headers(all), b"[1,2,3]"),
        (plain().with_message_id(id.as_str().into()).with_priority(9).with_expiration("60000".into()), b"null"),
        (plain().with_reply_to("answers".into()).with_correlation_id("7".into()), b"\"x\""),
        (plain().with_content_type("text/plain".into()).with_content_encoding("gzip".into()), b"x"),
        (BasicProperties::default().with_type("k".into()), &[0xac, 0xed, 0, 5]),
    ]
    .into_iter()
    .map(|(properties, body)| [bytes(&properties), body.to_vec()].concat())
    .collect()
}

pub(crate) fn report_seeds() -> Vec<Vec<u8>> {
    let id = JobId::new().to_string();
    let of = |status: &str, more: &[(&str, AMQPValue)]| {
        let mut table = headers(more);
        table.insert("jobId".into(), text(&id));
        table.insert("version".into(), AMQPValue::LongLongInt(7));
        table.insert("status".into(), text(status));
        BasicProperties::default().with_headers(table).with_content_type("application/json".into())
    };
    [
        of("done", &[]),
        of("failed", &[("error", text("no paper")), ("retry", text("never"))]),
        of("failed", &[("retry", text("after")), ("retryAfter", text("5m"))]),
        of("extend", &[("lease", AMQPValue::LongInt(60_000))]),
        BasicProperties::default().with_type("done".into()).with_correlation_id(format!("{id}:7").into()),
    ]
    .iter()
    .map(|properties| [bytes(properties), b"{\"ok\":true}".to_vec()].concat())
    .collect()
}

pub(crate) fn delivery_seeds() -> Vec<Vec<u8>> {
    let row = |kind: &str| (Fence::new(JobId::new(), 0), kind.to_owned());
    let names = Names::new("jobwright");
    [vec![row("print")], vec![row("print"), row("print"), row("draw")]]
        .iter()
        .filter_map(|rows| wire_testing::delivery_of(&names, "q", rows))
        .map(|(_, _, properties, body)| [bytes(&properties), body].concat())
        .collect()
}

pub(crate) fn frame_seeds() -> Vec<Vec<u8>> {
    let frames = |properties: BasicProperties| {
        let header = AMQPContentHeader { class_id: 60, body_size: 2, properties };
        let frames = [AMQPFrame::Header(1, header), AMQPFrame::Body(1, b"{}".to_vec()), AMQPFrame::Heartbeat];
        frames.iter().flat_map(frame).collect::<Vec<u8>>()
    };
    let each = submission_seeds().into_iter().filter_map(|seed| Some(frames(message(&seed)?.0)));
    each.collect()
}

fn frame(frame: &AMQPFrame) -> Vec<u8> {
    let mut written = gen_frame(frame)(WriteContext::from(Vec::new())).expect("it can be written");
    std::mem::take(&mut written.write)
}
