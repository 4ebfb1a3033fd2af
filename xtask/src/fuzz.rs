//! Searches for harmful inputs with LLVM's libFuzzer, on the stable compiler: fuzz/ has the targets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::run::{self, Result};

/// Inputs for each target by default.
const RUNS: u64 = 10_000_000;
/// The time limit of one target, however slow it is: by then it has had enough inputs.
const LONGEST: Duration = Duration::from_secs(DEADLINE.as_secs() - 600);
/// A target that runs longer hangs.
const DEADLINE: Duration = Duration::from_secs(2 * 60 * 60);
/// An input that takes longer hangs.
const SECONDS_FOR_ONE: u32 = 5;
const MEGABYTES: u32 = 2048;

/// Instrumentation by which libFuzzer sees the paths that an input took. `cargo fuzz` sets the same, and needs a nightly compiler only for its
/// sanitizers, which find nothing in safe code.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=on -Coverflow-checks=on --cfg fuzzing";

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    runs: u64,
    /// Empty: all.
    targets: Vec<String>,
}

pub(crate) fn parse(words: &[&str]) -> std::result::Result<Options, String> {
    let mut options = Options { runs: RUNS, targets: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--runs" => {
                let runs = words.next().and_then(|text| text.parse().ok()).filter(|runs| *runs > 0);
                options.runs = runs.ok_or("--runs takes a number of inputs, such as 10000000")?;
            }
            word if word.starts_with('-') => return Err(format!("unknown option `{word}` of fuzz")),
            name => options.targets.push(name.to_owned()),
        }
    }
    Ok(options)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let host = host()?;
    // A separate target folder: nothing else is built like that. `--target` keeps the flags from build scripts and macros.
    let folder = run::workspace().join("target/fuzz");
    let mut build = run::cargo(["build", "--release", "--package", "jobwright-fuzz", "--features", "libfuzzer"]);
    build
        .args(["--bin", "jobwright-fuzz", "--target", &host, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", INSTRUMENTED);
    run::run(&mut build, run::CARGO)?;
    let program = folder.join(&host).join("release/jobwright-fuzz");
    // Not instrumented: only the fuzzer itself counts paths.
    let mut seeds =
        run::cargo(["run", "--quiet", "--package", "jobwright-fuzz", "--bin", "jobwright-fuzz-seeds", "--"]);
    let known = run::capture(seeds.arg(folder.join("seeds")), run::CARGO)?;
    let known: Vec<(&str, &str)> = known.lines().filter_map(|line| line.split_once(' ')).collect();
    if let Some(name) = options.targets.iter().find(|name| !known.iter().any(|(known, _)| known == name)) {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no target {name:?}; there are {}", names.join(", ")));
    }
    let chosen =
        known.iter().filter(|(name, _)| options.targets.is_empty() || options.targets.iter().any(|n| n == name));
    let mut failed = Vec::new();
    for (name, longest) in chosen {
        if let Err(why) = one(&program, &folder, name, longest, options.runs) {
            eprintln!("fuzz: {why}");
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} found something, kept in fuzz/found/: mend it, and leave the input there for the tests",
        failed.join(", ")
    ))
}

fn one(program: &Path, folder: &Path, name: &str, longest: &str, runs: u64) -> Result<()> {
    let (corpus, found) = (folder.join("corpus").join(name), run::workspace().join("fuzz/found").join(name));
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).map_err(|error| format!("{} can't be made: {error}", folder.display()))?;
    }
    let mut command = std::process::Command::new(program);
    command.env("FUZZ_TARGET", name).args([
        format!("-runs={runs}"),
        format!("-max_total_time={}", LONGEST.as_secs()),
        format!("-max_len={longest}"),
        format!("-timeout={SECONDS_FOR_ONE}"),
        format!("-rss_limit_mb={MEGABYTES}"),
        format!("-artifact_prefix={}/", found.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    // New inputs go to the first folder.
    command.arg(&corpus).arg(folder.join("seeds").join(name)).arg(&found);
    let ended = run::run(&mut command, DEADLINE);
    // An empty folder holds no finding.
    let _ = fs::remove_dir(&found);
    ended
}

/// Returns the compiler's default target.
fn host() -> Result<String> {
    let version = run::capture(std::process::Command::new("rustc").arg("-vV"), Duration::from_secs(30))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_understood() {
        assert_eq!(parse(&[]), Ok(Options { runs: RUNS, targets: Vec::new() }));
        let targets = vec!["url".to_owned(), "frames".to_owned()];
        assert_eq!(parse(&["url", "--runs", "5", "frames"]), Ok(Options { runs: 5, targets }));
        for wrong in [&["--runs"][..], &["--runs", "0"], &["--runs", "many"], &["--quick"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
