//! Lines that belong together, as one.

use std::collections::{BTreeMap, BTreeSet};

/// Joins the implementations of a type that have no conditions, and variants with their fields. Leaves out the lines that open a block of methods
/// and say nothing new: each method has the name of its type.
pub(crate) fn joined(lines: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut variant: Option<String> = None;
    // Where the implementations of a type are, by their parameters and the type.
    let mut implementations: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut blocks = BTreeSet::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        if let (Some(field), Some(last)) = (variant.as_deref().and_then(|name| field(name, &line)), out.last_mut()) {
            let open = last.strip_suffix(" }").map(|last| format!("{last}, "));
            *last = open.unwrap_or_else(|| format!("{last} {{ ")) + field + " }";
            continue;
        }
        variant = line.strip_prefix("pub ").filter(|name| is_path(name)).map(str::to_owned);
        if opens_a_block(&line) {
            if (line.contains(": ") || has_arguments(&line)) && blocks.insert(line.clone()) {
                out.push(line);
            }
            continue;
        }
        let Some(Implementation { generics, of, on }) = Implementation::read(&line) else {
            out.push(line);
            continue;
        };
        let mut of = short(of).to_owned();
        // The types that it chooses are on the next lines.
        while let Some(chosen) = lines.next_if(|next| next.starts_with("    ")) {
            let chosen = chosen.trim_start().trim_start_matches("pub type ");
            of = format!("{of}<{}>", chosen.strip_prefix(on).unwrap_or(chosen).trim_start_matches("::"));
        }
        match implementations.get(&(generics.to_owned(), on.to_owned())) {
            Some(&at) => {
                let names = out[at].trim_end_matches(&format!(" for {on}")).to_owned();
                out[at] = format!("{names} + {of} for {on}");
            }
            None => {
                implementations.insert((generics.to_owned(), on.to_owned()), out.len());
                out.push(format!("impl{generics} {of} for {on}"));
            }
        }
    }
    out
}

/// The field of a variant that a line lists: `d: u8` of `pub a::B::C::d: u8`, if the variant is `a::B::C`.
fn field<'a>(variant: &str, line: &'a str) -> Option<&'a str> {
    let field = line.strip_prefix("pub ")?.strip_prefix(variant)?.strip_prefix("::")?;
    let (name, _) = field.split_once(": ")?;
    is_path(name).then_some(field)
}

/// An implementation without conditions: `impl<'a> a::T for a::C<'a>`.
struct Implementation<'a> {
    generics: &'a str,
    of: &'a str,
    on: &'a str,
}

impl<'a> Implementation<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("impl")?;
        let (generics, rest) = if rest.starts_with('<') { rest.split_at(rest.find("> ")? + 1) } else { ("", rest) };
        let (of, on) = rest.trim_start().split_once(" for ")?;
        if generics == "<'de>" {
            // serde's way to say that a type owns all that it reads. A condition on the type itself comes from `#[serde(default)]`.
            let on = on.split_once(" where ").map_or(on, |(on, _)| on);
            return (of == "serde_core::de::Deserialize<'de>").then_some(Self {
                generics: "",
                of: "serde::Deserialize",
                on,
            });
        }
        let is_plain = is_path(of) && !on.contains(" where ") && !generics.contains(':');
        is_plain.then_some(Self { generics, of, on })
    }
}

/// A trait of the standard library or of serde goes without the path of its module: `core::fmt::Debug`.
fn short(of: &str) -> &str {
    match of.split("::").next() {
        Some("core" | "alloc" | "std" | "serde_core" | "serde") => of.rsplit("::").next().unwrap_or(of),
        _ => of,
    }
}

/// Whether a line opens a block of methods: `impl a::C` or `impl<T: a::D> a::C<T>`.
fn opens_a_block(line: &str) -> bool {
    line.starts_with("impl") && !line.contains(" for ")
}

/// Whether the type of a block has chosen arguments, such as `a::C<a::D>`.
fn has_arguments(line: &str) -> bool {
    let Some((_, arguments)) = line.rsplit_once('<') else { return false };
    arguments.contains("::")
}

fn is_path(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

#[cfg(test)]
mod tests {
    use super::joined;

    fn check(lines: &[&str], expected: &[&str]) {
        assert_eq!(joined(lines.iter().map(|line| (*line).to_owned()).collect()), expected);
    }

    #[test]
    fn plain_implementations_of_a_type_are_one_line() {
        check(
            &[
                "pub struct a::C<'a>",
                "impl<'a> core::clone::Clone for a::C<'a>",
                "impl<'a> core::fmt::Debug for a::C<'a>",
                "impl<'a> a::T for a::C<'a>",
                "impl core::fmt::Debug for a::D",
            ],
            &["pub struct a::C<'a>", "impl<'a> Clone + Debug + a::T for a::C<'a>", "impl Debug for a::D"],
        );
    }

    #[test]
    fn conditions_and_arguments_keep_their_lines() {
        let lines = [
            "impl<T: core::clone::Clone> core::clone::Clone for a::C<T>",
            "impl core::convert::From<a::D> for a::C",
            "impl core::marker::Send for a::C where a::D: core::marker::Send",
            "impl !core::marker::Sync for a::C",
        ];
        check(&lines, &lines);
    }

    #[test]
    fn chosen_types_stand_with_their_trait_and_texts_of_serde_are_plain() {
        check(
            &[
                "impl core::str::traits::FromStr for a::C",
                "    pub type a::C::Err = a::E",
                "impl<'de> serde_core::de::Deserialize<'de> for a::C where a::C: core::default::Default",
            ],
            &["impl FromStr<Err = a::E> + Deserialize for a::C"],
        );
    }

    #[test]
    fn fields_stand_with_their_variant() {
        check(
            &[
                "pub a::B::C",
                "pub a::B::C::d: u8",
                "pub a::B::C::e: core::option::Option<u8>",
                "pub a::B::F",
                "pub a::G::h: u8",
            ],
            &["pub a::B::C { d: u8, e: core::option::Option<u8> }", "pub a::B::F", "pub a::G::h: u8"],
        );
    }

    #[test]
    fn only_blocks_with_conditions_or_arguments_have_a_line() {
        check(
            &[
                "impl a::C",
                "pub fn a::C::d()",
                "impl a::C<'_>",
                "impl<'a> a::C<'a>",
                "impl a::C<a::D>",
                "impl<S: a::T> a::C<S>",
            ],
            &["pub fn a::C::d()", "impl a::C<a::D>", "impl<S: a::T> a::C<S>"],
        );
    }
}
