//! The names of the tests that failed, for the last lines of a run: its reader may see no others. They come from the report that the test runner
//! writes (`junit` in `.config/nextest.toml`).

use std::path::PathBuf;

use crate::report::Report;
use crate::run::{self, Result};

/// More names would hide the steps around them.
const MOST: usize = 20;

/// Runs the test runner with a profile as a step. If it fails, the tests that failed or were flaky are below its line in the summary.
pub(crate) fn step(report: &mut Report, name: &str, profile: &str, work: impl FnOnce() -> Result<()>) -> bool {
    let file = file(profile);
    let ok = report.step(name, || {
        // That of an earlier run would tell of its tests, if this one ends before any.
        match std::fs::remove_file(&file) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {why}", file.display()))
            }
            _ => work(),
        }
    });
    if !ok && let Ok(text) = std::fs::read_to_string(&file) {
        report.below(lines(&text));
    }
    ok
}

/// Where the runner writes its report: in the checkout, also if cargo builds elsewhere.
fn file(profile: &str) -> PathBuf {
    run::workspace().join("target/nextest").join(profile).join("junit.xml")
}

/// Returns a line for each test that failed and then for each that was flaky, and how many there are beyond the most that are named.
fn lines(report: &str) -> Vec<String> {
    let (mut failed, mut flaky) = (Vec::new(), Vec::new());
    // The runner escapes each `<` in a text.
    for case in report.split("<testcase ").skip(1) {
        let name = format!("{} {}", attribute(case, "classname"), attribute(case, "name"));
        // A flaky test that fails the run has both.
        if case.contains("<flakyFailure") {
            flaky.push(format!("flaky   {name}"));
        } else if case.contains("<failure") {
            failed.push(format!("failed  {name}"));
        }
    }
    failed.append(&mut flaky);
    let more = failed.len().saturating_sub(MOST);
    failed.truncate(MOST);
    if more > 0 {
        failed.push(format!("and {more} more"));
    }
    failed
}

/// Returns the value of an attribute in a tag of which the text begins behind its name.
fn attribute(tag: &str, name: &str) -> String {
    let inside = tag.split('>').next().unwrap_or_default();
    let value = format!(" {inside}").split_once(&format!(" {name}=\"")).map(|(_, rest)| rest.to_owned());
    let value = value.as_deref().and_then(|rest| rest.split('"').next()).unwrap_or("?");
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    plain.into_iter().fold(value.to_owned(), |text, (escaped, character)| text.replace(escaped, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of cargo-nextest 0.9.148 on seven tests, of which one passes, one is ignored, and one is flaky and excused.
    const RECORDED: &str = include_str!("failures/recorded.xml");

    #[test]
    fn tests_that_failed_come_first_and_flaky_ones_behind_them() {
        let expected = [
            "failed  tiny tests::it_fails",
            "failed  tiny tests::it_aborts",
            "failed  tiny tests::it_hangs",
            "flaky   tiny tests::it_is_excused",
            "flaky   tiny tests::it_is_flaky",
        ];
        assert_eq!(lines(RECORDED), expected);
    }

    #[test]
    fn names_beyond_the_most_are_counted() {
        let case =
            |n| format!("<testcase name=\"t{n}\" classname=\"a::b\" time=\"1\">\n<failure type=\"x\"/></testcase>");
        let lines = lines(&(0..25).map(case).collect::<String>());
        assert_eq!(lines.len(), 21);
        assert_eq!((lines[0].as_str(), lines[20].as_str()), ("failed  a::b t0", "and 5 more"));
    }

    #[test]
    fn nothing_is_said_of_tests_that_passed_and_of_half_a_report() {
        assert!(lines("<testsuites><testsuite><testcase name=\"a\" classname=\"b\"/>").is_empty());
        assert!(lines("").is_empty());
        assert_eq!(lines("<testcase name=\"a &lt;b&gt; &amp;amp;\"><failure"), ["failed  ? a <b> &amp;"]);
    }

    #[test]
    fn a_failed_step_names_its_tests_and_not_those_of_an_earlier_run() {
        let (mut report, profile) = (Report::default(), "unit-test-of-xtask");
        let path = file(profile);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, RECORDED).unwrap();
        assert!(!step(&mut report, "before", profile, || Err("it did not compile".to_owned())));
        assert!(!step(&mut report, "tests", profile, || {
            std::fs::write(&path, RECORDED).unwrap();
            Err("it ended with 100".to_owned())
        }));
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let summary = report.summary();
        let (before, tests) = summary.split_once("tests: it ended with 100\n").unwrap();
        assert!(!before.contains("tiny") && tests.contains("  failed  tiny tests::it_aborts\n"), "{summary}");
    }

    #[test]
    fn the_runner_writes_the_report_that_is_read() {
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        assert!(config.contains("[profile.default.junit]") && config.contains("\npath = \"junit.xml\"\n"));
        assert!(!config.contains("[store]"), "the runner's folder is elsewhere");
    }
}
