//! Checks the broker: whether it answers, which rights the user has, and what exists there.

use jobwright::internal::{TopologyItem, TopologyState};
use jobwright::{Broker, BrokerMode, Secret};
use ureq::http::Uri;

use super::installation::{self, Known};
use super::{Finding, version};
use crate::commands::broker::{Queues, good};
use crate::commands::{broker_reached, rejected};
use crate::config::Settings;

pub(super) async fn check(settings: &Settings, known: &Known) -> Vec<Finding> {
    let Some(url) = &settings.broker.url else {
        return vec![Finding::ok("broker", "none configured: DB-only")];
    };
    let broker = match Broker::start(&settings.broker) {
        Ok(broker) => broker,
        Err(error) => return vec![Finding::error("broker", error, "correct the section `[broker]`")],
    };
    if let Err(error) = broker_reached(&broker, settings).await {
        let todo = "check `broker.url` (AMQP_URL), that the broker runs and lets this host in, user, password and vhost; until then jobs run from \
                    the table";
        return vec![Finding::error("broker", error, todo), tls(url)];
    }
    let mut findings =
        vec![Finding::ok("broker", format!("answers: {}", broker.describe())), version::check(url).await, tls(url)];
    findings.push(match broker.ask(settings.broker.connect_timeout).await {
        BrokerMode::Blocked(why) => Finding::warn(
            "broker alarm",
            format!("it takes no messages: {why}"),
            "free memory or disk space at the broker (`rabbitmq-diagnostics alarms`); until then jobs run from the table",
        ),
        _ => Finding::ok("broker alarm", "none"),
    });
    let queues = Queues::configured(settings);
    match broker.check(&queues.own, &queues.external).await {
        Ok(items) => findings.extend(topology(&items, settings.broker.declare)),
        Err(error) => findings.push(Finding::error("broker queues", error, "try again; see the broker's log")),
    }
    findings.push(installation::queues(settings, &broker, known).await);
    findings.push(installation::consumers(settings, &broker, known).await);
    findings.push(put_aside(rejected::waiting(&broker).await));
    broker.close(std::time::Duration::from_secs(2)).await;
    findings
}

fn topology(items: &[TopologyItem], declare: bool) -> Vec<Finding> {
    const CHECK: &str = "broker queues";
    let name = |item: &TopologyItem| format!("{} {}", item.kind, item.name);
    let mut findings = Vec::new();
    let missing: Vec<String> = items.iter().filter(|item| item.state == TopologyState::Missing).map(name).collect();
    if !missing.is_empty() {
        let found = format!("missing: {}", missing.join(", "));
        findings.push(if declare {
            Finding::warn(CHECK, found, "the first worker declares them; or run `jobwright broker apply`")
        } else {
            Finding::fail(CHECK, found, "run `jobwright broker apply` as a user who may configure them")
        });
    }
    for item in items {
        match &item.state {
            TopologyState::Differs(why) => findings.push(Finding::fail(
                CHECK,
                format!("{} differs: {why}", name(item)),
                "delete it when it is empty, then run `jobwright broker apply`; or set `broker.depth` and `queue_type` to its settings",
            )),
            TopologyState::Forbidden(why) => findings.push(Finding::fail(
                "broker rights",
                format!("{}: {why}", name(item)),
                "give the user the rights that broker/README.md lists",
            )),
            _ => {}
        }
    }
    let unlimited: Vec<String> =
        items.iter().filter(|item| item.state == TopologyState::Unlimited).map(|item| item.name.clone()).collect();
    if !unlimited.is_empty() {
        findings.push(Finding::warn(
            "broker limits",
            format!("declared by an earlier version, without limits: {}", unlimited.join(", ")),
            "set them by a policy, which needs no stop: docs/operations.md, \"Set-up on RabbitMQ\"; if one is set, this can't be seen from here",
        ));
    }
    if items.iter().all(good) {
        findings.push(Finding::ok(CHECK, format!("all {} exist with the right settings", items.len())));
    }
    findings
}

fn put_aside(waiting: jobwright::Result<Vec<(String, u32)>>) -> Finding {
    const CHECK: &str = "broker rejected";
    match waiting {
        Err(error) => Finding::error(CHECK, error, "try again; see the broker's log"),
        Ok(waiting) => {
            let some: Vec<_> = waiting.iter().filter(|(_, messages)| *messages > 0).collect();
            if some.is_empty() {
                return Finding::ok(CHECK, "no rejected messages");
            }
            let each: Vec<_> = some.iter().map(|(queue, messages)| format!("{messages} in {queue}")).collect();
            Finding::warn(CHECK, format!("rejected messages: {}", each.join(", ")), rejected::TODO)
        }
    }
}

fn tls(url: &Secret) -> Finding {
    const CHECK: &str = "broker encryption";
    // One URL, or several separated by commas; each may name several hosts.
    let all = url.expose();
    let Ok(uri) = all.split(',').next().unwrap_or_default().parse::<Uri>() else {
        return Finding::ok(CHECK, "not known from this URL");
    };
    let here = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]") | None);
    match (all.contains("amqp://"), here && !all.contains(',')) {
        (false, _) => Finding::ok(CHECK, "TLS"),
        (_, true) => Finding::ok(CHECK, "TLS is off, and not needed for this host"),
        _ => {
            Finding::warn(CHECK, "TLS is off: the password and the jobs can be read on the network", "use `amqps://…`")
        }
    }
}
