//! The counts recorded by the last change that accepted them.

use std::collections::BTreeMap;
use std::path::Path;

use super::Values;
use crate::Result;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json");

/// The largest allowed ratio of a count to the recorded one.
const MOST: f64 = 1.1;

pub(super) fn write(values: &Values) -> Result<()> {
    let values: BTreeMap<&str, f64> = values.iter().map(|(name, value)| (*name, rounded(*value))).collect();
    let text = serde_json::to_string_pretty(&values)? + "\n";
    std::fs::write(FILE, text).map_err(|error| format!("{FILE} can't be written: {error}"))?;
    Ok(())
}

pub(super) fn check(values: &Values) -> Result<()> {
    let text = std::fs::read_to_string(Path::new(FILE)).map_err(|error| format!("{FILE} can't be read: {error}"))?;
    let recorded: BTreeMap<String, f64> =
        serde_json::from_str(&text).map_err(|error| format!("{FILE} is not what `--write` writes: {error}"))?;
    let verdicts = compare(values, &recorded);
    println!("| count | now | recorded | |\n|---|---|---|---|");
    for (name, now, then, verdict) in &verdicts {
        println!("| {name} | {now} | {} | {verdict} |", then.map_or_else(|| "-".to_owned(), |then| then.to_string()));
    }
    let grown: Vec<String> =
        verdicts.iter().filter(|(.., verdict)| verdict.fails()).map(|(name, ..)| (*name).to_owned()).collect();
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these counts are more than {MOST} times what is recorded, or not recorded: {}. If the change is worth it, record them: \
         cargo xtask counts --write",
        grown.join("; ")
    )
    .into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Less,
    Grown,
    Unknown,
}

impl Verdict {
    fn fails(self) -> bool {
        matches!(self, Self::Grown | Self::Unknown)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Same => "",
            Self::Less => "less: record it",
            Self::Grown => "GROWN",
            Self::Unknown => "NOT RECORDED",
        })
    }
}

fn compare(values: &Values, recorded: &BTreeMap<String, f64>) -> Vec<(&'static str, f64, Option<f64>, Verdict)> {
    let verdict = |now: f64, then: Option<f64>| match then {
        None => Verdict::Unknown,
        Some(then) if now > then * MOST => Verdict::Grown,
        Some(then) if now * MOST < then => Verdict::Less,
        Some(_) => Verdict::Same,
    };
    let line = |(name, value): &(&'static str, f64)| {
        let (now, then) = (rounded(*value), recorded.get(*name).copied());
        (*name, now, then, verdict(now, then))
    };
    values.iter().map(line).collect()
}

/// Three digits are enough to see a tenth.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_a_tenth_higher_or_not_recorded_fails() {
        let recorded = BTreeMap::from([("statements".to_owned(), 2.0), ("bytes".to_owned(), 300.0)]);
        let verdicts = |statements, bytes| {
            let values = vec![("statements", statements), ("bytes", bytes), ("new", 1.0)];
            compare(&values, &recorded).into_iter().map(|(.., verdict)| verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(2.0, 330.0), [Verdict::Same, Verdict::Same, Verdict::Unknown]);
        assert_eq!(verdicts(2.21, 250.0), [Verdict::Grown, Verdict::Less, Verdict::Unknown]);
        assert!(Verdict::Grown.fails() && Verdict::Unknown.fails() && !Verdict::Less.fails());
    }
}
