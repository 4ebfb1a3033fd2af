//! `jobwright audit`: which operator did what.

use jobwright::admin::AuditFilter;
use serde_json::Value;

use super::connect_database;
use super::slow_notice::with_slow_notice;
use crate::args::{AuditArgs, AuditCommand};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, print, table, time};

pub(crate) async fn run(settings: &Settings, command: AuditCommand) -> Result<(), Failure> {
    let AuditCommand::List(AuditArgs { who, action, before, limit, output }) = command;
    let mut filter = AuditFilter::default();
    (filter.who, filter.action, filter.before) = (who, action, before);
    let admin = connect_database(settings).await?.admin();
    let entries = with_slow_notice(settings, admin.audit(&filter, limit)).await?;
    match output.output {
        Format::Json => json(&entries),
        Format::Table => print(table(
            ["id", "at", "who", "action", "jobs", "what"],
            entries.iter().map(|entry| {
                [
                    entry.id.to_string(),
                    time(entry.at),
                    entry.who.clone(),
                    entry.action.clone(),
                    words(&entry.counts).unwrap_or_else(|| "-".to_owned()),
                    words(&entry.what).unwrap_or_else(|| "all jobs".to_owned()),
                ]
            }),
        )),
    }
}

/// Returns what a JSON value says, for people; `None` = nothing. A setting that is off, empty or not set is left out.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(String::new()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().filter_map(words).collect();
            (!all.is_empty()).then(|| all.join(" "))
        }
        Value::Object(members) => {
            if let (Some(Value::String(scope)), Some(Value::String(name))) = (members.get("scope"), members.get("name"))
            {
                let mut rest = members.clone();
                rest.retain(|key, _| !["scope", "name"].contains(&key.as_str()));
                let rest = words(&Value::Object(rest)).unwrap_or_else(|| "no rule".to_owned());
                return Some(format!("{scope} {name}: {rest}"));
            }
            let all: Vec<String> = members.iter().filter_map(|(name, value)| member(name, value)).collect();
            (!all.is_empty()).then(|| all.join(", "))
        }
    }
}

fn member(name: &str, value: &Value) -> Option<String> {
    let said = words(value)?;
    let name = name.replace('_', " ");
    Some(match value {
        // Only groups its members.
        Value::Object(_) => said,
        Value::Bool(_) => name,
        _ => format!("{name} {said}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_told_in_words() {
        let rule = json!({ "name": "acme", "paused": true, "running": null, "scope": "tenant" });
        assert_eq!(words(&rule).unwrap(), "tenant acme: paused");
        assert_eq!(
            words(&json!({ "name": "acme", "paused": false, "scope": "tenant" })).unwrap(),
            "tenant acme: no rule"
        );
        let retry = json!({ "filter": { "ids": [], "queue": "mail", "states": ["dead"] }, "limit": 10 });
        assert_eq!(words(&retry).unwrap(), "queue mail, states dead, limit 10");
        assert_eq!(words(&json!({ "filter": { "ids": [], "kind": null } })), None);
        assert_eq!(words(&json!({ "sent": 3 })).unwrap(), "sent 3");
    }
}
