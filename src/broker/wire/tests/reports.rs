use std::slice::from_ref;
use std::time::Duration;

use super::*;
use crate::broker::wire::{ExternalReport, report};
use crate::job::{Fence, JobId, Limits, ReportKey, RetryAdvice};

fn said(headers: &[(&str, AMQPValue)], body: &str) -> Result<ExternalReport, Refusal> {
    let job = job(&[]);
    let mut all = vec![
        ("jobId", text(&job.id.to_string())),
        ("version", AMQPValue::LongLongInt(job.version)),
        ("reportToken", text(&key().token(job.fence()))),
    ];
    all.extend_from_slice(headers);
    report(&message(BasicProperties::default(), &all, body), Limits { payload: 100, ..Limits::default() }, Some(&key()))
}

#[test]
fn done_with_and_without_a_result() {
    let fence = job(&[]).fence();
    let done = ("status", text("done"));
    assert_eq!(said(from_ref(&done), "").unwrap(), ExternalReport::Done { fence, result: None });
    let result = Some(Payload::json_text("[1]").unwrap());
    assert_eq!(said(from_ref(&done), "[1]").unwrap(), ExternalReport::Done { fence, result });
    refused(said(from_ref(&done), &"x".repeat(101)), "too-large");
    // A client that can set nothing but strings, and one that uses the property.
    assert!(said(&[done, ("version", text("3"))], "").is_ok());
    let read = |correlation: String, key: Option<&ReportKey>| {
        let typed = BasicProperties::default().with_type("done".into()).with_correlation_id(correlation.into());
        report(&message(typed, &[], ""), Limits::default(), key)
    };
    let (short, token) = (format!("{}:3", fence.id), key().token(fence));
    let done = ExternalReport::Done { fence, result: None };
    assert_eq!(read(format!("{short}:{token}"), Some(&key())).unwrap(), done);
    refused(read(short.clone(), Some(&key())), "bad-token");
    refused(read(format!("{short}:{}", "A".repeat(22)), Some(&key())), "bad-token");
    refused(read(format!("{short}:"), Some(&key())), "bad-token");
    // Where no tokens are required.
    assert_eq!(read(short, None).unwrap(), done);
}

/// A sender that knows the job and its version, from a neighbour or from the database, does not have the token.
#[test]
fn reports_without_the_token_of_their_hand_out_are_refused() {
    let fence = job(&[]).fence();
    let done = ("status", text("done"));
    let of = |other: Fence| [done.clone(), ("reportToken", text(&key().token(other)))];
    assert!(said(&of(fence), "").is_ok());
    // Tokens of an earlier hand-out of the job, and of another job that was handed out with it.
    for other in [Fence::new(fence.id, 2), Fence::new(JobId::new(), fence.version)] {
        let why = refused(said(&of(other), ""), "bad-token");
        assert!(why.contains("reportToken") && !why.contains(&key().token(fence)), "{why}");
    }
    for token in [text(""), text("A"), text(&"A".repeat(22))] {
        refused(said(&[done.clone(), ("reportToken", token)], ""), "bad-token");
    }
    // Refused before anything else of it is checked.
    refused(said(&[("reportToken", text("A"))], &"x".repeat(101)), "bad-token");
}

#[test]
fn failures_say_why_and_when_to_try_again() {
    let failed = |headers: &[(&str, AMQPValue)]| {
        let all: Vec<_> = [("status", text("failed"))].into_iter().chain(headers.iter().cloned()).collect();
        said(&all, "").map(|report| match report {
            ExternalReport::Failed { error, detail, advice, .. } => (error, detail, advice),
            other => panic!("{other:?}"),
        })
    };
    let (error, detail, advice) = failed(&[("error", text("no paper")), ("detail", text("tray 2"))]).unwrap();
    assert_eq!((error.as_str(), detail.as_deref(), advice), ("no paper", Some("tray 2"), RetryAdvice::ByPolicy));
    assert_eq!(failed(&[]).unwrap().0, "the external worker gave no reason");
    for (headers, expected) in [
        (vec![("retry", text("never"))], RetryAdvice::Never),
        (vec![("retry", text("policy"))], RetryAdvice::ByPolicy),
        (vec![("retryAfter", AMQPValue::LongInt(500))], RetryAdvice::NotBefore(Duration::from_millis(500))),
        (vec![("retry", text("policy")), ("retryAfter", text("5m"))], RetryAdvice::NotBefore(Duration::from_secs(300))),
        (vec![("retry", text("after")), ("retryAfter", text("2m"))], RetryAdvice::After(Duration::from_secs(120))),
    ] {
        assert_eq!(failed(&headers).unwrap().2, expected);
    }
    for headers in [
        vec![("retry", text("after"))],
        vec![("retry", text("never")), ("retryAfter", text("1"))],
        vec![("retry", text("maybe"))],
        vec![("retryAfter", text("-1"))],
        vec![("retryAfter", text("400d"))],
    ] {
        refused(failed(&headers), "bad-header");
    }
}

#[test]
fn a_longer_lease_may_say_how_long() {
    let fence = job(&[]).fence();
    let extend = ("status", text("extend"));
    assert_eq!(said(from_ref(&extend), "").unwrap(), ExternalReport::Extend { fence, lease: None });
    let lease = Some(Duration::from_secs(60));
    assert_eq!(
        said(&[extend.clone(), ("lease", AMQPValue::LongLongInt(60_000))], "").unwrap(),
        ExternalReport::Extend { fence, lease }
    );
    for lease in ["0", "8d", "long"] {
        refused(said(&[extend.clone(), ("lease", text(lease))], ""), "bad-header");
    }
}

#[test]
fn reports_that_are_none_are_refused() {
    refused(said(&[("status", text("Done"))], ""), "bad-status");
    refused(said(&[], ""), "bad-status");
    let done = ("status", text("done"));
    refused(report(&message(BasicProperties::default(), from_ref(&done), ""), Limits::default(), None), "missing-id");
    refused(said(&[done.clone(), ("jobId", text("x"))], ""), "bad-id");
    refused(said(&[done, ("version", AMQPValue::Boolean(true))], ""), "bad-header");
}
