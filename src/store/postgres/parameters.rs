//! The parameters of a statement. Its header names them with their types, in the order in which a call passes them, and its text uses the
//! names:
//!
//! ```sql
//! -- :queue::text, :limit::int8
//! select id from job where queue = :queue limit :limit
//! ```

use std::fmt::Write as _;

use tokio_postgres::types::Type;

/// Replaces the names by positions. Returns the text and the types, which save a round trip to ask the server for them.
pub(super) fn positional(sql: &str) -> (String, Vec<Type>) {
    let parameters = declared(sql);
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(':') {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        // A cast has two colons.
        let colons = from.len() - from.trim_start_matches(':').len();
        let name = identifier(&from[colons..]);
        match parameters.iter().position(|(declared, _)| colons == 1 && *declared == name) {
            Some(position) => {
                let _ = write!(text, "${}", position + 1);
                rest = &from[1 + name.len()..];
            }
            None => {
                text.push_str(&from[..colons]);
                rest = &from[colons..];
            }
        }
    }
    text.push_str(rest);
    (text, parameters.into_iter().map(|(_, ty)| ty).collect())
}

/// Reads the header: each comment that begins with the name of a parameter.
fn declared(sql: &str) -> Vec<(&str, Type)> {
    sql.lines()
        .filter_map(|line| line.strip_prefix("-- :"))
        .flat_map(|line| line.split(','))
        .filter_map(|one| one.trim().trim_start_matches(':').split_once("::"))
        .map(|(name, ty)| (name, named(ty)))
        .collect()
}

/// Returns the name at the start of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

fn named(ty: &str) -> Type {
    match ty {
        "bool" => Type::BOOL,
        "bool[]" => Type::BOOL_ARRAY,
        "bytea" => Type::BYTEA,
        "bytea[]" => Type::BYTEA_ARRAY,
        "int2" => Type::INT2,
        "int2[]" => Type::INT2_ARRAY,
        "int4" => Type::INT4,
        "int4[]" => Type::INT4_ARRAY,
        "int8" => Type::INT8,
        "int8[]" => Type::INT8_ARRAY,
        "jsonb" => Type::JSONB,
        "jsonb[]" => Type::JSONB_ARRAY,
        "text" => Type::TEXT,
        "text[]" => Type::TEXT_ARRAY,
        "tid" => Type::TID,
        "tid[]" => Type::TID_ARRAY,
        "timestamptz" => Type::TIMESTAMPTZ,
        "timestamptz[]" => Type::TIMESTAMPTZ_ARRAY,
        "uuid" => Type::UUID,
        "uuid[]" => Type::UUID_ARRAY,
        // The server is asked.
        _ => Type::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Keep;
    use crate::store::postgres::statements::Statements;

    #[test]
    fn names_become_positions() {
        let (sql, types) =
            positional("-- Text.\n-- :ids::uuid[], :id::text\nselect 'q:' || :id::text, :ids::uuid[], :other, x::int8");
        assert!(sql.ends_with("select 'q:' || $2::text, $1::uuid[], :other, x::int8"), "{sql}");
        assert_eq!(types, [Type::UUID_ARRAY, Type::TEXT]);
    }

    /// A line of prose that begins with a name would be taken for a declaration.
    #[test]
    fn header_lines_that_begin_with_a_name_are_declarations() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/postgres");
        let mut checked = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "sql") {
                continue;
            }
            let sql = std::fs::read_to_string(&path).unwrap();
            for line in sql.lines().filter_map(|line| line.strip_prefix("-- ").filter(|line| line.starts_with(':'))) {
                for one in line.split(',').map(str::trim).filter(|one| !one.is_empty()) {
                    let declared = one.strip_prefix(':').and_then(|one| one.split_once("::"));
                    assert!(declared.is_some_and(|(name, _)| identifier(name) == name), "{}: {one}", path.display());
                    checked += 1;
                }
            }
        }
        assert!(checked > 300, "only {checked} declarations were found");
    }

    #[test]
    fn each_statement_uses_what_its_header_names_and_nothing_else() {
        for keep in [Keep::Off, Keep::All] {
            for (name, statement) in Statements::new("s", keep).all() {
                let (sql, types) = (&statement.sql, &statement.types);
                let used: BTreeSet<usize> = sql
                    .split('$')
                    .skip(1)
                    .filter_map(|rest| {
                        rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
                    })
                    .collect();
                assert_eq!(used, (1..=types.len()).collect(), "{name}: {sql}");
                assert!(!types.contains(&Type::UNKNOWN), "{name} has a parameter of an unknown type: {types:?}");
                let left = sql.match_indices(':').find(|(at, _)| {
                    let alone = !sql[..*at].ends_with(':');
                    alone && sql[at + 1..].starts_with(|letter: char| letter.is_ascii_lowercase())
                });
                assert_eq!(left, None, "{name} uses a parameter that its header does not name: {sql}");
            }
        }
    }
}
