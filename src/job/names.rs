//! What names and keys may look like.

use super::limits::NAME_MAX;
use crate::error::{Error, Result};

/// Checks the name of a queue, a kind or a header.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    check_text(what, name, NAME_MAX)
}

pub(super) fn check_text(what: &str, name: &str, max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the {what} is empty")));
    }
    if name.len() > max {
        let start: String = name.chars().take(20).collect();
        // Escaped, so that text from an untrusted sender can't control the reader's terminal.
        let start = start.escape_debug();
        return Err(Error::invalid(format!("the {what} \"{start}…\" has {} bytes; {max} is the limit", name.len())));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!("the {what} {name:?} contains the control character {bad:?}")));
    }
    if name.trim() != name {
        return Err(Error::invalid(format!("the {what} {name:?} begins or ends with white space")));
    }
    Ok(())
}
