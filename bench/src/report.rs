//! The results.

use serde_json::{Value, json};

use crate::server;
use crate::stats::{Spread, spread};

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// More is better.
    PerSecond,
    /// Less is better, as for all that follow.
    Milliseconds,
    CpuSeconds,
    Bytes,
    MebiBytes,
    Count,
    /// A share of 1; more is better.
    Share,
}

impl Unit {
    fn more_is_better(self) -> bool {
        matches!(self, Self::PerSecond | Self::Share)
    }
}

/// The requirement of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Required {
    /// The ratio to the limit.
    Ratio(f64),
    /// The figure itself.
    AtMost(f64),
    AtLeast(f64),
}

/// One line of the table: ours, and the limit beside it, each with one value a run.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Vec<f64>,
    pub(crate) limit: Option<(String, Vec<f64>)>,
    pub(crate) required: Option<Required>,
}

impl Line {
    pub(crate) fn new(name: impl Into<String>, unit: Unit, ours: Vec<f64>) -> Self {
        Self { name: name.into(), unit, ours, limit: None, required: None }
    }

    pub(crate) fn limit(mut self, name: impl Into<String>, values: Vec<f64>) -> Self {
        self.limit = Some((name.into(), values));
        self
    }

    pub(crate) fn required(mut self, required: impl Into<Option<Required>>) -> Self {
        self.required = required.into();
        self
    }

    /// Returns ours relative to the limit of the same run: 1 is as good as the limit, more is better, whatever the unit.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        let (_, limit) = self.limit.as_ref()?;
        let ratios: Vec<f64> = self
            .ours
            .iter()
            .zip(limit)
            .map(|(ours, limit)| if self.unit.more_is_better() { ours / limit } else { limit / ours })
            .filter(|ratio| ratio.is_finite())
            .collect();
        spread(&ratios)
    }

    fn missed(&self) -> bool {
        match self.required {
            None => false,
            Some(Required::Ratio(least)) => self.ratio().is_none_or(|ratio| ratio.median < least),
            Some(Required::AtMost(most)) => spread(&self.ours).is_none_or(|ours| ours.median > most),
            Some(Required::AtLeast(least)) => spread(&self.ours).is_none_or(|ours| ours.median < least),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": format!("{:?}", self.unit),
            "ours": self.ours,
            "limit": self.limit.as_ref().map(|(_, values)| values),
            "limit_name": self.limit.as_ref().map(|(name, _)| name),
            "ratio_median": self.ratio().map(|ratio| ratio.median),
        })
    }
}

/// All lines, and the conditions of the run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The table's name for what ours is compared with.
    pub(crate) beside: &'static str,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) lines: Vec<Line>,
    /// Notes for readers of the table.
    pub(crate) notes: Vec<String>,
    /// All measurements that are in no line.
    raw: Vec<Value>,
}

impl Report {
    pub(crate) fn new(facts: Vec<(String, String)>) -> Self {
        Self { beside: "limit", facts, lines: Vec::new(), notes: Vec::new(), raw: Vec::new() }
    }

    pub(crate) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Adds a line unless one of its values could not be read.
    pub(crate) fn add_known(
        &mut self,
        name: &str,
        unit: Unit,
        ours: Vec<Option<f64>>,
        limit: (&str, Vec<Option<f64>>),
        required: Option<Required>,
    ) {
        let known = |values: Vec<Option<f64>>| values.into_iter().collect::<Option<Vec<f64>>>();
        match known(ours) {
            Some(ours) => {
                let line = Line::new(name, unit, ours).required(required);
                self.add(match known(limit.1) {
                    Some(values) if !values.is_empty() => line.limit(limit.0, values),
                    _ => line,
                });
            }
            None => self.notes.push(format!("{name}: not available")),
        }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn raw(&mut self, value: Value) {
        self.raw.push(value);
    }

    pub(crate) fn finish(&mut self) {
        self.facts.push(("load after".to_owned(), server::load()));
    }

    /// Returns the names of the lines that miss their requirement.
    pub(crate) fn missed(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.missed()).map(|line| line.name.as_str()).collect()
    }

    pub(crate) fn json(&self) -> String {
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let lines: Vec<Value> = self.lines.iter().map(Line::json).collect();
        let all = json!({ "facts": facts, "lines": lines, "notes": self.notes, "raw": self.raw });
        format!("{all:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_one_is_the_limit() {
        let fast = Line::new("x", Unit::PerSecond, vec![40.0, 50.0, 60.0]).limit("l", vec![100.0; 3]);
        assert_eq!(fast.ratio().map(|r| r.median), Some(0.5));
        assert!(!fast.clone().required(Required::Ratio(0.5)).missed());
        assert!(fast.required(Required::Ratio(0.51)).missed());
        let slow = Line::new("x", Unit::Milliseconds, vec![2.0]).limit("l", vec![1.0]);
        assert_eq!(slow.ratio().map(|r| r.median), Some(0.5));
        assert!(Line::new("x", Unit::Count, vec![3.0]).required(Required::AtMost(2.0)).missed());
        let rate = Line::new("x", Unit::PerSecond, vec![10.0]);
        assert!(!rate.clone().required(Required::AtLeast(10.0)).missed());
        assert!(rate.required(Required::AtLeast(11.0)).missed());
    }
}
