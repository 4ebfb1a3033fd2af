use std::time::Duration;

use jobwright::BrokerConfig;
use jobwright::internal::broker_testing::{self as testing, Outgoing, Published};
use lapin::types::AMQPValue;

use crate::broker::{SOON, TestSite, message, messages, outcomes, up, waiting};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_confirmed_in_the_callers_order() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let all = testing::publish(&broker, messages(&queue, 5000)).await;
    assert_eq!(outcomes(&all, Published::Acked), 5000);
    eventually(SOON, async || waiting(&broker, &queue).await == Some(5000)).await;
    let stats = broker.stats();
    assert_eq!((stats.confirmed, stats.unconfirmed), (5000, 0));
    assert!(testing::publish(&broker, Vec::new()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_get_their_own_answers() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let callers: Vec<_> = (0..200)
        .map(|caller| {
            let (broker, queue) = (broker.clone(), queue.clone());
            tokio::spawn(async move {
                let to = if caller % 3 == 0 { "nowhere" } else { queue.as_str() };
                let batch = (0..7).map(|n| message(to, &format!("{caller}-{n}"))).collect();
                (caller, testing::publish(&broker, batch).await)
            })
        })
        .collect();
    for task in callers {
        let (caller, all) = task.await.unwrap();
        let expected = if caller % 3 == 0 { Published::Returned } else { Published::Acked };
        assert_eq!(all, vec![expected; 7], "caller {caller}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unroutable_messages_are_matched_to_the_right_ones() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let long = testing::publish(&broker, vec![message(&"x".repeat(300), "long"), message(&queue, "short")]).await;
    assert_eq!(long, [Published::Returned, Published::Acked]);
    for round in 0..5 {
        let batch: Vec<_> = (0..1000)
            .map(|n| {
                let mut message = message(if n % 7 == 3 { "nowhere" } else { &queue }, &format!("{round}-{n}"));
                if n % 2 == 0 {
                    // It gets an id, which identifies it if it is returned.
                    message.properties = lapin::BasicProperties::default();
                }
                message
            })
            .collect();
        let all = testing::publish(&broker, batch).await;
        for (n, outcome) in all.into_iter().enumerate() {
            assert_eq!(outcome, if n % 7 == 3 { Published::Returned } else { Published::Acked }, "{round}-{n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_the_right_messages() {
    let Some(place) = TestSite::shared() else { return };
    let limits =
        [("x-max-length", AMQPValue::LongLongInt(10)), ("x-overflow", AMQPValue::LongString("reject-publish".into()))];
    let small = place.queue("small", &limits).await;
    let large = place.queue("large", &[]).await;
    let broker = place.broker().await;
    let batch = (0..100).map(|n| message(if n % 2 == 0 { &small } else { &large }, &format!("m{n}"))).collect();
    let all = testing::publish(&broker, batch).await;
    for (n, outcome) in all.into_iter().enumerate() {
        let expected = if n % 2 == 0 && n >= 20 { Published::Nacked } else { Published::Acked };
        assert_eq!(outcome, expected, "m{n}");
    }
    assert_eq!(broker.stats().nacked, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_broker_closes_costs_neither_connection_nor_the_next_publish() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let mode = broker.mode();
    let missing = Outgoing { exchange: format!("{}.none", place.prefix), ..message("x", "lost") };
    for _ in 0..3 {
        let all = testing::publish(&broker, vec![missing.clone()]).await;
        assert!(all == [Published::Unknown] || all == [Published::NotSent], "{all:?}");
    }
    // Precondition failed: an expiration that is not a number.
    let mut bad = message(&queue, "bad");
    bad.properties = bad.properties.with_expiration("soon".into());
    eventually(SOON, async || testing::publish(&broker, vec![bad.clone()]).await == [Published::Unknown]).await;
    eventually(SOON, async || testing::publish(&broker, messages(&queue, 3)).await == [Published::Acked; 3]).await;
    assert_eq!(broker.mode(), mode, "the connection never broke");
}

#[tokio::test]
async fn without_a_broker_nothing_is_sent() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let broker = jobwright::Broker::start(&BrokerConfig::url(format!("amqp://u:secret@127.0.0.1:{port}/"))).unwrap();
    assert_eq!(testing::publish(&broker, messages("q", 2)).await, [Published::NotSent; 2]);
    let error = broker.up_within(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.code(), "JW-UNREACHABLE");
    assert!(error.to_string().contains("refused") && !error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn tls_to_a_plain_port_is_refused_clearly() {
    let Some(place) = TestSite::shared() else { return };
    let config = place.config().with_url(place.url.replace("amqp://", "amqps://"));
    let broker = jobwright::Broker::start(&config).unwrap();
    let error = broker.up_within(Duration::from_secs(3)).await.unwrap_err().to_string();
    assert!(error.contains("TLS failed"), "{error}");
    assert!(!error.contains("guest:guest"), "{error}");
}

/// Compares our publisher with a bare client: `cargo nextest run broker::publishing --run-ignored only`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn throughput() {
    use futures_util::future::join_all;
    use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
    const COUNT: usize = 20_000;
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = up(&place.config()).await;
    let client = place.client().await;
    let channel = client.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    for _ in 0..3 {
        let started = std::time::Instant::now();
        for _ in 0..COUNT / 1000 {
            let batch = messages(&queue, 1000);
            let sent = join_all(batch.iter().map(|m| {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let (key, properties) = (m.routing_key.as_str().into(), m.properties.clone());
                channel.basic_publish("".into(), key, options, &m.body, properties)
            }));
            let confirms = sent.await.into_iter().map(Result::unwrap);
            assert!(join_all(confirms).await.into_iter().all(|confirm| confirm.unwrap().is_ack()));
        }
        let bare = started.elapsed();
        let started = std::time::Instant::now();
        for _ in 0..COUNT / 1000 {
            let all = testing::publish(&broker, messages(&queue, 1000)).await;
            assert_eq!(outcomes(&all, Published::Acked), 1000);
        }
        let ours = started.elapsed();
        let rate = |time: Duration| COUNT as f64 / time.as_secs_f64();
        println!("bare {:.0}/s, ours {:.0}/s, ratio {:.2}", rate(bare), rate(ours), rate(ours) / rate(bare));
    }
}
