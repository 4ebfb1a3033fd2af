//! Fragments that several statements share, and the statements that are built from them.

use std::sync::LazyLock;

use super::job_columns;

const MAY_START: &str = include_str!("sql/fragment/may_start.sql");
const COVERS: &str = include_str!("sql/fragment/covers.sql");
const SUBJECT: &str = include_str!("sql/fragment/subject.sql");
const QUEUE_OPEN: &str = include_str!("sql/fragment/queue_open.sql");
const KNOWN: &str = include_str!("sql/fragment/known.sql");
pub(super) const STILL_OWNED: &str = include_str!("sql/fragment/still_owned.sql");

/// A statement whose fragments are filled in when it is first used.
pub(super) type Statement = LazyLock<String>;

/// Fills in the fragments.
pub(super) fn render(sql: &str) -> String {
    job_columns::render(sql)
        .replace("{may_start}", MAY_START)
        .replace("{covers}", COVERS)
        .replace("{subject}", SUBJECT)
        .replace("{queue_open}", QUEUE_OPEN)
        .replace("{known}", KNOWN)
        .replace("{still_owned}", STILL_OWNED)
}

macro_rules! statement {
    ($file:literal) => {
        std::sync::LazyLock::new(|| $crate::store::sqlite::statements::render(include_str!($file)))
    };
}
pub(super) use statement;
