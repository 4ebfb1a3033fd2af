//! Headers that nest deeper than any stack.

use jobwright::JobId;
use lapin::types::FieldTable;

use crate::delivery::raw_frames::{Raw, nested};
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::{amqp_url, eventually};

/// Each level costs five bytes, so one frame holds some 26,000 levels. A parser that recurses without a limit overflows its stack, which ends the
/// process; then the message goes to the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_of_twenty_thousand_levels_ends_nobody() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    let executor = noting::<Pg<false>>(&messages, patient(), 10).await;
    let client = site.client().await;
    let (submit, rejected) = (site.names().submit(), site.names().rejected());
    eventually(PATIENCE, async || client.depth(&submit).await.is_some()).await;

    let mut raw = Raw::connect(&amqp_url().unwrap()).await;
    for levels in [33, 2_000, 20_000] {
        raw.publish(&submit, &JobId::new().to_string(), "note", ("queue", &nested(levels)), b"{}").await;
    }
    // A header that is not parsed does no harm either.
    let harmless = JobId::new();
    raw.publish(&submit, &harmless.to_string(), "note", ("x-own", &nested(20_000)), b"{}").await;
    let good = JobId::new();
    let properties = lapin::BasicProperties::default()
        .with_message_id(good.to_string().into())
        .with_type("note".into())
        .with_content_type("application/json".into())
        .with_headers(FieldTable::default());
    assert!(client.publish("", &submit, properties, b"{}").await);

    eventually(PATIENCE, async || executor.stats().submitted == 2).await;
    site.settled(&[good, harmless]).await;
    eventually(PATIENCE, async || client.waiting(&rejected).await == 3).await;
    assert_eq!(client.take(&rejected).await.header("jobwright-reason").as_deref(), Some("bad-header"));
    assert_eq!(executor.stats().messages_refused, 3);
}
