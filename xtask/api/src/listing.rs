//! The text of an API: one line for each item, without those that follow from others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use public_api::PublicItem;
use public_api::rustdoc_types::{Crate, FORMAT_VERSION, Impl, Item, ItemEnum};

use crate::Result;
use crate::joined::joined;

/// Traits that the compiler implements and that are not listed. Two are about panics, and of these the library promises nothing. The others
/// can't be named by programs.
const NOT_LISTED: [&str; 5] = ["Freeze", "RefUnwindSafe", "StructuralPartialEq", "UnsafeUnpin", "UnwindSafe"];

/// Lists what rustdoc's JSON describes. `compiler` is the version of the compiler that wrote it.
pub(crate) fn text(file: &Path, compiler: &str) -> Result<String> {
    let json = std::fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    check_version(&json, compiler)?;
    let unreadable = |why: &dyn std::error::Error| format!("cannot read rustdoc's JSON in {}: {why}", file.display());
    let described: Crate = serde_json::from_str(&json).map_err(|why| unreadable(&why))?;
    if described.includes_private {
        return Err(format!("{} has private items, so it is not the public API", file.display()));
    }
    let api = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .build()
        .map_err(|why| unreadable(&why))?;
    let lines: Vec<Line> = api.items().map(|item| Line::new(item, &described)).collect();
    // A list without items says nothing, and two of them are equal.
    if lines.len() < 2 {
        return Err(format!("{} has no public items", file.display()));
    }
    let mut text = format!("// The public API, by `cargo xtask api --write`. Made with Rust {compiler}.\n");
    for line in joined(listed(lines)) {
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Refuses JSON of another version than that of the types that read it: it might be read as something else.
fn check_version(json: &str, compiler: &str) -> Result<()> {
    let found = serde_json::from_str::<serde_json::Value>(json)
        .ok()
        .and_then(|json| json["format_version"].as_u64())
        .ok_or_else(|| "rustdoc's JSON does not say which version it has".to_owned())?;
    if found == u64::from(FORMAT_VERSION) {
        return Ok(());
    }
    Err(format!(
        "the public API was not checked: rustdoc of Rust {compiler} writes JSON of version {found}, and {FORMAT_VERSION} is read.\n  \
         Use a compiler that writes {FORMAT_VERSION} (Rust 1.95 does), or move to another one: in xtask/api/Cargo.toml, name the version of \
         public-api that reads {found}, then run `cargo xtask api --write` and look at what changed"
    ))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A module, or an item of one.
    Top,
    /// A field, a variant, an inherent implementation, or an item of one of these or of a trait.
    Part,
    /// An implementation of a trait.
    Impl,
    /// An associated type that such an implementation chooses.
    Chosen,
    /// What need not be listed, because another line says it.
    Implied,
}

#[derive(Clone, Debug)]
struct Line {
    /// The same for an item under all its paths.
    id: u32,
    kind: Kind,
    text: String,
}

impl Line {
    fn new(item: &PublicItem, described: &Crate) -> Self {
        let parent = item.parent_id().and_then(|id| described.index.get(&id));
        let own = described.index.get(&item.id());
        let mut text = item.to_string();
        if provided(own, parent) {
            text.push_str(" { .. }");
        }
        Self { id: item.id().0, kind: kind(own, parent, &text), text }
    }
}

/// Whether an item is a method of a trait that implementations need not write.
fn provided(item: Option<&Item>, parent: Option<&Item>) -> bool {
    matches!(item.map(|item| &item.inner), Some(ItemEnum::Function(function)) if function.has_body)
        && matches!(parent.map(|parent| &parent.inner), Some(ItemEnum::Trait(_)))
}

fn kind(item: Option<&Item>, parent: Option<&Item>, text: &str) -> Kind {
    match (item.map(|item| &item.inner), parent.map(|parent| &parent.inner)) {
        (Some(ItemEnum::Impl(of)), _) if of.trait_.is_some() => {
            if implied(of, text) {
                Kind::Implied
            } else {
                Kind::Impl
            }
        }
        (Some(ItemEnum::AssocType { .. }), Some(ItemEnum::Impl(of))) if of.trait_.is_some() => Kind::Chosen,
        // The trait says what its methods are.
        (_, Some(ItemEnum::Impl(of))) if of.trait_.is_some() => Kind::Implied,
        (_, None | Some(ItemEnum::Module(_))) => Kind::Top,
        _ => Kind::Part,
    }
}

/// Whether an implementation is the rule. A type is `Send`, `Sync` and `Unpin` unless a line says that it is not, or when.
fn implied(of: &Impl, text: &str) -> bool {
    let name = of.trait_.as_ref().and_then(|of| of.path.rsplit("::").next()).unwrap_or_default();
    NOT_LISTED.contains(&name) || of.is_synthetic && !of.is_negative && !text.contains(" where ")
}

/// Leaves out what other lines say. An item with several paths is listed at the shortest, and the others refer to that.
fn listed(lines: Vec<Line>) -> Vec<String> {
    let mut shortest = BTreeMap::new();
    for line in lines.iter().filter(|line| line.kind == Kind::Top) {
        let path = path(&line.text);
        let best = shortest.entry(line.id).or_insert(path);
        if depth(path) < depth(best) {
            *best = path;
        }
    }
    let shortest: BTreeMap<u32, String> = shortest.into_iter().map(|(id, path)| (id, path.to_owned())).collect();

    let mut out = Vec::new();
    let mut done = BTreeSet::new();
    let mut is_listed_here = true;
    let mut is_impl_listed = true;
    for line in lines {
        match line.kind {
            Kind::Top => {
                let here = path(&line.text);
                let there = &shortest[&line.id];
                is_listed_here = here == there;
                out.push(if is_listed_here { line.text } else { format!("pub use {here} (= {there})") });
            }
            Kind::Impl => {
                is_impl_listed = is_listed_here && done.insert(line.id);
                if is_impl_listed {
                    out.push(line.text);
                }
            }
            Kind::Chosen if is_impl_listed => out.push(format!("    {}", line.text)),
            Kind::Part if is_listed_here => out.push(line.text),
            Kind::Chosen | Kind::Part | Kind::Implied => {}
        }
    }
    out
}

/// Returns the path of an item of a module: `a::b::C` of `pub struct a::b::C<T: a::D>`.
fn path(text: &str) -> &str {
    // Attributes and keywords have no path in them.
    let word = text.split(' ').find(|word| word.contains("::")).or_else(|| text.split(' ').next_back());
    let word = word.unwrap_or_default();
    word[..word.find(['<', '(']).unwrap_or(word.len())].trim_end_matches(':')
}

fn depth(path: &str) -> usize {
    path.matches("::").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32, kind: Kind, text: &str) -> Line {
        Line { id, kind, text: text.to_owned() }
    }

    #[test]
    fn an_item_is_listed_at_its_shortest_path() {
        let own = [line(2, Kind::Part, "impl a::b::C"), line(3, Kind::Part, "pub fn a::b::C::d(&self)")];
        let mut lines = vec![line(1, Kind::Top, "pub struct a::b::C<T>")];
        lines.extend(own.clone());
        lines.push(line(1, Kind::Top, "pub struct a::C<T>"));
        lines.extend(own);
        let expected = ["pub use a::b::C (= a::C)", "pub struct a::C<T>", "impl a::b::C", "pub fn a::b::C::d(&self)"];
        assert_eq!(listed(lines), expected);
    }

    #[test]
    fn an_implementation_is_listed_once_with_the_types_it_chooses() {
        let both = [line(2, Kind::Impl, "impl a::T for a::C"), line(3, Kind::Chosen, "pub type a::C::E = u8")];
        let mut lines = vec![line(1, Kind::Top, "pub struct a::C")];
        lines.extend(both.clone());
        lines.push(line(4, Kind::Implied, "pub fn a::C::t(&self)"));
        lines.push(line(5, Kind::Top, "pub trait a::T"));
        lines.extend(both);
        let expected = ["pub struct a::C", "impl a::T for a::C", "    pub type a::C::E = u8", "pub trait a::T"];
        assert_eq!(listed(lines), expected);
    }

    #[test]
    fn paths_are_found_behind_attributes_and_before_parameters() {
        for (text, expected) in [
            ("#[non_exhaustive] pub enum a::b::C<'a, S: a::d::E>", "a::b::C"),
            ("pub trait a::T: core::marker::Send", "a::T"),
            ("pub async fn a::b::f(&self, core::time::Duration)", "a::b::f"),
            ("pub mod a", "a"),
        ] {
            assert_eq!(path(text), expected);
        }
    }

    #[test]
    fn json_of_another_version_is_refused() {
        let own = format!(r#"{{"format_version": {FORMAT_VERSION}}}"#);
        assert_eq!(check_version(&own, "1.0.0"), Ok(()));
        for other in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
            let why = check_version(&format!(r#"{{"format_version": {other}}}"#), "1.0.0").unwrap_err();
            assert!(why.contains("was not checked") && why.contains(&format!("version {other}")), "{why}");
        }
        assert!(check_version("{}", "1.0.0").is_err() && check_version("", "1.0.0").is_err());
    }
}
