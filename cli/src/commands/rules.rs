//! `jobwright rules`: rules for kinds, tenants, limit keys and groups on all nodes.

use std::env;

use jobwright::admin::Admin;
use jobwright::admin::{Rule, Scope, ShareBy};
use jobwright::{AnyStore, MessageServices};
use nix::unistd::{Uid, User};

use super::connect_database;
use super::slow_notice::with_slow_notice;
use crate::args::{OperatorArgs, OutputArgs, PutRuleArgs, RuleArgs, RulesCommand};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line, or_dash, print, table};

pub(crate) async fn run(settings: &Settings, command: RulesCommand) -> Result<(), Failure> {
    match command {
        RulesCommand::List(output) => list(settings, output).await,
        RulesCommand::Put(args) => {
            let PutRuleArgs { name, rule, paused } = args;
            if paused.is_none() && rule.is_empty() {
                return Err(nothing_given("`--running`, `--rate` or `--paused`"));
            }
            change(settings, name.scope, &name.name, &name.operator, move |old| {
                old.paused = paused.unwrap_or(old.paused);
                apply(old, &rule);
            })
            .await
        }
        RulesCommand::Delete(name) => {
            let there = connect_database(settings).await?.admin().rule(name.scope, &name.name).await?;
            if there.is_empty() {
                return Err(Failure::Failed(format!(
                    "there is no rule for {} {:?}; `jobwright rules list` shows the existing rules",
                    name.scope, name.name
                )));
            }
            change(settings, name.scope, &name.name, &name.operator, |rule| *rule = Rule::new(rule.scope, &*rule.name))
                .await
        }
    }
}

/// The error for a command that sets nothing.
pub(super) fn nothing_given(flags: &str) -> Failure {
    Failure::Usage(format!("no setting is given: give at least one of {flags}"))
}

/// Applies the given values to a rule.
pub(super) fn apply(rule: &mut Rule, args: &RuleArgs) {
    if let Some(running) = args.running {
        rule.running = running.0;
    }
    if let Some(rate) = args.rate {
        rule.rate = rate.0;
    }
}

/// Changes a rule, and prints the result.
pub(super) async fn change(
    settings: &Settings,
    scope: Scope,
    name: &str,
    operator: &OperatorArgs,
    with: impl FnOnce(&mut Rule) + Send + 'static,
) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let (tell, told) = std::sync::mpsc::channel();
    let edit = move |rule: &mut Rule| {
        // Fails only if nothing waits for the answer any more.
        let _ = tell.send(rule.is_empty());
        with(rule);
    };
    let rule = operator.admin(&messages).change_rule(scope, name, edit).await?;
    messages.wake_ups_sent().await;
    let was_empty = told.recv().unwrap_or(true);
    let said = match (was_empty, rule.is_empty()) {
        (true, true) => "there is no rule, as before".to_owned(),
        (false, true) => "no rule any more".to_owned(),
        _ => text(&rule),
    };
    line(format!("{scope} {name}: {said}"))
}

async fn list(settings: &Settings, output: OutputArgs) -> Result<(), Failure> {
    let admin = connect_database(settings).await?.admin();
    let rules = with_slow_notice(settings, admin.rules()).await?;
    match output.output {
        Format::Json => json(&rules),
        Format::Table => print(table(
            ["scope", "name", "rule"],
            rules.iter().map(|rule| [rule.scope.to_string(), rule.name.clone(), text(rule)]),
        )),
    }
}

/// Formats a rule in one line.
pub(super) fn text(rule: &Rule) -> String {
    let mut parts = Vec::new();
    if rule.paused {
        parts.push("paused".to_owned());
    }
    parts.extend(rule.running.map(|n| format!("running {n}")));
    parts.extend(rule.rate.map(|rate| format!("rate {rate}")));
    parts.extend(rule.aging.map(|aging| format!("aging {aging:?}")));
    parts.extend(rule.depth.map(|depth| format!("depth {depth}")));
    if let Some(shares) = &rule.shares {
        let by = match shares.by {
            ShareBy::Tenant => "tenant",
            ShareBy::Kind => "kind",
            _ => "something that this program does not know",
        };
        let weights =
            shares.weights.iter().map(|(name, weight)| format!(" {name}={weight}")).collect::<Vec<_>>().concat();
        parts.push(format!("shares by {by}{weights}"));
    }
    or_dash((!parts.is_empty()).then(|| parts.join(", ")))
}

impl OperatorArgs {
    /// Returns the management API in this operator's name.
    pub(crate) fn admin(&self, messages: &MessageServices<AnyStore>) -> Admin {
        messages.admin().by(self.name())
    }

    /// Returns the name for the audit log.
    pub(crate) fn name(&self) -> String {
        self.operator.clone().unwrap_or_else(|| {
            let first = |names: [&str; 2]| names.iter().find_map(|name| env::var(name).ok().filter(|v| !v.is_empty()));
            // Cron and containers set neither.
            let known = || User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name);
            let user = first(["USER", "LOGNAME"]).or_else(known).unwrap_or_else(|| Uid::effective().to_string());
            let host = first(["HOSTNAME", "HOST"])
                .or_else(|| std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned()))
                .unwrap_or_else(|| "localhost".to_owned());
            format!("{user}@{host}")
        })
    }
}
