//! Several hosts in the URL of a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobwright::Store as _;
use jobwright::{CommandExecutor, DatabaseConfig, ErrorKind, MessageServices, Outcome, Postgres};

use crate::servers::{Silent, closed};
use crate::support::environment::{PATIENCE, lease};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// Returns the URL with more parameters.
fn with(config: DatabaseConfig, parameters: &str) -> DatabaseConfig {
    let url = config.url.expose();
    let mark = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{mark}{parameters}");
    config.with_url(url)
}

/// Starts an executor that counts the jobs it ran.
async fn counting(messages: &MessageServices<Postgres>) -> (jobwright::CommandExecutor, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(lease(2))
        .handle("kind", move |_| {
            let count = count.clone();
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    (executor, ran)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_silent_costs_its_bound_and_the_next_is_tried() {
    let Some(db) = Pg::<false>::create().await else { return };
    let silent = Silent::start().await;
    let config = with(db.config_by(format!("{},{}", silent.address, db.address())), "connect_timeout=1");
    let start = Instant::now();
    let messages = MessageServices::postgres(&config).await.unwrap();
    let (executor, ran) = counting(&messages).await;
    messages.send(job()).await.unwrap();
    eventually(PATIENCE, async || ran.load(Ordering::SeqCst) == 1).await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Without a deadline in the URL the configuration's applies; with one the URL's does.
#[tokio::test]
async fn each_host_has_its_time_limit_and_its_reason_is_reported() {
    let (silent, nobody) = (Silent::start().await, closed().await);
    let url = format!("postgres://u@{},{nobody}/d", silent.address);
    let config = DatabaseConfig::url(&url).connect_timeout(Duration::from_millis(300));
    let start = Instant::now();
    let error = Postgres::connect(&config).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let text = error.to_string();
    let told = [silent.address.to_string(), nobody.to_string(), "300ms".to_owned(), "refused".to_owned()];
    assert!(told.iter().all(|part| text.contains(part)), "{text}");

    let config = DatabaseConfig::url(&url).connect_timeout(Duration::from_secs(60));
    let start = Instant::now();
    let error = Postgres::connect(&with(config, "connect_timeout=1")).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(error.to_string().contains("1s"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_session_attrs_chooses_the_server() {
    let Some(_) = Pg::<false>::create_empty().await else { return };
    let primary = PrivatePg::start();
    let standby = PrivatePg::standby_of(&primary);
    let url = |first: &PrivatePg, second: &PrivatePg, attrs: &str| {
        format!("postgres://postgres@{},{}/postgres?target_session_attrs={attrs}", first.address(), second.address())
    };
    let reached = async |url: String| {
        let messages = MessageServices::postgres(&DatabaseConfig::url(url)).await?;
        let mut cx = messages.begin();
        let row = cx.transaction().await?.query_one("select inet_server_port()", &[]).await.unwrap();
        let port: i32 = row.get(0);
        cx.rollback().await?;
        Ok::<_, jobwright::Error>(format!("127.0.0.1:{port}"))
    };
    for attrs in ["read-write", "primary"] {
        assert_eq!(reached(url(&standby, &primary, attrs)).await.unwrap(), primary.address(), "{attrs}");
        let error = reached(url(&standby, &standby, attrs)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains(attrs) && error.to_string().contains(&standby.address()), "{error}");
    }
    for attrs in ["read-only", "standby"] {
        assert_eq!(reached(url(&primary, &standby, attrs)).await.unwrap(), standby.address(), "{attrs}");
    }
    assert_eq!(reached(url(&primary, &standby, "any")).await.unwrap(), primary.address());
    let error = reached(url(&primary, &standby, "prefer-standby")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("prefer-standby"), "{error}");
}

/// The primary falls silent, the standby is promoted: work goes on there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_at_the_promoted_standby_of_a_silent_primary() {
    let Some(_) = Pg::<false>::create_empty().await else { return };
    let primary = PrivatePg::start();
    let db = Pg::<false>::create_on(&primary.url()).await;
    let standby = PrivatePg::standby_of(&primary);
    let hosts = format!("{},{}", primary.address(), standby.address());
    let config = with(db.config_by(hosts), "target_session_attrs=read-write&connect_timeout=1");
    let config = config.call_timeout(Duration::from_secs(2));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let (executor, ran) = counting(&messages).await;
    messages.send(job()).await.unwrap();
    eventually(PATIENCE, async || ran.load(Ordering::SeqCst) == 1).await;

    let _silenced = primary.silenced();
    standby.promote();
    let start = Instant::now();
    eventually(PATIENCE, async || messages.send(job()).await.is_ok()).await;
    eventually(PATIENCE, async || ran.load(Ordering::SeqCst) >= 2).await;
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A primary that stays up but becomes read-only keeps none of our connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_server_that_changed_its_role_are_dropped_at_once() {
    let Some(_) = Pg::<false>::create_empty().await else { return };
    let old = PrivatePg::start();
    let db = Pg::<false>::create_on(&old.url()).await;
    let new = PrivatePg::standby_of(&old);
    let config = with(db.config_by(format!("{},{}", old.address(), new.address())), "target_session_attrs=read-write");
    // Named differently from the test's own connections.
    let name = format!("{}_own", db.schema());
    let config = with(config, &format!("application_name={name}"));
    let messages = MessageServices::postgres(&config).await.unwrap();
    // Some connections, all idle afterwards.
    let mut contexts = Vec::new();
    for _ in 0..4 {
        let mut cx = messages.begin();
        cx.transaction().await.unwrap();
        contexts.push(cx);
    }
    for cx in contexts {
        cx.rollback().await.unwrap();
    }
    messages.send(job()).await.unwrap();
    let ours = async || {
        let aside = db.client().await;
        let sql = "select count(*) from pg_stat_activity where application_name = $1";
        aside.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0)
    };
    assert!(ours().await >= 4);

    let aside = db.client().await;
    aside.batch_execute("alter system set default_transaction_read_only = on").await.unwrap();
    aside.batch_execute("select pg_reload_conf()").await.unwrap();
    new.promote();
    eventually(PATIENCE, async || match messages.send(job()).await {
        // The signal reaches each session a little later: this call was still in time.
        Ok(_) => ours().await == 0,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
            eventually(PATIENCE, async || ours().await == 0).await;
            messages.send(job()).await.unwrap();
            true
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_hears_nothing_from_a_silent_server_ends() {
    let Some(db) = Pg::<false>::create().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let store = Postgres::connect(&db.config_by(proxy.address)).await.unwrap();
    let mut hints = store.engine().listen().await.unwrap().unwrap();
    proxy.stall();
    let error =
        tokio::time::timeout(Duration::from_secs(40), hints.next()).await.expect("still listening").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}
