//! Parts that several statements share, and the statements that are made with them.

use std::sync::LazyLock;

const MAY_START: &str = include_str!("sql/part/may_start.sql");
const COVERS: &str = include_str!("sql/part/covers.sql");
const SUBJECT: &str = include_str!("sql/part/subject.sql");
const QUEUE_OPEN: &str = include_str!("sql/part/queue_open.sql");
const JOB_COLUMNS: &str = include_str!("sql/part/job_columns.sql");
const KNOWN: &str = include_str!("sql/part/known.sql");
pub(super) const STILL_OWNED: &str = include_str!("sql/part/still_owned.sql");

/// A statement whose parts are filled in when it is first used.
pub(super) type Statement = LazyLock<String>;

/// Fills in the parts.
pub(super) fn render(sql: &str) -> String {
    sql.replace("{may_start}", MAY_START)
        .replace("{covers}", COVERS)
        .replace("{subject}", SUBJECT)
        .replace("{queue_open}", QUEUE_OPEN)
        .replace("{job_columns}", JOB_COLUMNS)
        .replace("{known}", KNOWN)
        .replace("{still_owned}", STILL_OWNED)
}

macro_rules! statement {
    ($file:literal) => {
        std::sync::LazyLock::new(|| $crate::store::sqlite::parts::render(include_str!($file)))
    };
}
pub(super) use statement;
