//! Tests the contract, line by line, and that no incoming message can do harm.

mod arbitrary;
mod outgoing;
mod reports;
mod submissions;

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::Refusal;
use super::testing::{incoming, key};
use crate::broker::{Incoming, Names, Outgoing};
use crate::job::{Job, JobOptions, Payload, RowLocation};

fn names() -> Names {
    Names::new("jobwright")
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn table(headers: &[(&str, AMQPValue)]) -> FieldTable {
    headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect::<BTreeMap<_, _>>().into()
}

/// Makes a message with these headers.
fn message(properties: BasicProperties, headers: &[(&str, AMQPValue)], body: impl Into<Vec<u8>>) -> Incoming {
    incoming(properties.with_headers(table(headers)), body.into())
}

/// Returns a published message as it arrives.
fn arrived(message: &Outgoing) -> Incoming {
    incoming(message.properties.clone(), message.body.clone())
}

fn header<'a>(message: &'a Outgoing, name: &str) -> Option<&'a AMQPValue> {
    message.properties.headers().as_ref().and_then(|table| table.inner().get(name))
}

fn job(headers: &[(&str, &str)]) -> Job {
    Job {
        id: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
        seq: 7,
        version: 3,
        kind: "send-invoice".to_owned(),
        queue: "billing".to_owned(),
        priority: 0,
        attempt: 2,
        max_attempts: 10,
        payload: Payload::json(&serde_json::json!({ "order": 42 })).unwrap(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        options: JobOptions::default(),
        admitted: false,
        created_at: "2026-11-21T12:00:00.250Z".parse().unwrap(),
        location: RowLocation::default(),
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>, reason: &str) -> String {
    let refusal = result.expect_err("should be refused");
    assert_eq!(refusal.reason, reason, "{}", refusal.text);
    refusal.text
}
