//! Lines that belong together, as one. Two APIs that differ have different lists nevertheless: nothing is left out that another line does not say.

use std::collections::{BTreeMap, BTreeSet};

/// Traits of the standard library and of serde that go without their path.
const KNOWN: [&str; 20] = [
    "core::clone::Clone",
    "core::cmp::Eq",
    "core::cmp::Ord",
    "core::cmp::PartialEq",
    "core::cmp::PartialOrd",
    "core::default::Default",
    "core::error::Error",
    "core::fmt::Debug",
    "core::fmt::Display",
    "core::hash::Hash",
    "core::iter::traits::accum::Sum",
    "core::marker::Copy",
    "core::ops::arith::Add",
    "core::ops::arith::AddAssign",
    "core::ops::deref::Deref",
    "core::ops::deref::DerefMut",
    "core::ops::drop::Drop",
    "core::str::traits::FromStr",
    "serde_core::de::Deserialize",
    "serde_core::ser::Serialize",
];

/// Joins the implementations of a type that have no conditions, variants with their fields, and traits with the types that are chosen for them. A
/// block of methods has no line: a method has the name of its type, and behind it the bounds of its block, if there are any.
pub(crate) fn joined(lines: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut variant: Option<String> = None;
    // The type of the last block of methods, and its bounds if it has any.
    let mut bounds: Option<(String, String)> = None;
    // Where the implementations of a type are, by their parameters and the type.
    let mut implementations: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        if let (Some(field), Some(last)) = (variant.as_deref().and_then(|name| field(name, &line)), out.last_mut()) {
            let open = last.strip_suffix(" }").map(|last| format!("{last}, "));
            *last = open.unwrap_or_else(|| format!("{last} {{ ")) + field + " }";
            continue;
        }
        variant = line.strip_prefix("pub ").filter(|name| is_path(name)).map(str::to_owned);
        if line.starts_with("impl") && !line.contains(" for ") {
            bounds = bounds_of(&line).map(|bounds| (type_of(&line).to_owned(), format!(" [{bounds}]")));
            continue;
        }
        if is_function_or_constant(&line) {
            // What is no part of the block's type comes after it.
            let own =
                bounds.as_ref().filter(|(of, _)| line.contains(&format!(" {of}::"))).map(|(_, bounds)| bounds.as_str());
            out.push(line.clone() + own.unwrap_or_default());
            continue;
        }
        bounds = None;
        let mut chosen = BTreeSet::new();
        while let Some(next) = lines.next_if(|next| next.starts_with("    ")) {
            let next = next.trim_start();
            chosen.insert(next.strip_prefix("pub type ").unwrap_or(next).to_owned());
        }
        let Some(Implementation { generics, of, on }) = Implementation::read(&line) else {
            out.push(chosen.iter().fold(line, |line, chosen| line + " { " + last_of_path(chosen) + " }"));
            continue;
        };
        let chosen: Vec<&str> = chosen.iter().map(|chosen| last_of_path(chosen)).collect();
        let chosen = if chosen.is_empty() { String::new() } else { format!("<{}>", chosen.join(", ")) };
        let of = format!("{}{chosen}", short(of));
        match implementations.get(&(generics.to_owned(), on.to_owned())) {
            Some(&at) => {
                let tail = format!(" for {on}");
                let names = out[at].strip_suffix(&tail).unwrap_or(&out[at]).to_owned();
                out[at] = format!("{names} + {of}{tail}");
            }
            None => {
                implementations.insert((generics.to_owned(), on.to_owned()), out.len());
                out.push(format!("impl{generics} {of} for {on}"));
            }
        }
    }
    out
}

fn is_function_or_constant(line: &str) -> bool {
    let Some(mut rest) = line.strip_prefix("pub ") else { return false };
    if rest.strip_prefix("const ").is_some_and(|rest| !rest.starts_with("fn ")) {
        return true;
    }
    while let Some(behind) = ["const ", "async ", "unsafe "].iter().find_map(|word| rest.strip_prefix(word)) {
        rest = behind;
    }
    rest.starts_with("fn ")
}

/// The type of a block of methods: `a::C<S>` of `impl<S: a::B> a::C<S> where …`.
fn type_of(line: &str) -> &str {
    let behind = generics(line).map_or("impl".len(), |generics| "impl<>".len() + generics.len());
    let of = line[behind..].trim_start();
    of.split_once(" where ").map_or(of, |(of, _)| of)
}

