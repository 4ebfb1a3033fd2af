//! Jobs for external workers that did not reach the broker: they are restored, whatever else goes wrong.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, NewJob};

use crate::delivery::external::{Paint, lease, paint};
use crate::delivery::frames::Confirms;
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::{TestDb, amqp_url, eventually};

/// One message is larger than the broker accepts, and the database refuses its outcome. The other jobs on its channel have one attempt, and their
/// lease would end in an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_taken_back_though_the_one_that_is_to_blame_cannot_be_recorded() {
    if amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start_with("max_message_size = 20000\n", "[].\n");
    let Some(site) = Site::<Pg<false>>::on(server.url()).await else { return };
    site.uses("paint");
    let (messages, client) = (site.messages().await, site.client().await);
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let never = "create function never() returns trigger language plpgsql as $$ begin
           if new.kind = 'poison' then raise exception 'never' using errcode = '22023'; end if;
           return new;
         end $$;
         create trigger never before insert on timer_job for each row execute function never();";
    site.db.client().await.batch_execute(never).await.unwrap();
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let mut cx = messages.begin();
    let poison = cx.send(NewJob::json("poison", &"x".repeat(30_000)).queue("paint").max_attempts(2)).unwrap();
    for n in 0..5 {
        cx.send(paint(n).max_attempts(1)).unwrap();
    }
    cx.commit().await.unwrap();
    let executor =
        CommandExecutor::builder(messages.clone()).config(patient()).external_queue(lease(3600)).start().await.unwrap();
    for n in 0..5 {
        let job = tap.next().await;
        assert_eq!((job.text(), job.header("attempt").as_deref()), (n.to_string(), Some("1")));
    }
    assert_eq!(site.db.jobs().state(poison).await, Some(JobState::External));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Confirms do not come, and the node waits for them less long than usual.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_takes_back_unconfirmed_hand_outs() {
    let opened =
        Paint::with_confirms(Confirms::Lost, lease(3600), |broker| broker.confirm_timeout(Duration::from_secs(30)))
            .await;
    let Some((Paint { site, messages, executor, client }, _frames)) = opened else { return };
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let id = messages.send(paint(1)).await.unwrap();
    let handed = tap.next().await;
    assert_eq!((handed.job(), site.db.jobs().state(id).await), (id, Some(JobState::External)));
    let stopped = Instant::now();
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(stopped.elapsed() < PATIENCE, "{:?}", stopped.elapsed());
    let job = site.db.jobs().detail(id).await.summary;
    assert_eq!((job.state, job.attempt), (JobState::Waiting, 0));
    assert_eq!(client.waiting(&site.names().external("paint")).await, 0);
}

/// The confirm does not come in time, and the node is stopped meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_waits_for_the_database_to_take_jobs_back() {
    let opened =
        Paint::with_confirms(Confirms::Lost, lease(3600), |broker| broker.confirm_timeout(Duration::from_secs(1)))
            .await;
    let Some((Paint { site, messages, executor, client }, _frames)) = opened else { return };
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let mut blocker = site.db.client().await;
    let id = messages.send(paint(1)).await.unwrap();
    tap.next().await;
    // Other transactions that need the row now wait.
    let hold = blocker.transaction().await.unwrap();
    let uuid: uuid::Uuid = id.into();
    hold.execute("select from external_job where id = $1 for update", &[&uuid]).await.unwrap();
    let released = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        hold.rollback().await.unwrap();
    };
    let (stopped, ()) = tokio::join!(executor.shutdown(Duration::ZERO), released);
    stopped.unwrap();
    eventually(PATIENCE, async || site.db.jobs().state(id).await == Some(JobState::Waiting)).await;
    assert_eq!(site.db.jobs().detail(id).await.summary.attempt, 0);
}

/// The batch was handed out while earlier confirms were on their way, which took a quarter of its lease. Workers would get only the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_waited_too_long_is_handed_out_with_a_new_lease() {
    let opened =
        Paint::with_confirms(Confirms::Held, lease(8), |broker| broker.confirm_timeout(Duration::from_secs(30))).await;
    let Some((Paint { site, messages, executor, client }, frames)) = opened else { return };
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let mut cx = messages.begin();
    let ids: Vec<_> = (0..40).map(|n| cx.send(paint(n)).unwrap()).collect();
    cx.commit().await.unwrap();
    // While sizes are unknown, batches are limited, and the last job is not in the first one.
    tap.next().await;
    let last = ids[39];
    eventually(PATIENCE, async || site.db.jobs().state(last).await == Some(JobState::External)).await;
    let uuid: uuid::Uuid = last.into();
    let row = site.db.client().await.query_one("select version from external_job where id = $1", &[&uuid]).await;
    let before: i64 = row.unwrap().get(0);
    tokio::time::sleep(Duration::from_secs(3)).await;
    frames.confirms(Confirms::Pass);
    let job = loop {
        let job = tap.next().await;
        if job.job() == last {
            break job;
        }
        assert_eq!(job.header("attempt").as_deref(), Some("1"));
    };
    assert_eq!(job.header("attempt").as_deref(), Some("1"));
    assert_ne!(job.version(), before, "it came with what was left of its lease");
    executor.shutdown(Duration::ZERO).await.unwrap();
}
