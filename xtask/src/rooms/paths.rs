//! The paths in code.

use super::test_code::attribute;
use super::tokens::{Kind, Token};

#[derive(Debug, PartialEq)]
pub(super) struct Path<'a> {
    pub(super) segments: Vec<&'a str>,
    pub(super) line: usize,
    /// Whether it may name something by itself, and is no field or variable.
    pub(super) is_use: bool,
    pub(super) is_macro_call: bool,
}

const KEYWORDS: [&str; 37] = [
    "Self", "as", "async", "await", "box", "break", "const", "continue", "dyn", "else", "enum", "extern", "false",
    "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "static",
    "struct", "trait", "true", "type", "unsafe", "use", "where", "while", "yield",
];

/// All paths, and single names.
pub(super) fn paths<'a>(code: &[Token<'a>]) -> Vec<Path<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if let Some((inside, _)) = attribute(code, at) {
            in_attribute(inside, &mut found);
        }
        let before = if at == 0 { "" } else { code[at - 1].text };
        // `$crate` is the crate; another `$name` is known only where the macro is called.
        let is_start = match before {
            "." | "::" => false,
            "$" => code[at].is("crate"),
            _ => code[at].kind == Kind::Word && !code[at].is_any(&KEYWORDS),
        };
        if !is_start {
            at += 1;
            continue;
        }
        let begin = at;
        let mut segments = vec![code[at].text];
        at += 1;
        while at + 1 < code.len() && code[at].is("::") && code[at + 1].kind == Kind::Word {
            segments.push(code[at + 1].text);
            at += 2;
        }
        let after = code.get(at).map_or("", |token| token.text);
        let is_use = segments.len() > 1 || may_be_item(segments[0], before, after);
        found.push(Path { segments, line: code[begin].line, is_use, is_macro_call: after == "!" });
    }
    found
}

/// A single name is an item if it is written like a type or a constant, is called, or is handed over by itself. What is bound there, and fields, are
/// none.
fn may_be_item(name: &str, before: &str, after: &str) -> bool {
    if name.starts_with(char::is_uppercase) || after == "(" || after == "!" {
        return before != "fn";
    }
    let is_bound = ["let", "mut", "ref", "fn", "|", "for"].contains(&before) || [":", "=", "|", "in"].contains(&after);
    before == "(" && after == ")" && !is_bound
}

/// Paths in strings, as serde has them: `#[serde(with = "super::seconds")]`.
fn in_attribute<'a>(inside: &[Token<'a>], found: &mut Vec<Path<'a>>) {
    if !inside.first().is_some_and(|name| name.is("serde")) {
        return;
    }
    for token in inside.iter().filter(|token| token.kind == Kind::Text) {
        let segments: Vec<&str> = token.text.trim_matches('"').split("::").collect();
        let is_name = |part: &&str| !part.is_empty() && part.chars().all(|c| c == '_' || c.is_alphanumeric());
        if segments.len() > 1 && segments.iter().all(is_name) {
            found.push(Path { segments, line: token.line, is_use: true, is_macro_call: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let code = tokens(text).unwrap();
        let paths = paths(&code);
        paths.iter().filter(|path| path.is_use).map(|path| path.segments.join("/")).collect()
    }

    #[test]
    fn paths_are_found() {
        assert_eq!(read("let a = crate::b::C::<D>::e(self::f, x.g::<H>());"), ["crate/b/C", "D", "self/f", "H"]);
        assert_eq!(read("<I as super::J>::K::l"), ["I", "super/J"]);
        assert_eq!(read("for m in 0..=super::N {} O { p: 1, ..super::q() }"), ["super/N", "O", "super/q"]);
        assert_eq!(read("$crate::r::s($t::u, $v)"), ["crate/r/s"]);
        assert_eq!(read("::w::X"), Vec::<String>::new());
    }

    #[test]
    fn single_names_are_uses_if_they_are_no_variables() {
        assert_eq!(read("fn a(b: C) { let d = e(f); g.map(h); j!(k, l) }"), ["C", "e", "f", "h", "j"]);
    }

    #[test]
    fn serde_names_functions_in_strings() {
        assert_eq!(read("#[serde(default, with = \"super::a\", rename = \"b::c d\")]")[0], "super/a");
        assert!(read("#[doc = \"super::a\"]").is_empty());
    }
}
