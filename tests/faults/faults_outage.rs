//! Logs of a database outage: one line that it is down and why, and one that it is back.

use std::time::Duration;

use jobwright::{CommandExecutor, DatabaseConfig, MessageServices};

use crate::faults::ledger_worker::{Does, send, start};
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::process::Sign;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually, postgres_url};

/// Long enough for every task of an executor to fail several times.
const OUTAGE: Duration = Duration::from_secs(4);

fn hasty(config: DatabaseConfig) -> DatabaseConfig {
    config.call_timeout(Duration::from_secs(1)).connect_timeout(Duration::from_secs(1))
}

/// Returns port and address as errors name them.
fn name(config: &DatabaseConfig) -> String {
    let url = config.url.expose().to_owned();
    url.rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned()
}

/// Starts an executor with a running job, and others that come now and then.
async fn busy(db: &Pg<false>, config: &DatabaseConfig, sign: &Sign) -> (MessageServices, CommandExecutor) {
    let messages = MessageServices::postgres(config).await.unwrap();
    let executor = start::<Pg<false>>(&messages, lease(30), 4, Some(sign.path().to_owned())).await;
    send::<Pg<false>>(&messages, Does::WaitThenNote, 1).await;
    send::<Pg<false>>(&messages, Does::Note, 20).await;
    eventually(PATIENCE, async || db.jobs().all().await.len() == 1 && executor.stats().in_flight == 1).await;
    (messages, executor)
}

