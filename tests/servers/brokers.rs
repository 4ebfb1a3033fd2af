//! Several brokers, and brokers that require a certificate.

use std::time::{Duration, Instant};

use jobwright::{Broker, BrokerConfig};

use crate::servers::{Silent, closed};
use crate::support::amqp_url;
use crate::support::certificates::Authority;
use crate::support::environment::PATIENCE;
use crate::support::eventually;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::proxy::Proxy;

/// Returns `user:password@` and the rest behind the host.
fn parts(url: &str) -> (String, String, String) {
    let rest = url.strip_prefix("amqp://").unwrap();
    let (credentials, rest) = rest.split_once('@').unwrap();
    let (host, vhost) = rest.split_once('/').unwrap();
    (credentials.to_owned(), host.to_owned(), vhost.to_owned())
}

fn config(url: String) -> BrokerConfig {
    BrokerConfig::url(url).connect_timeout(Duration::from_secs(1)).prefix(crate::support::unique("t"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_broker_is_tried_when_one_refuses_or_is_silent() {
    let Some(url) = amqp_url() else { return };
    let (user, real, vhost) = parts(&url);
    let (silent, nobody) = (Silent::start().await, closed().await);
    for url in [
        format!("amqp://{user}@{nobody},{},{real}/{vhost}", silent.address),
        format!("amqp://{user}@{}/{vhost},amqp://{user}@{nobody}/{vhost},{url}", silent.address),
    ] {
        let start = Instant::now();
        let broker = Broker::start(&config(url)).unwrap();
        broker.up_within(Duration::from_secs(30)).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        broker.close(Duration::from_secs(2)).await;
    }
    // The error has each broker's reason, and no password.
    let broker = Broker::start(&config(format!("amqp://u:sekrit@{nobody},{}/", silent.address))).unwrap();
    let told = async || broker.up_within(Duration::from_millis(500)).await.unwrap_err().to_string();
    eventually(PATIENCE, async || {
        let text = told().await;
        assert!(!text.contains("sekrit"), "{text}");
        let reasons = [format!("{nobody} (vhost /): "), format!("{} (vhost /): no ", silent.address)];
        reasons.iter().all(|part| text.contains(part))
    })
    .await;
    broker.close(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_loss_the_next_broker_is_tried() {
    let Some(url) = amqp_url() else { return };
    let (user, real, vhost) = parts(&url);
    let (one, other) = (Proxy::start(real.clone()).await, Proxy::start(real).await);
    let broker = Broker::start(&config(format!("amqp://{user}@{},{}/{vhost}", one.address, other.address))).unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    let changes = broker.stats().changes.total();
    one.down();
    eventually(PATIENCE, async || broker.stats().changes.total() > changes && broker.is_up()).await;
    broker.close(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_is_reached_over_tls_with_a_certificate_instead_of_a_password() {
    if amqp_url().is_none() {
        return;
    }
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.sign("server", "DNS:localhost,IP:127.0.0.1");
    authority.sign("worker", "DNS:client");
    let port = closed().await.port();
    let file = |name: &str| authority.path(name);
    let server = PrivateRabbit::start_with(
        &format!(
            "listeners.ssl.default = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
             ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n\
             auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN\nssl_cert_login_from = common_name\n",
            file("ca.pem"),
            file("server.pem"),
            file("server.key"),
        ),
        "[rabbitmq_auth_mechanism_ssl].\n",
    );
    server.add_user("worker", "nobody-knows", "/", Some([".*", ".*", ".*"]));
    let identity = format!("certfile={}&keyfile={}", file("worker.pem"), file("worker.key"));
    let up = async |credentials: &str, parameters: &str| {
        let url = format!("amqps://{credentials}127.0.0.1:{port}/?{parameters}");
        let broker = Broker::start(&config(url).connect_timeout(Duration::from_secs(20))).unwrap();
        let up = tokio::time::timeout(PATIENCE, async {
            loop {
                match broker.up_within(Duration::from_millis(200)).await {
                    Err(error) if error.to_string().contains("not connected yet") => {}
                    ended => return ended,
                }
            }
        })
        .await
        .unwrap();
        broker.close(Duration::from_secs(2)).await;
        up
    };
    let (ours, theirs) = (format!("cacertfile={}", file("ca.pem")), format!("cacertfile={}", stranger.path("ca.pem")));
    up("", &format!("{ours}&{identity}&auth_mechanism=external")).await.unwrap();
    up("guest:guest@", &ours).await.unwrap();
    up("guest:guest@", "verify=verify_none").await.unwrap();
    for (credentials, parameters) in [("guest:guest@", theirs.as_str()), ("guest:guest@", ""), ("guest:sekrit@", &ours)]
    {
        let error = up(credentials, parameters).await.unwrap_err().to_string();
        assert!(!error.contains("sekrit"), "{error}");
    }
}
