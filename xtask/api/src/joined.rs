//! Lines that belong together, as one.

/// Joins the implementations of a type that say nothing but the name of a trait, and variants with their fields. Leaves out the lines that open a
/// block of methods without a bound of its own: each method has the name of its type.
pub(crate) fn joined(lines: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut variant: Option<String> = None;
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        if let Some((fields_of, field)) = variant.as_deref().and_then(|name| Some((name, field(name, &line)?))) {
            let last = out.last_mut().filter(|last| last.contains(fields_of));
            if let Some(last) = last {
                let open = last.strip_suffix(" }").map(|last| format!("{last}, "));
                *last = open.unwrap_or_else(|| format!("{last} {{ ")) + field + " }";
                continue;
            }
        }
        variant = line.strip_prefix("pub ").filter(|name| is_path(name)).map(str::to_owned);
        if opens_a_plain_block(&line) {
            continue;
        }
        let has_types = lines.peek().is_some_and(|next| next.starts_with("    "));
        if let (Some((generics, of, on)), false) = (implementation(&line), has_types) {
            let head = format!("impl{generics} ");
            let tail = format!(" for {on}");
            let last = out.last_mut().filter(|last| last.starts_with(&head) && last.ends_with(&tail));
            if let Some(last) = last {
                let names = last[head.len()..last.len() - tail.len()].to_owned();
                *last = format!("{head}{names} + {}{tail}", short(of));
            } else {
                out.push(format!("{head}{}{tail}", short(of)));
            }
            continue;
        }
        out.push(line);
    }
    out
}

/// The field of a variant that a line lists: `d: u8` of `pub a::B::C::d: u8`, if the variant is `a::B::C`.
fn field<'a>(variant: &str, line: &'a str) -> Option<&'a str> {
    let field = line.strip_prefix("pub ")?.strip_prefix(variant)?.strip_prefix("::")?;
    let (name, _) = field.split_once(": ")?;
    is_path(name).then_some(field)
}

/// The parameters, the trait and the type of an implementation without conditions: `impl<'a> a::T for a::C<'a>`.
fn implementation(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix("impl")?;
    let (generics, rest) = if rest.starts_with('<') { rest.split_at(rest.find("> ")? + 1) } else { ("", rest) };
    let (of, on) = rest.trim_start().split_once(" for ")?;
    let is_plain = is_path(of) && !on.contains(" where ") && !generics.contains(':');
    is_plain.then_some((generics, of, on))
}

/// A trait of the standard library or of serde goes without the path of its module: `core::fmt::Debug`.
fn short(of: &str) -> &str {
    match of.split("::").next() {
        Some("core" | "alloc" | "std" | "serde_core") => of.rsplit("::").next().unwrap_or(of),
        _ => of,
    }
}

/// Whether a line only opens a block of methods: `impl a::C` or `impl a::C<'_>`.
fn opens_a_plain_block(line: &str) -> bool {
    line.strip_prefix("impl")
        .is_some_and(|rest| !rest.contains(" for ") && !rest.contains(": ") && !rest.contains(" where "))
        && !line.contains('=')
        && !has_arguments(line)
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
    fn conditions_arguments_and_chosen_types_keep_their_lines() {
        let lines = [
            "impl<T: core::clone::Clone> core::clone::Clone for a::C<T>",
            "impl core::convert::From<a::D> for a::C",
            "impl core::marker::Send for a::C where a::D: core::marker::Send",
            "impl core::str::traits::FromStr for a::C",
            "    pub type a::C::Err = a::E",
            "impl !core::marker::Sync for a::C",
        ];
        check(&lines, &lines);
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