/// A server that is stopped notifies all clients; then connections are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_the_server_is_two_lines() {
    if postgres_url().is_none() {
        return;
    }
    let logs = Logs::capture();
    let server = PrivatePg::start();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.create_ledger().await;
    // Named differently from the test's own connections, which notice it too.
    let config = World::config(&db);
    let url = config.url.expose().replace("127.0.0.1", "localhost");
    let config = hasty(config.with_url(url));
    let (place, sign) = (name(&config), Sign::new());
    let (messages, executor) = busy(&db, &config, &sign).await;
    assert_eq!(logs.about(&place, "WARN"), [""; 0]);

    server.stop();
    eventually(PATIENCE, async || !logs.about(&place, "WARN").is_empty()).await;
    assert!(messages.database_is_down().unwrap());
    tokio::time::sleep(OUTAGE).await;
    server.start_again();
    let back = async || logs.about(&place, "INFO").iter().any(|line| line.contains("is back after"));
    eventually(PATIENCE, back).await;
    assert!(!messages.database_is_down().unwrap());
    sign.give("");
    send::<Pg<false>>(&db.messages().await, Does::Note, 5).await;
    db.drained().await;

    let warned = logs.about(&place, "WARN");
    assert_eq!(warned.len(), 1, "{warned:#?}");
    assert!(warned[0].contains("is down (") && warned[0].contains("calls that need it wait"), "{warned:#?}");
    let told = logs.about(&place, "INFO");
    let told: Vec<_> = told.iter().filter(|line| line.contains("is back")).collect();
    assert!(told.len() == 1 && told[0].contains("1 claimed job kept"), "{told:#?}");
    assert_eq!((logs.about(&place, "ERROR"), logs.bare()), (vec![], vec![]));
    let quiet = logs.about(&place, "DEBUG");
    println!("{} lines were not worth a warning", quiet.len());
    assert!(quiet.len() > 5, "the outage hit nobody: {quiet:#?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A network that drops everything: some statement's missing answer comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_logged_once() {
    let logs = Logs::capture();
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let config = hasty(db.config_by(proxy.address));
    let (place, sign) = (name(&config), Sign::new());
    let (_messages, executor) = busy(&db, &config, &sign).await;

    proxy.stall();
    eventually(PATIENCE, async || logs.about(&place, "WARN").iter().any(|line| line.contains("is down ("))).await;
    tokio::time::sleep(OUTAGE).await;
    proxy.heal();
    let back = async || logs.about(&place, "INFO").iter().any(|line| line.contains("1 claimed job kept"));
    eventually(PATIENCE, back).await;
    sign.give("");
    db.drained().await;
    let warned = logs.about(&place, "WARN");
    assert!(warned.len() <= 2, "{warned:#?}");
    assert_eq!((logs.about(&place, "ERROR"), logs.bare()), (vec![], vec![]));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Connections are ended and the server lives: that is no outage, and one line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_lost_are_no_outage() {
    let logs = Logs::capture();
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let config = hasty(db.config_by(proxy.address));
    let (place, sign) = (name(&config), Sign::new());
    let (_messages, executor) = busy(&db, &config, &sign).await;

    proxy.cut();
    eventually(PATIENCE, async || logs.about(&place, "WARN").iter().any(|line| line.contains("were lost ("))).await;
    sign.give("");
    send::<Pg<false>>(&db.messages().await, Does::Note, 5).await;
    db.drained().await;
    let warned = logs.about(&place, "WARN");
    assert!(
        warned.iter().all(|line| line.contains("were lost (") && line.contains("it can be reached")),
        "{warned:#?}"
    );
    assert_eq!(logs.bare(), [""; 0]);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Ends the connections of the executor, so that it meets the change.
const END: &str =
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app' and pid <> pg_backend_pid()";

/// Lets an administrator do this to the role of an executor, on a server that goes on, and undo it. Returns the lines that were logged meanwhile, but for
/// those about the connections that this ended.
async fn refused_and_accepted(
    (refuse, accept): (&str, &str),
    told: &str,
    is_outage: bool,
) -> Option<(Logs, Vec<String>, String)> {
    postgres_url()?;
    let logs = Logs::capture();
    let server = PrivatePg::start();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.create_ledger().await;
    let admin = db.client().await;
    admin.batch_execute("create role app superuser login").await.unwrap();
    let config = World::config(&db);
    let url = config.url.expose().replace("postgres@127.0.0.1", "app@localhost");
    let config = hasty(config.with_url(url));
    let (place, sign) = (name(&config), Sign::new());
    let (_messages, executor) = busy(&db, &config, &sign).await;
    admin.batch_execute(&format!("{refuse}; {END}")).await.unwrap();
    eventually(PATIENCE, async || logs.about(&place, "WARN").iter().any(|line| line.contains(told))).await;
    tokio::time::sleep(OUTAGE).await;
    let warned: Vec<_> = logs.about(&place, "WARN").into_iter().filter(|line| !line.contains("were lost (")).collect();
    admin.batch_execute(&format!("begin read write; {accept}; commit; {END}")).await.unwrap();
    if is_outage {
        let back = async || logs.about(&place, "INFO").iter().any(|line| line.contains("is back after"));
        eventually(PATIENCE, back).await;
    }
    sign.give("");
    db.drained().await;
    assert_eq!((logs.about(&place, "ERROR"), logs.bare()), (vec![], vec![]));
    executor.shutdown(Duration::ZERO).await.unwrap();
    Some((logs, warned, place))
}

/// The first task that meets it logs a hint, and then one line stands for all, as in an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_log_in_any_more_is_told_once() {
    let change = ("alter role app nologin", "alter role app login");
    let Some((_, warned, _)) = refused_and_accepted(change, "can't be used (", true).await else { return };
    let told: Vec<_> = warned.iter().filter(|line| line.contains("is not permitted to log in")).collect();
    assert!((1..=2).contains(&told.len()), "{warned:#?}");
    assert_eq!(told.iter().filter(|line| line.contains("can't be used (")).count(), 1, "{warned:#?}");
}

/// As a provider does when a disk is full. Readers go on, so it is no outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_writes_is_told_once() {
    let set = "alter role app set default_transaction_read_only = on";
    let change = (set, "alter role app reset default_transaction_read_only");
    let Some((logs, warned, place)) = refused_and_accepted(change, "takes no writes (", false).await else { return };
    assert_eq!(warned.iter().filter(|line| line.contains("takes no writes (")).count(), 1, "{warned:#?}");
    assert!(!warned.iter().any(|line| line.contains("JW-READ-ONLY")), "{warned:#?}");
    assert!(
        !logs.about(&place, "INFO").iter().any(|line| line.contains("is back after")),
        "it was reached all the time"
    );
}
