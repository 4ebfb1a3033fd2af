//! The figures of a fleet, beside those of few nodes and beside their limits.

use serde_json::{Value, json};

use crate::server;
use crate::table::aligned;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    /// A number of things.
    Whole,
    /// An average.
    Mean,
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "never".to_owned(),
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Whole => format!("{value:.0}"),
            Self::Mean => format!("{value:.2}"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    name: String,
    unit: Unit,
    value: f64,
    /// That of few nodes, and how many times as much a node of the fleet has, or a job of it.
    few: Option<(f64, f64)>,
    /// The most that it may be.
    limit: Option<f64>,
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { name: name.into(), unit, value, few: None, limit: None }
    }

    /// Sets the figure of few nodes, and the ratio to it.
    pub(super) fn beside(mut self, few: f64, ratio: f64) -> Self {
        self.few = Some((few, ratio));
        self
    }

    pub(super) fn at_most(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns whether it is within its limit, if it has one.
    fn is_met(&self) -> Option<bool> {
        self.limit.map(|limit| self.value <= limit)
    }

    fn row(&self) -> Vec<String> {
        let few = self.few.map_or_else(String::new, |(few, _)| self.unit.write(few));
        let ratio = self.few.filter(|(_, ratio)| ratio.is_finite());
        let ratio = ratio.map_or_else(String::new, |(_, ratio)| format!("{ratio:.2}"));
        let limit = self.limit.map_or_else(String::new, |limit| self.unit.write(limit));
        let verdict = match self.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        vec![self.name.clone(), self.unit.write(self.value), few, ratio, limit, verdict.to_owned()]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": format!("{:?}", self.unit),
            "value": self.value,
            "few": self.few.map(|(few, _)| few),
            "ratio": self.few.map(|(_, ratio)| ratio),
            "at_most": self.limit,
            "is_met": self.is_met(),
        })
    }
}

/// All figures, and the conditions of the run.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    nodes: usize,
    few: usize,
    facts: Vec<(String, String)>,
    lines: Vec<Figure>,
    notes: Vec<String>,
    /// Jobs that were lost or started twice.
    pub(super) problems: Vec<String>,
}

impl Figures {
    pub(super) fn new(nodes: usize, few: usize, facts: Vec<(String, String)>) -> Self {
        Self { nodes, few, facts, lines: Vec::new(), notes: Vec::new(), problems: Vec::new() }
    }

    pub(super) fn add(&mut self, figure: Figure) {
        self.lines.push(figure);
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn finish(&mut self) {
        self.facts.push(("load after".to_owned(), server::load()));
    }

    /// Returns the names of the figures that are above their limits.
    pub(super) fn missed(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.is_met() == Some(false)).map(|line| line.name.as_str()).collect()
    }

    /// Returns the table as Markdown.
    pub(super) fn markdown(&self) -> String {
        let facts: Vec<String> = self.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let (nodes, few) = (format!("{} nodes", self.nodes), format!("{} nodes", self.few));
        let mut rows = vec![["what", &nodes, &few, "ratio", "at most", "reached"].map(str::to_owned).to_vec()];
        rows.extend(self.lines.iter().map(Figure::row));
        let notes = self.notes.iter().map(|note| format!("* {note}\n"));
        let problems = self.problems.iter().map(|problem| format!("* WRONG: {problem}\n"));
        let remarks: String = notes.chain(problems).collect();
        format!("{}\n\n{}\n{remarks}", facts.join("; "), aligned(&rows))
    }

    pub(super) fn json(&self) -> String {
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let lines: Vec<Value> = self.lines.iter().map(Figure::json).collect();
        let all = json!({
            "facts": facts, "nodes": self.nodes, "few": self.few, "lines": lines, "notes": self.notes, "problems": self.problems,
        });
        format!("{all:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_limit() {
        let mut figures = Figures::new(40, 10, Vec::new());
        figures.add(Figure::new("connections", Unit::Mean, 3.0).beside(2.0, 1.5).at_most(3.0));
        figures.add(Figure::new("back", Unit::Seconds, f64::NAN).at_most(30.0));
        figures.add(Figure::new("sent", Unit::Whole, 1e6));
        assert_eq!(figures.missed(), ["back"], "what never happened is no success");
        let text = figures.markdown();
        assert!(text.contains("| connections | 3.00     | 2.00     | 1.50  | 3.00    | yes     |"), "{text}");
        assert!(text.contains("| never ") && text.contains("| 30.00 s | no "), "{text}");
        assert!(figures.json().contains("\"is_met\": false"));
    }
}
