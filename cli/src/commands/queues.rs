//! `jobwright queues`: counts, pauses and limits.

use jobwright::admin::{EACH, NodeStatus, QueueStatus, Rule, Scope, Shares};
use serde::Serialize;

use super::slow_notice::with_slow_notice;
use super::{connect_database, rules};
use crate::args::{LimitArgs, OutputArgs, QueueArgs, QueuesCommand};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, print, say, table};

pub(crate) async fn run(settings: &Settings, command: QueuesCommand) -> Result<(), Failure> {
    let pause = async |args: QueueArgs, paused| {
        rules::change(settings, Scope::Queue, &args.queue, &args.operator, move |rule| rule.paused = paused).await
    };
    match command {
        QueuesCommand::List(output) => list(settings, output).await,
        QueuesCommand::Pause(args) => {
            let queue = args.queue.clone();
            pause(args, true).await?;
            // The queue is paused, whatever becomes of the note.
            if let Err(error) = note_unknown(settings, &queue).await {
                tracing::debug!(%error, "could not check whether the queue is known");
            }
            Ok(())
        }
        QueuesCommand::Resume(args) => pause(args, false).await,
        QueuesCommand::Limit(args) => limit(settings, args).await,
    }
}

/// Says so if nothing is known of a queue: its name may be a typo.
async fn note_unknown(settings: &Settings, queue: &str) -> Result<(), Failure> {
    if queue == EACH {
        return Ok(());
    }
    let admin = connect_database(settings).await?.admin();
    if !admin.why_waiting(Some(queue), None).await?.is_empty() {
        return Ok(());
    }
    let serves = |node: &NodeStatus| {
        node.serves.as_ref().is_none_or(|serves| serves.queues.contains_key(queue) || serves.external.contains(queue))
    };
    if !admin.nodes().await?.iter().any(serves) {
        say(format!("no job waits in the queue {queue:?} now, and no node works on it: is the name right?"));
    }
    Ok(())
}

async fn limit(settings: &Settings, args: LimitArgs) -> Result<(), Failure> {
    let LimitArgs { queue, rule, aging, depth, share_by, weight, operator } = args;
    if rule.is_empty() && aging.is_none() && depth.is_none() && share_by.is_none() && weight.is_empty() {
        return Err(rules::nothing_given("`--running`, `--rate`, `--aging`, `--depth`, `--share-by` or `--weight`"));
    }
    rules::change(settings, Scope::Queue, &queue, &operator, move |old| {
        rules::apply(old, &rule);
        if let Some(aging) = aging {
            old.aging = aging.0;
        }
        if let Some(depth) = depth {
            old.depth = depth.0;
        }
        if let Some(by) = share_by {
            let weights = old.shares.take().map(|shares| shares.weights).unwrap_or_default();
            old.shares = by.0.map(|by| Shares { by, weights });
        }
        if let Some(shares) = &mut old.shares {
            shares.weights.extend(weight);
        }
    })
    .await
}

/// A queue with its rule.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    status: QueueStatus,
    rule: Option<Rule>,
}

async fn list(settings: &Settings, output: OutputArgs) -> Result<(), Failure> {
    let admin = connect_database(settings).await?.admin();
    let rules: Vec<Rule> = with_slow_notice(settings, admin.rules())
        .await?
        .into_iter()
        .filter(|rule| rule.scope == Scope::Queue)
        .collect();
    let mut queues = with_slow_notice(settings, admin.queues()).await?;
    for rule in &rules {
        if queues.iter().all(|queue| queue.queue != rule.name) && rule.name != EACH {
            queues.push(QueueStatus { queue: rule.name.clone(), ..QueueStatus::default() });
        }
    }
    queues.sort_by(|a, b| a.queue.cmp(&b.queue));
    let each = rules.iter().find(|rule| rule.name == EACH);
    let rule = |name: &str| {
        let mut rule = rules.iter().find(|rule| rule.name == name).or(each)?.clone();
        // A pause of all queues also pauses those with a rule of their own.
        rule.paused |= each.is_some_and(|each| each.paused);
        Some(rule)
    };
    let listed: Vec<Listed> = queues.into_iter().map(|status| Listed { rule: rule(&status.queue), status }).collect();
    match output.output {
        Format::Json => json(&listed),
        Format::Table => print(table(
            ["queue", "waiting", "blocked", "running", "external", "timer", "suspended", "dead", "rule"],
            listed.iter().map(|Listed { status, rule }| {
                let [waiting, blocked, running, external, timer, _overdue, suspended, dead] =
                    status.counts().map(|(_, count)| count.to_string());
                let rule = rule.as_ref().map_or_else(|| "-".to_owned(), rules::text);
                [status.queue.clone(), waiting, blocked, running, external, timer, suspended, dead, rule]
            }),
        )),
    }
}
