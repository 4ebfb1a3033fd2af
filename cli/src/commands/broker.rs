//! `jobwright broker`.

use jobwright::internal::{Ownership, TopologyItem, TopologyState};
use jobwright::{Broker, ExternalQueue};
use serde_json::{Value, json as value};

use super::{connect_broker, connect_database, rejected};
use crate::args::{BrokerArgs, BrokerCommand, ClaimArgs};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line, print, say, table};

pub(crate) async fn run(settings: &Settings, command: &BrokerCommand) -> Result<(), Failure> {
    match command {
        BrokerCommand::Show(args) => {
            let queues = Queues::of(settings, args);
            show(&Broker::plan(&settings.broker, &queues.own, &queues.external), args.output.output)
        }
        BrokerCommand::Apply(args) => {
            let queues = Queues::of(settings, args);
            let broker = connect_broker(settings).await?;
            let items = broker.apply(&queues.own, &queues.external).await?;
            show(&items, args.output.output)?;
            let created = items.iter().filter(|item| item.state == TopologyState::Created).count();
            say(format!("{}: {created} created, {} in total", broker.describe(), items.len()));
            verdict(
                &items,
                "delete a queue or exchange that differs (a queue when it is empty) and apply again; for a forbidden one, use a user who may \
                 configure it",
            )
        }
        BrokerCommand::Check(args) => {
            let queues = Queues::of(settings, args);
            let broker = connect_broker(settings).await?;
            let items = broker.check(&queues.own, &queues.external).await?;
            show(&items, args.output.output)?;
            verdict(
                &items,
                "`jobwright broker apply` declares missing queues and exchanges; one that differs has to be deleted first (a queue when it is empty)",
            )
        }
        BrokerCommand::Claim(args) => claim(settings, args).await,
        BrokerCommand::Rejected(command) => rejected::run(settings, command).await,
    }
}

/// Marks the queues as those of this database's installation.
async fn claim(settings: &Settings, args: &ClaimArgs) -> Result<(), Failure> {
    let admin = connect_database(settings).await?.admin();
    let unknown = || Failure::Failed(format!("{} knows no installations", admin.describe()));
    let installation = admin.installation().await?.ok_or_else(unknown)?;
    let id = installation.at_home()?;
    let broker = connect_broker(settings).await?;
    let before = broker.claim(id, args.take_over).await?;
    let prefix = &settings.broker.prefix;
    // The id of another installation is cut short, or missing, as the broker told it.
    let (word, other, was) = match &before {
        Ownership::Own => ("own", None, "as before".to_owned()),
        Ownership::Unmarked => ("unmarked", None, "they had no mark".to_owned()),
        Ownership::Other(Some(other)) => ("other", Some(other), format!("no longer to {other}")),
        _ => ("other", None, "no longer to another one".to_owned()),
    };
    let short = installation.short_id();
    match args.output.output {
        Format::Json => json(&value!({ "prefix": prefix, "installation": id, "before": word, "other": other }))?,
        Format::Table => {
            line(format!("{}: the queues {prefix}.* belong to the installation {short} ({was})", broker.describe()))?;
        }
    }
    if word == "other" {
        say(
            "executors of the other installation that are connected still take from the queues, until they connect again: stop them, or close \
             their connections",
        );
    }
    Ok(())
}

/// The queues that should exist at the broker.
pub(super) struct Queues {
    pub(super) own: Vec<String>,
    pub(super) external: Vec<String>,
}

impl Queues {
    /// Returns those of the configuration.
    pub(super) fn configured(settings: &Settings) -> Self {
        Self {
            own: settings.own_queues(),
            external: settings.external_queues().map(ExternalQueue::name).map(str::to_owned).collect(),
        }
    }

    /// Returns those of the configuration and the command line.
    fn of(settings: &Settings, args: &BrokerArgs) -> Self {
        let mut queues = Self::configured(settings);
        for name in &args.queue {
            if !queues.own.contains(name) && !queues.external.contains(name) {
                queues.own.push(name.clone());
            }
        }
        queues
    }
}

fn show(items: &[TopologyItem], format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => json(&items.iter().map(document).collect::<Vec<_>>()),
        Format::Table => print(table(
            ["what", "name", "state", "settings"],
            items
                .iter()
                .map(|item| [item.kind.to_string(), item.name.clone(), item.state.to_string(), item.settings.clone()]),
        )),
    }
}

fn document(item: &TopologyItem) -> Value {
    let (state, why) = match &item.state {
        TopologyState::Differs(why) => ("differs".to_owned(), Some(why)),
        TopologyState::Forbidden(why) => ("forbidden".to_owned(), Some(why)),
        other => (other.to_string(), None),
    };
    value!({ "kind": item.kind.to_string(), "name": item.name, "state": state, "why": why, "settings": item.settings })
}

/// Whether an item is as it should be.
pub(super) fn good(item: &TopologyItem) -> bool {
    matches!(item.state, TopologyState::Present | TopologyState::Created | TopologyState::Unlimited)
}

fn verdict(items: &[TopologyItem], todo: &str) -> Result<(), Failure> {
    let bad: Vec<String> =
        items.iter().filter(|item| !good(item)).map(|item| format!("{} {}", item.kind, item.name)).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{} of {} are missing or differ ({}): {todo}", bad.len(), items.len(), bad.join(", "))))
}
