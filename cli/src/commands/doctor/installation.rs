//! Checks whether this database and the queues at the broker belong together, and whether other consumers take from them.

use jobwright::Broker;
use jobwright::admin::StatusReport;
use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE};
use jobwright::internal::Installation;
use jobwright::internal::Ownership;

use super::Finding;
use crate::commands::Messages;
use crate::commands::broker::Queues;
use crate::config::Settings;

/// What the checks of the broker compare with.
#[derive(Default)]
pub(super) struct Known {
    pub(super) installation: Option<Installation>,
    /// How many nodes are alive.
    pub(super) nodes: Option<usize>,
}

impl Known {
    pub(super) fn count(&mut self, status: &StatusReport) {
        self.nodes = Some(status.nodes.iter().filter(|node| !node.dead).count());
    }
}

/// Checks whether the database is where its installation was made.
pub(super) async fn database(messages: &Messages, known: &mut Known) -> Finding {
    const CHECK: &str = "installation";
    let installation = match messages.admin().installation().await {
        Ok(Some(installation)) => installation,
        Ok(None) => return Finding::ok(CHECK, "this database records none"),
        Err(error) => return Finding::error(CHECK, error, "this check needs `select` on the table `installation`"),
    };
    let id = installation.short_id().to_owned();
    let finding = if !installation.is_at_home() {
        Finding::fail(
            CHECK,
            format!("no worker starts here: {}", installation.stray()),
            "as the owner of the schema: if it is a copy, `jobwright adopt` makes it a separate installation; if the original is gone for good, \
             `jobwright adopt --moved`",
        )
    } else if let Some(place) = &installation.found {
        let blind = if place.server.is_some() {
            ""
        } else {
            "; a copy of the same name and oid on another server would pass for it"
        };
        Finding::ok(CHECK, format!("{id}, made for this {place}{blind}"))
    } else {
        Finding::ok(CHECK, format!("{id}; a copy of the file would pass for it"))
    };
    known.installation = Some(installation);
    finding
}

/// Checks to which installation the queues of the broker belong.
pub(super) async fn queues(settings: &Settings, broker: &Broker, known: &Known) -> Finding {
    const CHECK: &str = "broker installation";
    let Some(id) = known.installation.as_ref().and_then(|installation| installation.id.as_deref()) else {
        return Finding::ok(CHECK, "not compared: the database was not asked, or does not know its installation");
    };
    let prefix = &settings.broker.prefix;
    match broker.ownership(id).await {
        Err(error) => Finding::error(CHECK, error, "try again; see the broker's log"),
        Ok(Ownership::Own) => Finding::ok(CHECK, format!("the queues {prefix}.* belong to this one")),
        // Where nodes are alive, none of them was able to.
        Ok(Ownership::Unmarked) if settings.broker.declare && known.nodes.is_none_or(|nodes| nodes == 0) => {
            Finding::ok(
                CHECK,
                format!("the queues {prefix}.* belong to no installation yet; the first worker marks them"),
            )
        }
        Ok(Ownership::Unmarked) => Finding::warn(
            CHECK,
            format!(
                "the queues {prefix}.* belong to no installation: an executor of a restored copy could take from them"
            ),
            "run `jobwright broker claim` once, as a user of the broker who may configure, write and read them",
        ),
        Ok(other) => {
            let whose = match other {
                Ownership::Other(Some(id)) => format!("the installation {id}"),
                _ => "another installation".to_owned(),
            };
            Finding::fail(
                CHECK,
                format!("the queues {prefix}.* belong to {whose}, not to this one: its executors are refused there"),
                "give this installation another `broker.prefix` or vhost; or, if it takes the other's place, stop the other's executors and run \
                 `jobwright broker claim --take-over`",
            )
        }
    }
}

/// Compares the consumers of the queues that only executors take from with the nodes that are alive.
pub(super) async fn consumers(settings: &Settings, broker: &Broker, known: &Known) -> Finding {
    const CHECK: &str = "broker consumers";
    let Some(nodes) = known.nodes else { return Finding::ok(CHECK, "not compared: the nodes are not known") };
    let names = broker.names();
    let mut queues: Vec<String> = Queues::configured(settings)
        .own
        .iter()
        .filter(|queue| ![EVENT_QUEUE, REPLY_QUEUE].contains(&queue.as_str()))
        .map(|queue| names.deliveries(queue))
        .collect();
    queues.extend([names.submit(), names.reply()]);
    let found = match broker.queues(&queues).await {
        Ok(found) => found,
        Err(error) => return Finding::error(CHECK, error, "try again; see the broker's log"),
    };
    let most = found.iter().filter_map(|queue| queue.consumers.map(|count| (count, &queue.name))).max();
    let Some((count, name)) = most else { return Finding::ok(CHECK, "none: the queues are missing") };
    let plural = |count: u64, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let said = format!("{} of {name} beside {}", plural(count.into(), "consumer"), plural(nodes as u64, "living node"));
    if u64::from(count) <= nodes as u64 {
        return Finding::ok(CHECK, said);
    }
    Finding::warn(
        CHECK,
        format!("{said}: another consumer takes from it, and its messages are missing here"),
        "if this persists, look for the connection (`rabbitmqctl list_consumers`, the management page): an executor of another database with the \
         same prefix, or a program that is not jobwright's. A node that has just died is counted for up to two heartbeats",
    )
}
