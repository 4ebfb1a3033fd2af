//! What is said of a row that no job can be made of.

use std::error::Error;

use super::clip;

/// How the reason of such a dead letter begins.
pub(crate) const BEGINNING: &str = "can't be read: ";
/// Longer explanations quote what was found.
const LONGEST: usize = 500;

/// The reason, with what is behind the error.
pub(crate) fn reason(error: &dyn Error) -> String {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !why.contains(&inner_text) {
            why = format!("{why}: {inner_text}");
        }
        cause = inner.source();
    }
    format!("{BEGINNING}{}", clip(&why, LONGEST))
}
