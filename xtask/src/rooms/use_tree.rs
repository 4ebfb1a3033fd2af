//! `use` declarations.

use super::Problem;
use super::test_code::behind_visibility;
use super::tokens::{Kind, Token, behind_group};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Use<'a> {
    pub(super) path: Vec<&'a str>,
    /// The name that it gives; `None` for `_` and for all names of a module or enum.
    pub(super) name: Option<&'a str>,
    pub(super) is_glob: bool,
    pub(super) is_public: bool,
    /// Inside a function.
    pub(super) is_nested: bool,
    pub(super) line: usize,
}

/// Reads what stands between `use` and `;`.
pub(super) fn parse<'a>(
    tokens: &[Token<'a>],
    is_public: bool,
    is_nested: bool,
    found: &mut Vec<Use<'a>>,
) -> Result<(), Problem> {
    let line = tokens.first().map_or(0, |token| token.line);
    let leaf = Use { path: Vec::new(), name: None, is_glob: false, is_public, is_nested, line };
    let behind = tree(tokens, 0, &leaf, found)?;
    if behind < tokens.len() { Err(unread(tokens, behind)) } else { Ok(()) }
}

fn unread(tokens: &[Token<'_>], at: usize) -> Problem {
    let token = tokens.get(at).or(tokens.last());
    let shown = token.map_or("", |token| token.text);
    Problem { line: token.map_or(0, |token| token.line), text: format!("can't read this `use` at `{shown}`") }
}

/// Reads one branch; returns the index behind it.
fn tree<'a>(tokens: &[Token<'a>], mut at: usize, stem: &Use<'a>, found: &mut Vec<Use<'a>>) -> Result<usize, Problem> {
    let mut leaf = stem.clone();
    loop {
        let token = tokens.get(at).ok_or_else(|| unread(tokens, at))?;
        leaf.line = token.line;
        match token.text {
            "{" => {
                let behind = behind_group(tokens, at);
                at += 1;
                while at < behind - 1 {
                    at = tree(tokens, at, &leaf, found)?;
                    at += usize::from(tokens[at].is(","));
                }
                return Ok(behind);
            }
            "*" => {
                leaf.is_glob = true;
                found.push(leaf);
                return Ok(at + 1);
            }
            // From the outside of the crate.
            "::" => leaf.path.push("::"),
            // $crate
            "$" if tokens.get(at + 1).is_some_and(|next| next.is("crate")) => {}
            _ if token.kind == Kind::Word => {
                leaf.path.push(token.text);
                if tokens.get(at + 1).is_some_and(|next| next.is("::")) {
                    at += 1;
                } else {
                    return named(tokens, at + 1, leaf, found);
                }
            }
            _ => return Err(unread(tokens, at)),
        }
        at += 1;
    }
}

/// The end of a branch: `self` stands for the module itself, and `as` may follow.
fn named<'a>(tokens: &[Token<'a>], at: usize, mut leaf: Use<'a>, found: &mut Vec<Use<'a>>) -> Result<usize, Problem> {
    if leaf.path.len() > 1 && leaf.path.last() == Some(&"self") {
        leaf.path.pop();
    }
    let is_renamed = tokens.get(at).is_some_and(|token| token.is("as"));
    let name = if is_renamed {
        tokens.get(at + 1).ok_or_else(|| unread(tokens, at))?.text
    } else {
        leaf.path.last().copied().unwrap_or("_")
    };
    leaf.name = (name != "_").then_some(name);
    found.push(leaf);
    Ok(if is_renamed { at + 2 } else { at })
}

/// Takes the `use` declarations and the `pub(in …)` out of code: neither is a path that the code goes.
pub(super) fn take_uses<'a>(tokens: &[Token<'a>], uses: &mut Vec<Use<'a>>) -> Result<Vec<Token<'a>>, Problem> {
    let mut code = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let behind = behind_visibility(tokens, at);
        let is_use = tokens.get(behind).is_some_and(|token| token.is("use"));
        // `impl Trait + use<'a>` says what a type captures.
        if is_use && !tokens.get(behind + 1).is_some_and(|token| token.is("<")) {
            let mut end = behind + 1;
            while end < tokens.len() && !tokens[end].is(";") {
                end = behind_group(tokens, end);
            }
            parse(&tokens[behind + 1..end], behind > at, true, uses)?;
            at = end + 1;
        } else if behind > at {
            at = behind;
        } else {
            code.push(tokens[at]);
            at += 1;
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        parse(&tokens(text).unwrap(), false, false, &mut found).unwrap();
        let shown = |one: &Use<'_>| {
            let name = if one.is_glob { "*" } else { one.name.unwrap_or("_") };
            format!("{} as {name}", one.path.join("/"))
        };
        found.iter().map(shown).collect()
    }

    #[test]
    fn trees_are_read() {
        assert_eq!(read("a"), ["a as a"]);
        assert_eq!(read("a::{self, b as _, c::{d as e, *},}"), ["a as a", "a/b as _", "a/c/d as e", "a/c as *"]);
        assert_eq!(read("super::super::{self as up, r#type}"), ["super/super as up", "super/super/r#type as r#type"]);
        assert_eq!(read("{a, ::b::c}"), ["a as a", "::/b/c as c"]);
        assert_eq!(read("$crate::a"), ["crate/a as a"]);
        assert!(parse(&tokens("a::$b").unwrap(), false, false, &mut Vec::new()).is_err());
        assert!(parse(&tokens("a b").unwrap(), false, false, &mut Vec::new()).is_err());
    }

    #[test]
    fn uses_in_functions_are_found_and_captures_are_none() {
        let text = "pub(in crate::a) fn f<'a>() -> impl B + use<'a> { use super::{c, d}; e::g(h) }";
        let mut found = Vec::new();
        let code = take_uses(&tokens(text).unwrap(), &mut found).unwrap();
        assert_eq!(found.iter().map(|one| one.path.join("/")).collect::<Vec<_>>(), ["super/c", "super/d"]);
        let code: Vec<&str> = code.iter().map(|token| token.text).collect();
        assert_eq!(code.join(" "), "fn f < 'a > ( ) -> impl B + use < 'a > { e :: g ( h ) }");
    }
}
