//! `jobwright broker rejected`: messages that were rejected to the broker's queues for them.

use jobwright::Broker;
use jobwright::internal::{RejectedMessage, RejectedMessages, RejectedQueue};
use serde_json::json as value;

use super::connect_broker;
use crate::args::{RejectedArgs, RejectedCommand, RejectedListArgs, WhichArgs};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line, or_dash, print, table};

/// Messages resubmitted or removed at a time.
const BATCH: usize = 100;

pub(super) async fn run(settings: &Settings, command: &RejectedCommand) -> Result<(), Failure> {
    match command {
        RejectedCommand::List(args) => list(settings, args).await,
        RejectedCommand::Resubmit(args) => operate(settings, What::PutBack, args.of.into(), &args.operate).await,
        RejectedCommand::Drop(args) => operate(settings, What::Remove, args.of.into(), &args.operate).await,
    }
}

async fn list(settings: &Settings, args: &RejectedListArgs) -> Result<(), Failure> {
    let broker = connect_broker(settings).await?;
    let mut found = Vec::new();
    for &queue in RejectedQueue::ALL {
        if args.of.is_some_and(|of| RejectedQueue::from(of) != queue) {
            continue;
        }
        let Some(mut messages) = broker.rejected(queue).await? else { continue };
        let mut here = 0;
        while here < args.limit
            && let Some(message) = next(&mut messages, &args.which).await?
        {
            found.push(message);
            here += 1;
        }
        messages.close().await?;
    }
    match args.output.output {
        Format::Json => json(&found),
        Format::Table if found.is_empty() => line("No rejected messages."),
        Format::Table => print(table(
            ["queue", "id", "kind", "bytes", "reason", "error"],
            found.into_iter().map(|message| {
                let RejectedMessage { queue, id, kind, bytes, reason, error, .. } = message;
                [queue, or_dash(id), or_dash(kind), bytes.to_string(), or_dash(reason), or_dash(error)]
            }),
        )),
    }
}

/// Returns the next selected message.
async fn next(messages: &mut RejectedMessages<'_>, which: &WhichArgs) -> Result<Option<RejectedMessage>, Failure> {
    while let Some(message) = messages.next().await? {
        let id = which.id.is_empty() || message.id.as_ref().is_some_and(|id| which.id.contains(id));
        if id && which.reason.as_ref().is_none_or(|reason| message.reason.as_ref() == Some(reason)) {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// What is done with the messages.
#[derive(Clone, Copy)]
enum What {
    PutBack,
    Remove,
}

impl What {
    const fn done(self) -> &'static str {
        match self {
            Self::PutBack => "resubmitted",
            Self::Remove => "removed",
        }
    }
}

async fn operate(settings: &Settings, what: What, queue: RejectedQueue, args: &RejectedArgs) -> Result<(), Failure> {
    let anything = args.which.id.is_empty() && args.which.reason.is_none() && args.limit.is_none();
    if anything != args.all {
        return Err(Failure::Usage(
            "choose messages by `--id`, `--reason` or `--limit`, or give `--all` alone to confirm that all are meant"
                .to_owned(),
        ));
    }
    let names = jobwright::internal::Names::new(settings.broker.prefix.clone());
    if matches!(what, What::PutBack) && queue.source(&names).is_none() {
        return Err(Failure::Usage(
            "messages in this queue need no resubmission: their rows are in the database, and run from there. Look at them with `broker rejected \
             list --of dead`, then `broker rejected drop --of dead`"
                .to_owned(),
        ));
    }
    let broker = connect_broker(settings).await?;
    let (meant, done) = each(&broker, what, queue, args).await?;
    let (name, verb) = (queue.name(&names), what.done());
    match args.output.output {
        Format::Json => json(&value!({ "queue": name, "dry_run": args.dry_run, "found": meant, "done": done }))?,
        Format::Table if args.dry_run => line(format!("{meant} of {name} would be {verb}"))?,
        Format::Table => line(format!("{done} of {name} {verb}"))?,
    }
    if !args.dry_run && done < meant {
        return Err(Failure::Failed(format!(
            "{} of {meant} stay in {name}: the broker did not confirm that they arrived; see `jobwright broker check`",
            meant - done
        )));
    }
    Ok(())
}

/// Processes the selected messages. Returns how many were selected, and how many succeeded.
async fn each(
    broker: &Broker,
    what: What,
    queue: RejectedQueue,
    args: &RejectedArgs,
) -> Result<(usize, usize), Failure> {
    let Some(mut messages) = broker.rejected(queue).await? else { return Ok((0, 0)) };
    let most = args.limit.unwrap_or(usize::MAX);
    let (mut meant, mut done) = (0, 0);
    loop {
        let mut batch = Vec::new();
        while meant < most
            && batch.len() < BATCH
            && let Some(message) = next(&mut messages, &args.which).await?
        {
            meant += 1;
            batch.push(message);
        }
        if batch.is_empty() {
            break;
        }
        if !args.dry_run {
            done += match what {
                What::PutBack => messages.put_back(batch).await?,
                What::Remove => messages.remove(batch).await?,
            };
        }
    }
    messages.close().await?;
    Ok((meant, done))
}

/// Returns the existing queues of rejected messages, with the number of messages in each.
pub(super) async fn waiting(broker: &Broker) -> jobwright::Result<Vec<(String, u32)>> {
    let names: Vec<_> = RejectedQueue::ALL.iter().map(|queue| queue.name(broker.names())).collect();
    let queues = broker.queues(&names).await?;
    Ok(queues.into_iter().filter_map(|queue| Some((queue.name, queue.messages?))).collect())
}

/// What to do about it.
pub(super) const TODO: &str = "`jobwright broker rejected list` says why; correct the cause, then `broker rejected resubmit`, or `drop` messages \
                               that are not needed";
