//! A line on the terminal that says how far a long command is.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::output::is_interactive;

/// Returns a bar that counts jobs, in these words ("jobs sent"). Where nobody looks, or none is wanted, it is hidden.
pub(super) fn counter(words: &str, quiet: bool) -> ProgressBar {
    if quiet || !is_interactive() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!("{{spinner}} {{pos}} {words} ({{rate}}/s)"));
    let rate = |state: &ProgressState, to: &mut dyn Write| {
        // Writing to a bar's line can't fail.
        let _ = write!(to, "{}", state.per_sec() as u64);
    };
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner()).with_key("rate", rate);
    ProgressBar::new_spinner().with_style(style)
}
