//! To which installation the queues of a prefix belong.

use std::time::Duration;

use jobwright::Broker;
use jobwright::internal::{Ownership, broker_testing as testing};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions};
use lapin::types::FieldTable;

use crate::broker::{TestSite, up};
use crate::support::eventually;
use crate::support::private_rabbit::PrivateRabbit;

const ONE: &str = "11111111-aaaa-4000-8000-000000000001";
const OTHER: &str = "22222222-bbbb-4000-8000-000000000002";

impl TestSite {
    /// Takes the mark away, as a broker does that lost its definitions.
    async fn unmark(&self) {
        let client = self.client().await;
        let channel = client.create_channel().await.unwrap();
        for exchange in ["owner", "owner.11111111aaaa", "owner.22222222bbbb"] {
            let name = format!("{}.{exchange}", self.prefix);
            channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
        }
        client.close(200, "OK".into()).await.unwrap();
    }

    /// Returns whether an exchange of the prefix exists.
    async fn has_exchange(&self, name: &str) -> bool {
        let client = self.client().await;
        let channel = client.create_channel().await.unwrap();
        let name = format!("{}.{name}", self.prefix);
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let found =
            channel.exchange_declare(name.as_str().into(), ExchangeKind::Fanout, options, FieldTable::default()).await;
        let _ = client.close(200, "OK".into()).await;
        found.is_ok()
    }

    /// Opens a site with a prefix so short that the broker's refusal has room for both ids.
    fn short() -> Option<Self> {
        let mut site = Self::shared()?;
        let cut = site.prefix.len() - 10;
        site.prefix = format!("o{}", &site.prefix[cut..]);
        Some(site)
    }
}

async fn refused(broker: &Broker, id: &str) -> String {
    let error = testing::belong_to(broker, id).await.unwrap_err();
    assert_eq!(error.code(), "JW-INSTALLATION", "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_installation_is_refused_with_both_ids() {
    let Some(site) = TestSite::short() else { return };
    let (first, second) = (site.broker().await, site.broker().await);
    assert_eq!(first.ownership(ONE).await.unwrap(), Ownership::Unmarked);
    testing::belong_to(&first, ONE).await.unwrap();
    assert_eq!(first.ownership(ONE).await.unwrap(), Ownership::Own);
    assert_eq!(second.ownership(OTHER).await.unwrap(), Ownership::Other(Some("11111111aaaa".to_owned())));

    let said = refused(&second, OTHER).await;
    for part in ["the installation 11111111,", "the installation 22222222:", "broker.prefix", "--take-over"] {
        assert!(said.contains(part), "{said}");
    }
    // The handle goes on by the table alone. A new one of the right installation is welcome.
    eventually(Duration::from_secs(20), async || format!("{:?}", second.mode()).contains("11111111")).await;
    testing::belong_to(&*site.broker().await, ONE).await.unwrap();
    assert!(first.is_up());
    site.unmark().await;
}

/// With a long prefix, the broker cuts the other id off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_prefix_is_protected_as_well() {
    let Some(mut site) = TestSite::shared() else { return };
    site.prefix = format!("{:x<40}", site.prefix);
    let (first, second) = (site.broker().await, site.broker().await);
    testing::belong_to(&first, ONE).await.unwrap();
    assert!(refused(&second, OTHER).await.contains("another installation"));
    site.unmark().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_at_once_one_wins() {
    let Some(site) = TestSite::short() else { return };
    for _ in 0..5 {
        let brokers = [site.broker().await, site.broker().await];
        let (one, other) = tokio::join!(testing::belong_to(&brokers[0], ONE), testing::belong_to(&brokers[1], OTHER));
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        site.unmark().await;
    }
}

/// An outage is not a release, and after a loss of its definitions the broker belongs to those who were not refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_broker_may_go_away_and_lose_everything() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    let site = TestSite::at(server.url());
    let first = site.broker().await;
    testing::belong_to(&first, ONE).await.unwrap();
    let second = site.broker().await;
    refused(&second, OTHER).await;
    let counted = first.stats();
    server.stop_app();
    eventually(Duration::from_secs(20), async || !first.is_up()).await;
    server.wipe();
    eventually(Duration::from_secs(60), async || first.is_up()).await;
    assert!(first.stats().changes.total() > counted.changes.total());
    assert_eq!(up(&site.config()).await.ownership(ONE).await.unwrap(), Ownership::Own);
    assert!(!second.is_up(), "{:?}", second.mode());
}

/// The queues are given to another installation on purpose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_is_deliberate() {
    let Some(site) = TestSite::short() else { return };
    let broker = site.broker().await;
    assert_eq!(broker.claim(ONE, false).await.unwrap(), Ownership::Unmarked);
    assert_eq!(broker.claim(ONE, false).await.unwrap(), Ownership::Own);
    let error = broker.claim(OTHER, false).await.unwrap_err();
    assert_eq!(error.code(), "JW-INSTALLATION", "{error}");
    assert_eq!(broker.claim(OTHER, true).await.unwrap(), Ownership::Other(Some("11111111aaaa".to_owned())));
    assert_eq!(broker.ownership(OTHER).await.unwrap(), Ownership::Own);
    refused(&*site.broker().await, ONE).await;
    site.unmark().await;
}

