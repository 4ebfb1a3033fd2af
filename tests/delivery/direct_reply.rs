//! Results for clients that wait without their own queue, while the broker fails for these clients alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, JobId, MessageServices, NewJob, Outcome, Payload, Postgres};
use lapin::BasicProperties;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::proxy::Proxy;
use crate::support::{amqp_url, eventually};

/// Starts an executor whose jobs are answered when `gate` allows it.
async fn answering(messages: &MessageServices<Postgres>, gate: Arc<Semaphore>) -> CommandExecutor<Postgres> {
    let builder = CommandExecutor::builder(messages.clone()).config(patient()).queue("default", 4);
    let builder = builder.handle_with("add", move |cx| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.acquire().await?.forget();
            cx.reply(Payload::json(&5)?)?;
            Ok(Outcome::Done)
        })
    });
    builder.start().await.unwrap()
}

fn request() -> BasicProperties {
    let properties = BasicProperties::default().with_message_id(JobId::new().to_string().as_str().into());
    properties.with_type("add".into()).with_content_type("application/json".into())
}

/// The connection for direct replies is not accepted for 30 s, and other replies do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_to_queues_do_not_wait_for_those_to_clients() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.address()).await;
    let config = site.broker_by(proxy.address).direct_reply(true).connect_timeout(Duration::from_secs(30));
    let messages = site.messages_with(&config).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = answering(&messages, Arc::new(Semaphore::new(9))).await;
    let (client, submit) = (site.client().await, site.names().submit());
    let answers = client.queue().await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    proxy.point_at(&[mute.local_addr().unwrap().to_string()]);
    let others = async {
        let (stream, _) = tokio::time::timeout(PATIENCE, mute.accept()).await.unwrap().unwrap();
        let started = Instant::now();
        messages.send(NewJob::json("add", &1).reply_to(answers.as_str(), "sum")).await.unwrap();
        assert_eq!(client.take(&answers).await.text(), "5");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        proxy.point_at(&[site.address()]);
        drop(stream);
    };
    let (answer, ()) = tokio::join!(client.ask(&submit, request(), b"1", true), others);
    assert_eq!(answer.unwrap().text(), "5");
    site.db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The broker accepts the connection for direct replies, but opens no channel on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_its_answer_when_there_is_a_channel_for_it() {
    if amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    let Some(site) = Site::<Pg<false>>::on(server.url()).await else { return };
    let messages = site.messages_with(&site.broker().direct_reply(true)).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let executor = answering(&messages, gate.clone()).await;
    let (client, submit) = (site.client().await, site.names().submit());
    let limited = async {
        eventually(PATIENCE, async || executor.stats().claimed + executor.stats().delivered > 0).await;
        server.ctl(&["set_user_limits", "guest", r#"{"max-channels": 1}"#]);
        gate.add_permits(1);
        // It was tried, and will be tried again.
        eventually(PATIENCE, async || executor.stats().other > 0).await;
        server.ctl(&["clear_user_limits", "guest", "max-channels"]);
    };
    let (answer, ()) = tokio::join!(client.ask(&submit, request(), b"1", true), limited);
    assert_eq!(answer.unwrap().text(), "5");
    site.db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
