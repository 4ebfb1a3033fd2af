//! How far a part of the tour is.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::is_interactive;

/// Creates a progress bar, hidden unless stderr is a terminal.
pub(super) fn bar(length: u64, what: &'static str) -> ProgressBar {
    if !is_interactive() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("    {bar:40} {pos} of {len} {msg}, {eta} left");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what)
}
