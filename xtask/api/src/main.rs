//! Compares the library's public API with the list in the repository: `cargo xtask api`.
//!
//! rustdoc writes the API as JSON, and the crate `public-api` reads it. The JSON is unstable and changes with the compiler: a compiler whose
//! JSON has another version fails the check.

mod changes;
mod joined;
mod listing;
mod rustdoc;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The error is a text: what was tried, why it failed, what to do.
type Result<T> = std::result::Result<T, String>;

/// Where the list is in the repository.
const LIST: &str = "docs/public-api.txt";

fn main() -> ExitCode {
    if let Some(status) = rustdoc::as_wrapper() {
        return status;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        [] => check(),
        ["--write"] => write(),
        _ => Err("usage: cargo xtask api [--write]".to_owned()),
    };
    match result {
        Ok(said) => {
            eprintln!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the API with the list, and says what differs.
fn check() -> Result<String> {
    let file = workspace().join(LIST);
    let listed = std::fs::read_to_string(&file)
        .map_err(|why| format!("cannot read {LIST}: {why}\n  `cargo xtask api --write` writes it"))?;
    let now = now()?;
    let changes = changes::between(&listed, &now);
    if changes.is_empty() {
        return Ok(format!("the public API is as listed in {LIST}, {} lines", now.lines().count()));
    }
    // Within one version of the JSON, the compiler may still name things differently.
    let [then, here] = [&listed, &now].map(|text| text.lines().next().unwrap_or_default());
    let compilers = if then == here {
        String::new()
    } else {
        format!("\nChanges that you did not make may come from the compiler. The list says: {then}\nThis run's: {here}")
    };
    Err(format!(
        "{changes}\nThe public API is not as listed in {LIST}: `-` is gone, `+` is new.{compilers}\n\
         If you meant that, read docs/stability.md, note the change in CHANGELOG.md and record it: cargo xtask api --write"
    ))
}

/// Records the API as it is.
fn write() -> Result<String> {
    let file = workspace().join(LIST);
    let now = now()?;
    let before = std::fs::read_to_string(&file);
    std::fs::write(&file, &now).map_err(|why| format!("cannot write {LIST}: {why}"))?;
    // Without a list, every line is new.
    let changes = before.map(|before| changes::between(&before, &now).to_string()).unwrap_or_default();
    Ok(format!("{changes}{LIST} is written, {} lines", now.lines().count()))
}

/// Returns the list of the API as it is.
fn now() -> Result<String> {
    let compiler = rustdoc::compiler()?;
    listing::text(&rustdoc::json(&workspace())?, &compiler)
}

/// Returns the top folder of the checkout from which this was started.
fn workspace() -> PathBuf {
    // Cargo sets this when it runs the program. The value from build time is the fallback, since checkouts that share a target folder share the
    // program too.
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.ancestors().nth(2).map_or_else(|| own.clone(), Path::to_path_buf)
}
