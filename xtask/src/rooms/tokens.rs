//! Rust as tokens: enough to find names, brackets and attributes. Comments are left out.

use super::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Mark,
    /// A string. Its quotes are part of the text, so that it is never taken for a word or a mark.
    Text,
    /// A character, a number or a lifetime.
    Other,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn is_any(&self, texts: &[&str]) -> bool {
        texts.contains(&self.text)
    }
}

/// Marks of several characters. Longer ones come first. `..` matters: what follows it is a path, what follows `.` is a field.
const LONG_MARKS: [&str; 6] = ["..=", "...", "..", "::", "->", "=>"];

/// Reads a file. All brackets of the result have their counterpart.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Problem> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let Some((kind, length)) = next(rest) else {
            let shown: String = rest.chars().take(20).collect();
            return Err(Problem { line, text: format!("can't read what begins with `{shown}`") });
        };
        if let Some(kind) = kind {
            found.push(Token { kind, text: &rest[..length], line });
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    match unbalanced(&found) {
        None => Ok(found),
        Some(token) => {
            Err(Problem { line: token.line, text: format!("the bracket `{}` has no counterpart", token.text) })
        }
    }
}

/// The kind and length of the token at the beginning; no kind for a space or a comment.
fn next(rest: &str) -> Option<(Option<Kind>, usize)> {
    let first = rest.chars().next()?;
    if first.is_whitespace() {
        return Some((None, first.len_utf8()));
    }
    if rest.starts_with("//") {
        return Some((None, rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return Some((None, comment(rest)?));
    }
    if let Some((begin, end)) = raw_string(rest) {
        return Some((Some(Kind::Text), begin + rest[begin..].find(&end)? + end.len()));
    }
    let prefix = usize::from(rest.starts_with("b\"") || rest.starts_with("c\"") || rest.starts_with("b'"));
    match rest[prefix..].chars().next()? {
        '"' => return Some((Some(Kind::Text), prefix + string(&rest[prefix..])?)),
        '\'' => return Some((Some(Kind::Other), prefix + character_or_lifetime(&rest[prefix..])?)),
        _ => {}
    }
    if is_name_start(first) {
        let raw = if rest.starts_with("r#") { 2 } else { 0 };
        return Some((Some(Kind::Word), raw + name(&rest[raw..])));
    }
    if first.is_ascii_digit() {
        return Some((Some(Kind::Other), number(rest)));
    }
    let long = LONG_MARKS.iter().find(|mark| rest.starts_with(**mark));
    let length = long.map_or(1, |mark| mark.len());
    first.is_ascii_punctuation().then_some((Some(Kind::Mark), length))
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn name(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

/// A block comment; they may be nested.
fn comment(rest: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    loop {
        let mark = at + rest[at..].find(['/', '*'])?;
        at = mark + 2;
        if rest[mark..].starts_with("/*") {
            depth += 1;
        } else if rest[mark..].starts_with("*/") {
            depth -= 1;
        } else {
            at = mark + 1;
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Where the content of a raw string begins, and what ends it.
fn raw_string(rest: &str) -> Option<(usize, String)> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        let behind = rest.strip_prefix(prefix);
        behind.is_some_and(|behind| behind.trim_start_matches('#').starts_with('"'))
    })?;
    let behind = &rest[prefix.len()..];
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    Some((prefix.len() + hashes + 1, format!("\"{}", "#".repeat(hashes))))
}

fn string(rest: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += rest.get(at..)?.find(['"', '\\'])?;
        if rest[at..].starts_with('"') {
            return Some(at + 1);
        }
        at += 1 + rest[at + 1..].chars().next()?.len_utf8();
    }
}

/// `'a'` is a character, `'a` a lifetime.
fn character_or_lifetime(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (escaped, c) = chars.next()?;
        let behind = escaped + c.len_utf8();
        return Some(behind + rest[behind..].find('\'')? + 1);
    }
    match chars.next() {
        Some((at, '\'')) => Some(at + 1),
        _ if is_name_start(first) => Some(1 + name(&rest[1..])),
        _ => None,
    }
}

fn number(rest: &str) -> usize {
    let whole = name(rest);
    let is_fraction = |behind: &str| behind.starts_with('.') && behind[1..].starts_with(|c: char| c.is_ascii_digit());
    if is_fraction(&rest[whole..]) { whole + 1 + name(&rest[whole + 1..]) } else { whole }
}

fn closing(open: &Token<'_>) -> Option<&'static str> {
    match open.text {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        _ => None,
    }
}

fn unbalanced<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<&'t Token<'a>> {
    let mut open: Vec<&Token<'_>> = Vec::new();
    for token in tokens {
        if closing(token).is_some() {
            open.push(token);
        } else if token.is_any(&[")", "]", "}"]) && open.pop().and_then(closing) != Some(token.text) {
            return Some(token);
        }
    }
    open.pop()
}

/// The index behind the bracket that closes the one at `open`; the next index if there is no bracket.
pub(super) fn behind_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is_any(&["(", "[", "{"]) {
            depth += 1;
        } else if token.is_any(&[")", "]", "}"]) {
            depth -= 1;
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).unwrap().iter().map(|token| token.text).collect()
    }

    #[test]
    fn lifetimes_stand_beside_characters() {
        assert_eq!(texts("f::<'a>('a', '\\'', b'\\\\', '\\u{41}', '\"', 'ü')")[3..].join(" "), {
            "'a > ( 'a' , '\\'' , b'\\\\' , '\\u{41}' , '\"' , 'ü' )"
        });
        assert_eq!(texts("'outer: loop {} &'static str").join(" "), "'outer : loop { } & 'static str");
    }

    #[test]
    fn strings_hide_what_is_in_them() {
        let text = r###"a("use crate::x; \" {", r#"mod y; "{ "#, br##""#"##, c"}", r"\", b"\\") r#type"###;
        let found = tokens(text).unwrap();
        let words: Vec<&str> = found.iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect();
        assert_eq!(words, ["a", "r#type"]);
        assert_eq!(found.iter().filter(|token| token.kind == Kind::Text).count(), 6);
    }

    #[test]
    fn comments_are_nested_and_lines_are_counted() {
        let found = tokens("/* a /* b */ use crate::x; /**/ */ // { \n\"two\nlines\"\nlast").unwrap();
        assert_eq!(found.last().map(|token| (token.text, token.line)), Some(("last", 4)));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn numbers_ranges_and_fields_are_told_apart() {
        assert_eq!(texts("1.5e3..=super::MAX, x.0.1, 0..n, 1_u8.max(2)").join(" "), {
            "1.5e3 ..= super :: MAX , x . 0.1 , 0 .. n , 1_u8 . max ( 2 )"
        });
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in ["fn f() {", "f(]", ")", "\"open", "/* open", "r#\"open\"", "§"] {
            assert!(tokens(text).is_err(), "{text}");
        }
        assert_eq!(tokens("a\nb }").unwrap_err().line, 2);
    }
}
