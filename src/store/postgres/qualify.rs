//! Names PostgreSQL's own functions with their schema.
//!
//! A function or operator whose argument types fit a call exactly wins over one that needs a conversion, in whichever schema of the search path it
//! is. `unnest(anyarray)` needs one. So a role that may create objects in a schema of another role's path could run code as that role. The engine's own
//! sessions have a path of their own (`pool.rs`), but its statements also run in transactions of users, and behind poolers. There they have to
//! mean the same whatever the path is: functions are named with their schema here, and the operators in the files fit their operands exactly.
//! `executor::search_path` tests both.

/// The functions that statements call, but for those whose arguments no other function could fit better.
const FUNCTIONS: [&str; 46] = [
    "abs",
    "array_agg",
    "array_position",
    "array_remove",
    "bool_and",
    "byteasend",
    "cardinality",
    "concat_ws",
    "count",
    "current_setting",
    "first_value",
    "floor",
    "isfinite",
    "jsonb_agg",
    "jsonb_array_elements",
    "jsonb_array_length",
    "jsonb_build_object",
    "jsonb_path_exists",
    "jsonb_path_query",
    "jsonb_path_query_array",
    "jsonb_send",
    "jsonb_set",
    "jsonb_strip_nulls",
    "left",
    "ltrim",
    "max",
    "min",
    "nextval",
    "octet_length",
    "pg_advisory_xact_lock",
    "pg_column_size",
    "pg_notify",
    "pg_relation_size",
    "pg_sequence_last_value",
    "pg_walfile_name",
    "scale",
    "set_config",
    "setval",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "sum",
    "to_jsonb",
    "unnest",
    "row_number",
];

/// Puts `pg_catalog.` before each call of such a function. Text in quotes stays as it is, and so does `unnest` of several arrays: that is part of the
/// grammar, which knows it without a schema only, and always means the function of PostgreSQL.
pub(super) fn qualified(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 256);
    let mut rest = sql;
    let mut before = ' ';
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '\'' | '"' => quoted(rest, letter),
            _ if is_word(letter) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ => letter.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        // The name of a column or a type, or one that has a schema.
        if !['.', ':'].contains(&before) && is_call(token, after) && FUNCTIONS.contains(&token) {
            text.push_str("pg_catalog.");
        }
        text.push_str(token);
        before = token.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    text
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Returns the length of the text in quotes at the start.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

fn is_call(name: &str, after: &str) -> bool {
    after.strip_prefix('(').is_some_and(|arguments| name != "unnest" || !has_several(arguments))
}

/// Returns whether there is a comma between arguments.
fn has_several(arguments: &str) -> bool {
    let mut depth = 0_u32;
    for letter in arguments.chars() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return false,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_what_looks_like_them() {
        for (text, result) in [
            ("select count(*) from t", "select pg_catalog.count(*) from t"),
            ("from unnest($1::uuid[]) as m(id)", "from pg_catalog.unnest($1::uuid[]) as m(id)"),
            ("from unnest($1::uuid[], $2) as m(a, b)", "from unnest($1::uuid[], $2) as m(a, b)"),
            ("unnest(array[1, 2])", "pg_catalog.unnest(array[1, 2])"),
            ("\"s\".count(1), t.max, max, 'min(1)'", "\"s\".count(1), t.max, max, 'min(1)'"),
            ("a left join b on (c)", "a left join b on (c)"),
            ("left(a, 2)", "pg_catalog.left(a, 2)"),
        ] {
            assert_eq!(qualified(text), result);
        }
    }
}