/// Nothing of the other installation is left, however much of its id the broker cuts off: executors that may not configure anything would find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_leaves_nothing_of_the_other() {
    let Some(mut site) = TestSite::shared() else { return };
    let unique = site.prefix.clone();
    for length in [25, 30, 40] {
        site.prefix = format!("{unique:x<length$}");
        site.prefix.truncate(length);
        let broker = site.broker().await;
        broker.claim(ONE, false).await.unwrap();
        assert!(site.has_exchange("owner.11111111aaaa").await);
        assert!(matches!(broker.claim(OTHER, true).await.unwrap(), Ownership::Other(_)));
        assert_eq!(broker.ownership(OTHER).await.unwrap(), Ownership::Own);
        assert!(site.has_exchange("owner.22222222bbbb").await);
        assert!(!site.has_exchange("owner.11111111aaaa").await, "of a prefix of {length} characters");
        site.unmark().await;
    }
}

/// The connection of the one who marked the queues broke in between: executors that may not configure anything look for the second exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_mark_is_made_whole() {
    let Some(site) = TestSite::shared() else { return };
    testing::belong_to(&*site.broker().await, ONE).await.unwrap();
    let client = site.client().await;
    let channel = client.create_channel().await.unwrap();
    let half = format!("{}.owner.11111111aaaa", site.prefix);
    channel.exchange_delete(half.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
    client.close(200, "OK".into()).await.unwrap();
    assert!(!site.has_exchange("owner.11111111aaaa").await);

    testing::belong_to(&*site.broker().await, ONE).await.unwrap();
    assert!(site.has_exchange("owner.11111111aaaa").await);
    site.unmark().await;
}

/// Of several that are given the queues at once, all but one are told whose the queues are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_claims_at_once_one_wins() {
    let Some(site) = TestSite::short() else { return };
    let brokers = [site.broker().await, site.broker().await];
    for _ in 0..10 {
        let (one, other) = tokio::join!(brokers[0].claim(ONE, false), brokers[1].claim(OTHER, false));
        let ((Ok(_), Err(error)) | (Err(error), Ok(_))) = (one, other) else { panic!("not one of them was refused") };
        assert_eq!(error.code(), "JW-INSTALLATION", "{error}");
        assert!(error.to_string().contains("--take-over"), "{error}");
        site.unmark().await;
    }
}

/// The broker asks for more than the right to configure: an exchange with an alternate one is read from, and the alternate one is written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_needs_the_right_to_configure_to_write_and_to_read() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    server.add_vhost("shop");
    let (owner, own) = (r"^t.*\.owner$", r"^t.*\.owner\..+$");
    let both = r"^t.*\.owner(\..+)?$";
    for (user, rights) in [
        ("enough", [both, own, owner]),
        ("configures", [both, "^$", "^$"]),
        ("writes", [both, own, "^$"]),
        ("reads", [both, "^$", owner]),
    ] {
        server.add_user(user, "geheim", "shop", Some(rights));
        let claimed = TestSite::at(server.url_as(user, "geheim", "shop")).broker().await.claim(ONE, false).await;
        if user == "enough" {
            assert_eq!(claimed.unwrap(), Ownership::Unmarked);
        } else {
            let error = claimed.unwrap_err().to_string();
            assert!(error.contains("may configure, write and read"), "{user}: {error}");
        }
    }
}

/// Executors without the right to configure anything can't mark, and are refused all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_without_the_right_to_configure_are_distinguished() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    server.add_vhost("shop");
    server.add_user("executor", "geheim", "shop", Some(["^$", r"^amq\.default$", r"^t.*\.q\..+$"]));
    server.add_user("owner", "geheim", "shop", Some([".*", ".*", ".*"]));
    let owners = TestSite::at(server.url_as("owner", "geheim", "shop"));
    for declare in [false, true] {
        let config = owners.config().with_url(server.url_as("executor", "geheim", "shop")).declare(declare);
        // Nothing is marked yet: an installation of an earlier build goes on.
        testing::belong_to(&*up(&config).await, ONE).await.unwrap();
        let error = up(&config).await.claim(ONE, false).await.unwrap_err();
        assert!(error.to_string().contains("as a user who may configure"), "{error}");

        owners.broker().await.claim(ONE, false).await.unwrap();
        let executor = up(&config).await;
        testing::belong_to(&executor, ONE).await.unwrap();
        assert!(executor.is_up());
        assert_eq!(executor.ownership(ONE).await.unwrap(), Ownership::Own);
        refused(&*up(&config).await, OTHER).await;
        owners.unmark().await;
    }
}
