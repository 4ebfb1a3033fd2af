//! The test runner, cargo-nextest: found, or installed in the version given here.

use std::time::Duration;

use crate::run::{self, Result};

/// The version to install where there is none, so that a new machine runs the tests as this one did.
const VERSION: &str = "0.9.151";
/// The oldest version that will do: the first that reads `.config/nextest.toml`, where it is given too.
const OLDEST: [u32; 3] = [0, 9, 100];
/// Compiling it takes some six minutes on two cores; half an hour means that something hangs.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Ensures that `cargo nextest` can run the tests.
pub(crate) fn ensure() -> Result<()> {
    let problem = match version() {
        Some(found) if found >= OLDEST => return Ok(()),
        Some([major, minor, patch]) => format!("cargo-nextest {major}.{minor}.{patch} is too old"),
        None => "cargo-nextest is not installed".to_owned(),
    };
    eprintln!("{problem}; installing {VERSION}");
    let help = format!("cargo install cargo-nextest --locked --version {VERSION}");
    let mut install = run::cargo(["install", "cargo-nextest", "--locked", "--version", VERSION]);
    run::run(&mut install, DEADLINE)
        .map_err(|why| format!("{problem}, and installing it failed: {why}\n  Install it by hand: {help}"))?;
    version().map(drop).ok_or_else(|| {
        format!(
            "cargo-nextest {VERSION} was installed, but cargo does not find it: put its folder (`~/.cargo/bin`, unless \
                 CARGO_HOME or CARGO_INSTALL_ROOT say otherwise) on PATH"
        )
    })
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
}
