//! The items of a file or of a module in it.

use super::Problem;
use super::test_code::{attribute, behind_thing, behind_visibility, is_test_only};
use super::tokens::{Kind, Token, behind_group};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    Use,
    /// `mod name;`, or with a body.
    Module,
    Enum,
    MacroRules,
    /// A struct, trait or alias: it may have something below it, as an enum has.
    Type,
    /// A function, constant or static.
    Value,
    /// An `impl`, or a `const _`.
    Unnamed,
    /// It may define names that are written in it.
    MacroCall,
}

#[derive(Debug)]
pub(super) struct Item<'t, 'a> {
    pub(super) what: What,
    /// For a macro call, the macro's.
    pub(super) name: &'a str,
    pub(super) is_test: bool,
    pub(super) is_public: bool,
    pub(super) line: usize,
    /// All of it, with its attributes.
    pub(super) tokens: &'t [Token<'a>],
    /// Between its braces, or, of a `use`, behind that word.
    pub(super) body: Option<&'t [Token<'a>]>,
}

/// Whether attributes of a file or module as a whole leave it out of all but tests; and its items.
pub(super) fn items<'t, 'a>(tokens: &'t [Token<'a>]) -> Result<(bool, Vec<Item<'t, 'a>>), Problem> {
    let mut is_test = false;
    let mut at = 0;
    while let Some((inside, behind)) = attribute(tokens, at).filter(|_| tokens[at + 1].is("!")) {
        is_test |= is_test_only(inside);
        at = behind;
    }
    let mut found = Vec::new();
    while at < tokens.len() {
        let item = item(tokens, at)?;
        at += item.tokens.len();
        // A macro call with round brackets ends with a semicolon.
        while tokens.get(at).is_some_and(|token| token.is(";")) {
            at += 1;
        }
        found.push(item);
    }
    Ok((is_test, found))
}

fn item<'t, 'a>(tokens: &'t [Token<'a>], begin: usize) -> Result<Item<'t, 'a>, Problem> {
    let mut at = begin;
    let mut is_test = false;
    while let Some((inside, behind)) = attribute(tokens, at) {
        if inside.first().is_some_and(|name| name.is("path")) || inside.windows(2).any(is_path) {
            return Err(unread(&tokens[at..], "#[path] is not supported: name the file like the module"));
        }
        is_test |= is_test_only(inside);
        at = behind;
    }
    let first = behind_visibility(tokens, at);
    let is_public = first > at;
    let (what, word) = what(tokens, first)?;
    let end = behind_thing(tokens, begin);
    let name = match what {
        What::Use | What::Unnamed => "",
        What::MacroCall => tokens[word].text,
        What::MacroRules => named(tokens, word + 2)?,
        What::Value if tokens.get(word + 1).is_some_and(|token| token.is("mut")) => named(tokens, word + 2)?,
        _ => named(tokens, word + 1)?,
    };
    let body = match (what, tokens[first..end].iter().position(|token| token.is("{"))) {
        (What::Use, _) => Some(&tokens[word + 1..end - 1]),
        (What::Module | What::Enum, Some(open)) => {
            let open = first + open;
            Some(&tokens[open + 1..behind_group(tokens, open) - 1])
        }
        _ => None,
    };
    let what = if name == "_" { What::Unnamed } else { what };
    Ok(Item { what, name, is_test, is_public, line: tokens[first].line, tokens: &tokens[begin..end], body })
}