/// The bounds of a block of methods: `S: a::B` of `impl<S: a::B> a::C<S>`.
fn bounds_of(line: &str) -> Option<String> {
    let (generics, condition) = (generics(line), line.split_once(" where ").map(|(_, condition)| condition));
    let generics = generics.filter(|generics| generics.contains(": "));
    match (generics, condition) {
        (None, None) => None,
        (bounds, condition) => Some([bounds, condition].into_iter().flatten().collect::<Vec<_>>().join(", ")),
    }
}

/// The parameters of `impl<…> …`, with nested brackets.
fn generics(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl<")?;
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            // Not the arrow of a function.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&rest[..at]);
        }
        before = c;
    }
    None
}

/// `Err = a::E` of `a::C::Err = a::E`.
fn last_of_path(chosen: &str) -> &str {
    let name = chosen.split(" = ").next().unwrap_or_default();
    &chosen[name.len() - last(name).len()..]
}

/// `C` of `a::b::C`.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
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
        let (generics, rest) = rest.split_at(generics(line).map_or(0, |generics| "<>".len() + generics.len()));
        let (of, on) = rest.trim_start().split_once(" for ")?;
        if generics == "<'de>" && of == "serde_core::de::Deserialize<'de>" {
            // serde's way to say that a type owns all that it reads. The condition comes from `#[serde(default)]`.
            let own = |on: &str| {
                on.split_once(" where ")
                    .filter(|(on, condition)| *condition == format!("{on}: core::default::Default"))
                    .map(|(on, _)| on.len())
            };
            let on = &on[..own(on).unwrap_or(on.len())];
            return (!on.contains(" where ")).then_some(Self { generics: "", of: "serde_core::de::Deserialize", on });
        }
        let is_plain = is_path(of) && !on.contains(" where ") && !generics.contains(':');
        is_plain.then_some(Self { generics, of, on })
    }
}

fn short(of: &str) -> &str {
    if KNOWN.contains(&of) { last(of) } else { of }
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
                "impl core::fmt::Debug for a::D",
                "impl<'a> a::T for a::C<'a>",
                "impl<'a> core::fmt::Write for a::C<'a>",
            ],
            &[
                "pub struct a::C<'a>",
                "impl<'a> Clone + Debug + a::T + core::fmt::Write for a::C<'a>",
                "impl Debug for a::D",
            ],
        );
    }

    #[test]
    fn conditions_and_arguments_keep_their_lines() {
        let lines = [
            "impl<T: core::clone::Clone> core::clone::Clone for a::C<T>",
            "impl core::convert::From<a::D> for a::C",
            "impl core::marker::Send for a::C where a::D: core::marker::Send",
            "impl !core::marker::Sync for a::C",
            "impl<'de> serde_core::de::Deserialize<'de> for a::C where a::D: a::T",
        ];
        check(&lines, &lines);
    }

    #[test]
    fn chosen_types_stand_with_their_trait() {
        check(
            &[
                "impl core::str::traits::FromStr for a::C",
                "    pub type a::C::Err = a::E",
                "impl<'de> serde_core::de::Deserialize<'de> for a::C where a::C: core::default::Default",
                "impl<S: a::T> a::P for a::D<S>",
                "    pub type a::D<S>::Store = S",
            ],
            &["impl FromStr<Err = a::E> + Deserialize for a::C", "impl<S: a::T> a::P for a::D<S> { Store = S }"],
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

    /// A method that moves to a block with other bounds has another line.
    #[test]
    fn methods_have_the_bounds_of_their_block() {
        check(
            &[
                "impl a::C",
                "pub fn a::C::d()",
                "impl<S: a::T> a::C<S>",
                "pub async fn a::C<S>::e(&self)",
                "pub const a::C<S>::F: u8",
                "impl<'a, S: a::T<a::D>> a::C<S> where S: a::U",
                "pub fn a::C<S>::g()",
                "pub fn a::free()",
                "pub a::X::f: fn (u8)",
                "pub struct a::D",
            ],
            &[
                "pub fn a::C::d()",
                "pub async fn a::C<S>::e(&self) [S: a::T]",
                "pub const a::C<S>::F: u8 [S: a::T]",
                "pub fn a::C<S>::g() ['a, S: a::T<a::D>, S: a::U]",
                "pub fn a::free()",
                "pub a::X::f: fn (u8)",
                "pub struct a::D",
            ],
        );
    }
}
