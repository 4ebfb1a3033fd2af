//! Checks all cases and prints a table: `cargo run --release -p jobwright-model [-- --deep]`.

use std::process::ExitCode;
use std::time::Instant;

use jobwright_model::case::{Expected, Result, Size};
use jobwright_model::cases;

const USAGE: &str = "\
Explores the model of the protocol, and its broken twins, each of which must be refuted: docs/model.md.

Usage: jobwright-model [--small | --deep] [SUBJECT...]";

fn main() -> ExitCode {
    let (mut size, mut subjects) = (Size::Usual, Vec::new());
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--small" => size = Size::Small,
            "--deep" => size = Size::Deep,
            "--help" | "-h" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            option if option.starts_with('-') => {
                eprintln!("jobwright-model: there is no option `{option}`\n\n{USAGE}");
                return ExitCode::from(2);
            }
            subject => subjects.push(subject.to_owned()),
        }
    }
    let mut cases = cases(size);
    if let Some(unknown) = subjects.iter().find(|subject| !cases.iter().any(|case| case.subject == **subject)) {
        eprintln!("jobwright-model: there is no subject `{unknown}`\n\n{USAGE}");
        return ExitCode::from(2);
    }
    cases.retain(|case| subjects.is_empty() || subjects.iter().any(|subject| case.subject == subject));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    let (mut states, mut wrong) = (0, 0);
    println!("{:<9} {:>11} {:>5} {:>8}  rules and verdict", "subject", "states", "depth", "seconds");
    for case in &cases {
        let Result { finding, wrong: complaint } = case.run(threads);
        let verdict = match (&complaint, case.expected, &finding.refuted) {
            (Some(complaint), ..) => format!("WRONG: {complaint}"),
            (None, Expected::Refuted(_), Some(found)) => {
                format!("refuted in {} steps, as it must be", found.path.len())
            }
            _ => "holds".to_owned(),
        };
        let seconds = finding.took.as_secs_f64();
        println!(
            "{:<9} {:>11} {:>5} {seconds:>8.1}  {}: {verdict}",
            case.subject, finding.states, finding.depth, case.says
        );
        if let Some(refutation) = &finding.refuted {
            let indent = " ".repeat(36);
            refutation.to_string().lines().for_each(|line| println!("{indent}{line}"));
        }
        states += finding.states;
        wrong += usize::from(complaint.is_some());
    }
    println!("{} runs, {states} states, {:.1} seconds", cases.len(), begin.elapsed().as_secs_f64());
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        println!("{wrong} of them not as expected");
        ExitCode::FAILURE
    }
}
