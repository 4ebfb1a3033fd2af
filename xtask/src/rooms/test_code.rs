//! What is compiled for tests only: it may import what it likes.

use super::tokens::{Token, behind_group};

/// Begin an item that ends with a brace, if a semicolon does not come first.
const ITEMS: [&str; 11] =
    ["async", "enum", "extern", "fn", "impl", "macro_rules", "mod", "struct", "trait", "union", "unsafe"];

/// What may follow the `const` of a function.
const AFTER_CONST: [&str; 4] = ["async", "extern", "fn", "unsafe"];

/// Whether an attribute (what is between its brackets) leaves code out of all but tests.
pub(super) fn is_test_only(attribute: &[Token<'_>]) -> bool {
    if let [cfg, open, predicate @ .., _] = attribute
        && cfg.is("cfg")
        && open.is("(")
    {
        return needs_test(predicate);
    }
    // #[test], #[tokio::test(start_paused = true)]
    attribute.iter().take_while(|token| !token.is_any(&["(", "="])).last().is_some_and(|name| name.is("test"))
}

fn needs_test(predicate: &[Token<'_>]) -> bool {
    match predicate {
        [name] => name.is_any(&["test", "doctest"]),
        [all, _, parts @ .., _] if all.is("all") => split(parts).iter().any(|part| needs_test(part)),
        [any, _, parts @ .., _] if any.is("any") => split(parts).iter().all(|part| needs_test(part)),
        _ => false,
    }
}

fn split<'t, 'a>(parts: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut found = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < parts.len() {
        if parts[at].is(",") {
            found.push(&parts[begin..at]);
            begin = at + 1;
        }
        at = behind_group(parts, at);
    }
    found.push(&parts[begin..]);
    found.retain(|part| !part.is_empty());
    found
}

/// The attribute at this index: what is between its brackets, and the index behind it.
pub(super) fn attribute<'t, 'a>(tokens: &'t [Token<'a>], at: usize) -> Option<(&'t [Token<'a>], usize)> {
    if !tokens.get(at)?.is("#") {
        return None;
    }
    let open = at + 1 + usize::from(tokens.get(at + 1)?.is("!"));
    let behind = tokens.get(open)?.is("[").then(|| behind_group(tokens, open))?;
    Some((&tokens[open + 1..behind - 1], behind))
}

/// Leaves out functions, fields, statements and all else that is compiled for tests only, at any depth.
pub(super) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        match attribute(tokens, at) {
            Some((inside, behind)) if is_test_only(inside) => at = behind_thing(tokens, behind),
            _ => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    kept
}

/// The index behind a `pub` and what it is restricted to.
pub(super) fn behind_visibility(tokens: &[Token<'_>], at: usize) -> usize {
    match (tokens.get(at), tokens.get(at + 1)) {
        // In a tuple struct, `pub (u8, u8)` is a type.
        (Some(word), Some(open)) if word.is("pub") && open.is("(") && is_restriction(tokens, at + 2) => {
            behind_group(tokens, at + 1)
        }
        (Some(word), _) if word.is("pub") => at + 1,
        _ => at,
    }
}

fn is_restriction(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| token.is("in"))
        || tokens.get(at).is_some_and(|token| token.is_any(&["crate", "self", "super"]))
            && tokens.get(at + 1).is_some_and(|token| token.is(")"))
}

/// The index behind an item, a field, a variant, an arm or a statement. Where it is unsure, it ends early: the rest then counts as ordinary code.
pub(super) fn behind_thing(tokens: &[Token<'_>], mut at: usize) -> usize {
    while let Some((_, behind)) = attribute(tokens, at) {
        at = behind;
    }
    at = behind_visibility(tokens, at);
    let Some(first) = tokens.get(at) else { return at };
    let next = |texts| tokens.get(at + 1).is_some_and(|token| token.is_any(texts));
    let is_function = first.is("const") && next(&AFTER_CONST);
    let is_item = first.is_any(&ITEMS) || is_function;
    let ends_with_semicolon = first.is_any(&["const", "let", "static", "type", "use"]) && !is_function;
    let is_field = next(&[":"]);
    let mut angles = 0_i32;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "," if !is_item && !ends_with_semicolon && angles <= 0 => return at + 1,
            "<" if is_field => angles += 1,
            ">" if is_field => angles -= 1,
            "{" if !ends_with_semicolon => {
                let behind = behind_group(tokens, at);
                let is_ended = tokens.get(behind).is_some_and(|token| token.is_any(&[",", ";"]));
                return behind + usize::from(is_ended && !is_item);
            }
            _ => {}
        }
        at = behind_group(tokens, at);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn conditions_that_only_a_test_meets() {
        let is_test = |text: &str| {
            let found = tokens(text).unwrap();
            is_test_only(attribute(&found, 0).unwrap().0)
        };
        for text in [
            "#[test]",
            "#[tokio::test(start_paused = true)]",
            "#[cfg(test)]",
            "#![cfg(test)]",
            "#[cfg(doctest)]",
            "#[cfg(all(test, feature = \"sqlite\"))]",
            "#[cfg(any(test, doctest))]",
            "#[cfg(all(unix, any(all(test, a), doctest,)))]",
        ] {
            assert!(is_test(text), "{text}");
        }
        for text in [
            "#[cfg(not(test))]",
            "#[cfg(any(test, feature = \"kit\"))]",
            "#[cfg(all(unix, not(test)))]",
            "#[cfg(feature = \"test\")]",
            "#[cfg_attr(test, derive(Clone))]",
            "#[testing]",
            "#[doc = \"test\"]",
        ] {
            assert!(!is_test(text), "{text}");
        }
    }

    #[test]
    fn test_code_is_left_out_at_any_depth() {
        for (text, kept) in [
            ("a(); #[cfg(test)] b(c, d); e()", "a ( ) ; e ( )"),
            ("impl A { #[cfg(test)] pub(super) fn f<B, C>() -> D { e } g }", "impl A { g }"),
            ("struct A { #[cfg(test)] b: C<D, E>, f: G }", "struct A { f : G }"),
            ("enum A { #[cfg(test)] B { c: D }, E }", "enum A { E }"),
            ("match a { #[cfg(test)] B => c(d, e), f => g }", "match a { f => g }"),
            ("{ #[cfg(test)] use a::{b, c}; #[cfg(test)] let d = { e }; f }", "{ f }"),
            ("#[cfg(test)] #[inline] const fn a() {} const B: u8 = 1;", "const B : u8 = 1 ;"),
            ("#[cfg(test)] const A: B = B { c: 1, d: 2 }; e", "e"),
            ("#[cfg(not(test))] a();", "# [ cfg ( not ( test ) ) ] a ( ) ;"),
        ] {
            let found = tokens(text).unwrap();
            let left: Vec<&str> = without_tests(&found).iter().map(|token| token.text).collect();
            assert_eq!(left.join(" "), kept);
        }
    }
}
