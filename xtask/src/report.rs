//! The steps of a run: how long each took and how it ended.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::run::Result;

#[derive(Debug)]
enum End {
    Ok,
    Failed(String),
    NotRun(String),
}

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    end: End,
    /// Lines that the summary shows below the step's own.
    below: Vec<String>,
}

/// Steps in the order they ran.
#[derive(Debug)]
pub(crate) struct Report {
    begun: Instant,
    steps: Vec<Step>,
}

impl Default for Report {
    fn default() -> Self {
        Self { begun: Instant::now(), steps: Vec::new() }
    }
}

impl Report {
    /// Runs one step and records it. Returns whether it succeeded.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> bool {
        eprintln!("\n=== {name}");
        let begin = Instant::now();
        let end = match work() {
            Ok(()) => End::Ok,
            Err(why) => {
                eprintln!("{why}");
                End::Failed(why)
            }
        };
        let ok = matches!(end, End::Ok);
        self.push(name, begin.elapsed(), end);
        ok
    }

    fn push(&mut self, name: &str, took: Duration, end: End) {
        self.steps.push(Step { name: name.to_owned(), took, end, below: Vec::new() });
    }

    /// Adds lines below that of the last step.
    pub(crate) fn below(&mut self, lines: Vec<String>) {
        if let Some(step) = self.steps.last_mut() {
            step.below.extend(lines);
        }
    }

    /// Adds the steps of another report, which ran at the same time as the last ones here.
    pub(crate) fn beside(&mut self, other: Self) {
        let steps = other.steps.into_iter();
        self.steps.extend(steps.map(|step| Step { name: format!("{} (beside the steps above)", step.name), ..step }));
    }

    /// Takes the last step back, which did not come to an answer.
    pub(crate) fn forget_last(&mut self) {
        self.steps.pop();
    }

    /// Records a step that was left out, and why.
    pub(crate) fn not_run(&mut self, name: &str, why: &str) {
        self.push(name, Duration::ZERO, End::NotRun(why.to_owned()));
    }

    /// Prints the summary; an error if any step failed. A step that was not run has not failed.
    pub(crate) fn finish(&self) -> Result<()> {
        eprintln!("\n{}", self.summary());
        let failed: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| matches!(step.end, End::Failed(_)))
            .map(|step| step.name.as_str())
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
    }

    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("Summary\n");
        for Step { name, took, end, below } in &self.steps {
            let seconds = format!("{:.1} s", took.as_secs_f64());
            let line = match end {
                End::Ok => format!("  ok      {seconds:>9}  {name}"),
                End::Failed(why) => {
                    let first = why.lines().next().unwrap_or_default();
                    format!("  FAILED  {seconds:>9}  {name}: {first}")
                }
                End::NotRun(why) => format!("  -       {:>9}  {name}: not run: {why}", ""),
            };
            text.push_str(&line);
            text.push('\n');
            for line in below {
                // Writing to a String does not fail.
                let _ = writeln!(text, "          {:>9}    {line}", "");
            }
        }
        let total = self.begun.elapsed().as_secs_f64();
        let (seconds, minutes) = (format!("{total:.1} s"), total / 60.0);
        let _ = writeln!(text, "          {seconds:>9}  in total, {minutes:.1} minutes");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_run_and_one_not_run_does_not() {
        let mut report = Report::default();
        assert!(report.step("first", || Ok(())));
        let mut other = Report::default();
        assert!(!other.step("meanwhile", || Err("no room".to_owned())));
        assert!(other.finish().is_err());
        report.not_run("second", "the tool is not installed");
        assert!(report.finish().is_ok());

        assert!(!report.step("third", || Err("it broke\nbadly".to_owned())));
        assert_eq!(report.finish(), Err("failed: third".to_owned()));
        let summary = report.summary();
        assert!(summary.contains("second: not run: the tool is not installed"));
        assert!(summary.contains("third: it broke\n"));
        assert!(summary.contains("in total, 0.0 minutes"));
        report.below(vec!["this part".to_owned()]);
        assert!(
            report.summary().contains("third: it broke\n                       this part\n"),
            "{}",
            report.summary()
        );
        report.beside(other);
        assert_eq!(report.finish(), Err("failed: third, meanwhile (beside the steps above)".to_owned()));
    }
}
