//! A job's payload comes back as it was sent.

use std::collections::BTreeMap;

use jobwright::{NewJob, Payload};
use serde_json::{Value, json};

use crate::support::TestDb;
use crate::support::jobs::LATER;

/// Sends each payload, and compares it with what `claim` and `show` return.
async fn round_trip<T: TestDb>(db: &T, payloads: Vec<Payload>) {
    let store = db.jobs();
    let node = store.node().await;
    for payload in payloads {
        let id = store.send(NewJob::new("kind", payload.clone())).await;
        same(&store.detail(id).await.payload, &payload);
        same(&store.take_one(node).await.payload, &payload);
    }
}

/// Asserts equality: the meaning for JSON, and the bytes otherwise.
#[track_caller]
fn same(found: &Payload, sent: &Payload) {
    assert_eq!(found.content_type(), sent.content_type());
    match (found, sent) {
        (Payload::Json(_), Payload::Json(_)) => {
            assert_eq!(plain(found), plain(sent));
        }
        (Payload::Bytes { body: found, .. }, Payload::Bytes { body: sent, .. }) => assert!(found == sent),
        _ => panic!("{found:?} for {sent:?}"),
    }
}

/// Returns a document in which numbers are compared by value: a store may write 1e2 as 100.
fn plain(payload: &Payload) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                let exact = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
                if let Some(exact) = exact {
                    *value = json!(exact as i64);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(walk),
            Value::Object(values) => values.values_mut().for_each(walk),
            _ => {}
        }
    }
    let mut value = payload.decode().unwrap();
    walk(&mut value);
    value
}

pub(crate) async fn json_documents<T: TestDb>(db: &T) {
    let documents = [
        json!(null),
        json!(true),
        json!(-1.5),
        json!(9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(""),
        json!([]),
        json!({}),
        json!({ "a": [1, { "b": null }], "": "empty key", "a.b": "$.a" }),
        json!("line\nbreak \" \\ / \u{1} \u{7f} \u{2028}"),
    ];
    round_trip(db, documents.iter().map(|document| Payload::json(document).unwrap()).collect()).await;
}

pub(crate) async fn unicode<T: TestDb>(db: &T) {
    let text = "Grüße, 世界, 🦀, e\u{301}, \u{10ffff}, \u{202e}";
    round_trip(db, vec![Payload::json(&json!({ text: text })).unwrap(), Payload::text(text)]).await;
}

pub(crate) async fn json_texts_in_odd_shapes<T: TestDb>(db: &T) {
    let texts = ["  [ 1 ,2 ]\n", "1e2", "0.1", "\"\\u00e4\\ud83e\\udd80\"", "{\"b\":1,\"a\":2}", "123456789012345678"];
    round_trip(db, texts.iter().map(|text| Payload::json_text(*text).unwrap()).collect()).await;
}

pub(crate) async fn bytes<T: TestDb>(db: &T) {
    let all: Vec<u8> = (0..=255).collect();
    round_trip(
        db,
        vec![
            Payload::bytes("application/octet-stream", all),
            Payload::bytes("application/octet-stream", vec![]),
            Payload::bytes("text/plain", "\0\\x41"),
            // JSON by its content type, but sent as bytes: kept to the byte.
            Payload::bytes("application/json", "{ \"b\": 1, \"a\": 2, \"a\": 3 }"),
            Payload::bytes("text/x; a=\"ä\"", vec![0xff, 0xfe]),
        ],
    )
    .await;
}

pub(crate) async fn a_mebibyte<T: TestDb>(db: &T) {
    let body: Vec<u8> = (0..1024 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let text = "ä".repeat(512 * 1024 - 1);
    round_trip(db, vec![Payload::bytes("application/octet-stream", body), Payload::json(&text).unwrap()]).await;
}

pub(crate) async fn headers<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let few = BTreeMap::from([
        ("tenant".to_owned(), "acme".to_owned()),
        ("empty".to_owned(), String::new()),
        ("ünï \"quoted\"".to_owned(), "line\nbreak 🦀".to_owned()),
    ]);
    let many = (0..64).map(|n| (format!("header-{n}"), "v".repeat(4096))).collect();
    for headers in [BTreeMap::new(), few, many] {
        let job = headers.iter().fold(NewJob::json("kind", &1), |job, (name, value)| job.header(name, value));
        let id = store.send(job).await;
        assert!(store.detail(id).await.headers == headers);
        assert!(store.take_one(node).await.headers == headers);
    }
}

/// A batch may mix payloads of all kinds.
pub(crate) async fn mixed_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let payloads = [
        Payload::json(&1).unwrap(),
        Payload::bytes("a/b", [1, 2]),
        Payload::json("text").unwrap(),
        Payload::text("text"),
    ];
    let job = |(n, payload): (usize, &Payload)| {
        let job = NewJob::new("kind", payload.clone()).header("n", n.to_string());
        if n % 2 == 1 { job.delay(LATER) } else { job }
    };
    let sent = store.send_all(payloads.iter().enumerate().map(job)).await;
    for (n, id) in sent.into_iter().enumerate() {
        let detail = store.detail(id).await;
        same(&detail.payload, &payloads[n]);
        assert_eq!(detail.headers["n"], n.to_string());
    }
}