/// `path = "…"` inside `cfg_attr`.
fn is_path(pair: &[Token<'_>]) -> bool {
    pair[0].is("path") && pair[1].is("=")
}

/// What an item is, and the index of the word that says so.
fn what(tokens: &[Token<'_>], first: usize) -> Result<(What, usize), Problem> {
    let is = |at: usize, texts: &[&str]| tokens.get(at).is_some_and(|token| token.is_any(texts));
    let mut at = first;
    // Before a function, an impl or a trait.
    while is(at, &["async", "default", "unsafe"])
        || is(at, &["const"]) && is(at + 1, &["async", "extern", "fn", "unsafe"])
    {
        at += 1;
    }
    if is(at, &["extern"]) && is(at + 2, &["fn"]) {
        at += 2;
    }
    let Some(word) = tokens.get(at) else { return Err(unread(&tokens[first.saturating_sub(1)..], "an item")) };
    let what = match word.text {
        "use" => What::Use,
        "mod" => What::Module,
        "enum" => What::Enum,
        "struct" | "trait" | "type" => What::Type,
        "union" if !is(at + 1, &["!"]) => What::Type,
        "fn" | "const" | "static" => What::Value,
        "impl" => What::Unnamed,
        "macro_rules" if is(at + 1, &["!"]) => What::MacroRules,
        "extern" => return Err(unread(&tokens[at..], "`extern` is not supported")),
        _ if word.kind == Kind::Word => match last_of_path(tokens, at) {
            Some(last) => return Ok((What::MacroCall, last)),
            None => return Err(unread(&tokens[at..], "can't read this item")),
        },
        _ => return Err(unread(&tokens[at..], "can't read this item")),
    };
    Ok((what, at))
}

/// The index of the name of a macro that is called here, behind the path to it.
fn last_of_path(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    while tokens.get(at + 1)?.is("::") {
        at += 2;
    }
    tokens.get(at + 1)?.is("!").then_some(at)
}

fn named<'a>(tokens: &[Token<'a>], at: usize) -> Result<&'a str, Problem> {
    match tokens.get(at) {
        Some(token) if token.kind == Kind::Word => Ok(token.text),
        _ => Err(unread(&tokens[at.min(tokens.len()) - 1..], "an item without a name")),
    }
}

fn unread(tokens: &[Token<'_>], why: &str) -> Problem {
    let shown: Vec<&str> = tokens.iter().take(6).map(|token| token.text).collect();
    let line = tokens.first().map_or(0, |token| token.line);
    Problem { line, text: format!("{why}: `{}`", shown.join(" ")) }
}

/// The names of the variants, from what is between the braces of an enum.
pub(super) fn variants<'a>(body: &[Token<'a>]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < body.len() {
        while let Some((_, behind)) = attribute(body, at) {
            at = behind;
        }
        found.extend(body.get(at).filter(|token| token.kind == Kind::Word).map(|token| token.text));
        while at < body.len() && !body[at].is(",") {
            at = behind_group(body, at);
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn read(text: &str) -> Vec<(What, String)> {
        let found = tokens(text).unwrap();
        let (_, items) = items(&found).unwrap();
        items.iter().map(|item| (item.what, item.name.to_owned())).collect()
    }

    #[test]
    fn items_end_where_they_end() {
        let text = "
            #![allow(x)]
            use a::{b, c};
            pub(in crate::x) const fn f<const N: usize>(a: [u8; 3]) -> B where C: D, { e!{} }
            const G: H = H { i: 1 };
            const _: () = ();
            static mut J: [u8; 2] = [1; 2];
            struct K(L, M);
            pub struct N;
            #[derive(O)] pub enum P { #[default] Q, R(S, T), U { v: W } = 1 }
            impl<X> Y<X> for [Z; 2] where X: A {}
            unsafe impl B for C {}
            pub async unsafe extern \"C\" fn d() {}
            macro_rules! e { ($f:ident) => { struct $f; } }
            e!(g);
            h::i! { j }
            mod k;
            mod l { fn m() {} }
            type N2<T> = O<{ 1 }, T>;
            trait P2: Q + R { fn s(&self); }
        ";
        use What::{Enum, MacroCall, MacroRules, Module, Type, Unnamed, Use, Value};
        let expected = [
            (Use, ""),
            (Value, "f"),
            (Value, "G"),
            (Unnamed, "_"),
            (Value, "J"),
            (Type, "K"),
            (Type, "N"),
            (Enum, "P"),
            (Unnamed, ""),
            (Unnamed, ""),
            (Value, "d"),
            (MacroRules, "e"),
            (MacroCall, "e"),
            (MacroCall, "i"),
            (Module, "k"),
            (Module, "l"),
            (Type, "N2"),
            (Type, "P2"),
        ];
        assert_eq!(read(text), expected.map(|(what, name)| (what, name.to_owned())));
    }

    #[test]
    fn variants_are_found() {
        let found = tokens("#[default] A, B(C, D), /// e\n F { g: H<I, J> }, K = 3,").unwrap();
        assert_eq!(variants(&found), ["A", "B", "F", "K"]);
    }

    #[test]
    fn a_file_may_be_for_tests_as_a_whole() {
        assert!(items(&tokens("//! Text.\n#![cfg(test)]\nfn f() {}").unwrap()).unwrap().0);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "extern crate a;",
            "#[path = \"b.rs\"] mod c;",
            "#[cfg_attr(x, path = \"b.rs\")] mod c;",
            "let d = 1;",
            "= 3",
            "fn (x) {}",
            "pub",
        ] {
            assert!(items(&tokens(text).unwrap()).is_err(), "{text}");
        }
    }
}
