//! Fragments that several statements share, and the statements that are built from them.

use std::sync::LazyLock;

use rusqlite::{Connection, ToSql};

use super::job_columns;
use crate::store::sections::section;

const SQL: &str = include_str!("fragments.sql");

/// The fragments and their names in statements. A fragment may contain those behind it.
const FRAGMENTS: [(&str, &str); 13] = [
    ("{claimable}", section(SQL, "claimable")),
    ("{may_start}", section(SQL, "may_start")),
    ("{covers}", section(SQL, "covers")),
    ("{subject}", section(SQL, "subject")),
    ("{queue_open}", section(SQL, "queue_open")),
    ("{known}", section(SQL, "known")),
    ("{still_owned}", section(SQL, "still_owned")),
    ("{may_expire}", section(SQL, "may_expire")),
    ("{orphaned}", section(SQL, "orphaned")),
    ("{stuck}", section(SQL, "stuck")),
    ("{unopened}", section(SQL, "unopened")),
    ("{holds}", section(SQL, "holds")),
    ("{given_back}", section(SQL, "given_back")),
];

/// A statement whose fragments are filled in when it is first used.
pub(super) type Statement = LazyLock<String>;

/// Fills in the fragments.
pub(super) fn render(sql: &str) -> String {
    FRAGMENTS.iter().fold(job_columns::render(sql), |sql, (name, fragment)| sql.replace(name, fragment))
}

macro_rules! statement {
    ($file:expr, $name:literal) => {{
        const TEXT: &str = $crate::store::sections::section($file, $name);
        std::sync::LazyLock::new(|| $crate::store::sqlite::statements::render(TEXT))
    }};
}
pub(super) use statement;

/// Runs a statement whose answer is one boolean.
pub(super) fn asks(connection: &Connection, sql: &str, params: &[(&str, &dyn ToSql)]) -> rusqlite::Result<bool> {
    connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FRAGMENTS;
    use crate::store::sections::{names, section};

    /// Each section is named by the Rust file beside its file of SQL, and its fragments are filled in.
    #[test]
    fn each_section_is_used_with_its_fragments() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/sqlite");
        let mut sections = 0;
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "sql") {
                continue;
            }
            let beside =
                if path.ends_with("fragments.sql") { folder.join("statements.rs") } else { path.with_extension("rs") };
            let code = std::fs::read_to_string(&beside).unwrap();
            let file = std::fs::read_to_string(&path).unwrap().leak();
            for name in names(file) {
                assert!(code.contains(&format!("(SQL, \"{name}\")")), "{} does not use {name}", beside.display());
                let is_plain = code.contains(&format!("&str = section(SQL, \"{name}\")"));
                let fragment = FRAGMENTS.iter().find(|(fragment, _)| section(file, name).contains(fragment));
                assert!(
                    !is_plain || fragment.is_none(),
                    "{}: {name} is no `statement!`, and has {fragment:?}",
                    beside.display()
                );
                sections += 1;
            }
        }
        assert!(sections > 100, "{sections}");
    }
}
