//! Small crates with what is hard to read in them, and with mistakes; and the real one.

use super::*;

fn files(texts: &[(&str, &str)]) -> Files {
    texts.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
}

fn outside() -> BTreeSet<String> {
    dependencies("[package]\n[dependencies]\ntokio-util.workspace = true\nserde = \"1\"\n\n[features]\n")
}

/// All edges, as `a->b`, without the ends of the names.
fn edges(texts: &[(&str, &str)]) -> String {
    let files = files(texts);
    let listed = listed(&files, &outside(), "").unwrap();
    let short = |line: &str| line.split(": ").next().unwrap_or_default().replace(".rs", "").replace(' ', "");
    listed.lines().map(short).collect::<Vec<_>>().join(" ")
}

fn problems(texts: &[(&str, &str)], list: &str) -> Vec<String> {
    check(&files(texts), &outside(), list).err().unwrap_or_default()
}

#[test]
fn the_rooms_hold() {
    let root = run::workspace();
    let list = text(&root.join("xtask/rooms.txt")).unwrap();
    let outside = dependencies(&text(&root.join("Cargo.toml")).unwrap());
    let said = check(&read(&root.join("src")).unwrap(), &outside, &list);
    assert!(said.is_ok(), "\n{}", said.unwrap_err().join("\n"));
}

const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");

/// One file that imports in the way of the text, beside `b.rs` and `c.rs`.
fn of_a(text: &str) -> String {
    let b = "pub struct B; pub enum E { V, W(u8) } pub const MAX: u8 = 1; pub fn f() {} pub trait T {}";
    edges(&[LIB, ("a.rs", text), ("b.rs", b), ("c.rs", "pub use crate::b::{B as Again, E, f}; pub struct C;")])
}

#[test]
fn paths_are_imports_wherever_they_stand() {
    for text in [
        "use crate::b::B;",
        "use crate::{b::{self}, };",
        "use super::b::T as _;",
        "use crate::b::*;",
        "use crate::b::E::*;",
        "use tokio_util::x; use crate::b; fn g() { b::f() }",
        "fn g() { use crate::b::f; f() }",
        "fn g() { super::b::f() }",
        "fn g(a: &'a [u8]) -> bool { matches!(a[0], 0..=super::b::MAX) }",
        "fn g() { if x == 'a' { crate::b::f::<u8>() } }",
        "fn g() { X { y: '\"', ..crate::b::f() } }",
        "mod inner { use super::super::b::B; }",
        "mod inner { use super::*; fn g() { b::f() } } use crate::b;",
        "pub(in crate::c) fn g() -> crate::b::B {}",
        "#[derive(crate::b::B)] struct S;",
        "struct S { #[serde(with = \"crate::b\")] x: u8 }",
        "impl crate::b::T for S { fn g(&self) -> <S as super::b::T>::X {} }",
        "macro_rules! m { () => { $crate::b::f() } }",
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(any(test, feature = \"kit\"))] fn g() { crate::b::f() }",
        "const fn g() -> u8 { crate::b::MAX }",
        "pub use crate::b::B; fn g(b: B) {}",
        "pub use crate::b::f; fn g() { [1].map(f); }",
        "pub use crate::b::*; fn g(b: B) {}",
    ] {
        assert_eq!(of_a(text), "a->b", "{text}");
    }
}

#[test]
fn these_are_no_imports() {
    for text in [
        "// use crate::b::B;\n/* crate::b::f() /* */ crate::b::f() */ fn g() {}",
        "/// See [`crate::b::B`].\nfn g() { h(\"crate::b::f()\", r#\"\" crate::b::f() \"\"#) }",
        "#[cfg(test)] mod tests { use super::super::b::B; }",
        "#[cfg(all(test, unix))] use crate::b::B;",
        "#[test] fn g() { crate::b::f() }",
        "#[tokio::test(start_paused = true)] async fn g() { crate::b::f() }",
        "impl S { #[cfg(test)] fn g() { crate::b::f() } fn h<'a>(x: &'a str) {} }",
        "pub(in crate::b) fn g() {}",
        "pub use crate::b::B;",
        "pub use crate::b::*; pub use crate::b::f; struct S { f: u8 }",
        "use ::b::B; fn g() { ::b::f() }",
        "use std::b::B; use serde::b; fn g() { b::f() }",
        "fn g() { let b = 1; h(b) }",
        "fn g() -> impl T + use<'a> {}",
    ] {
        assert_eq!(of_a(text), "", "{text}");
    }
}

#[test]
fn names_are_followed_to_where_they_are_defined() {
    assert_eq!(of_a("use crate::c::Again;"), "a->b");
    assert_eq!(of_a("use crate::c; fn g(x: c::E) {}"), "a->b a->c");
    assert_eq!(of_a("use crate::c::E::{self, V};"), "a->b");
    assert_eq!(of_a("use crate::c::*; fn g() { f() }"), "a->b a->c");
    // A function with the name of its module, and two modules that give each other's names.
    let facade = |c| {
        edges(&[
            ("lib.rs", "mod a; mod results; mod c; pub use results::*;"),
            ("a.rs", "use crate::{results, Inner}; fn g() { results() }"),
            ("results/mod.rs", "mod results; mod inner; pub use self::results::results; pub use self::inner::*;"),
            ("results/results.rs", "pub fn results() {} pub fn other() {}"),
            ("results/inner.rs", "pub use super::*; pub struct Inner;"),
            ("c.rs", c),
        ])
    };
    let of_a = "a->results/inner a->results/mod a->results/results";
    assert_eq!(facade(""), of_a);
    assert_eq!(
        facade("use super::results::inner::results; fn g() { results::other() }"),
        format!("{of_a} c->results/results")
    );
    let tree = [LIB, ("a.rs", "fn g() { crate::b::f::h() }"), ("b.rs", "pub fn f() {}"), ("c.rs", "")];
    assert!(problems(&tree, "")[0].contains("src/a.rs:1: crate::b::f::h leads nowhere"));
}

#[test]
fn macros_define_and_are_found() {
    let tree = [
        ("lib.rs", "#[macro_use] mod a; mod b; mod c;"),
        (
            "a.rs",
            "macro_rules! make { ($n:ident) => { pub struct Made; pub struct $n; } } make!(Named); macro_rules! b { () => {} } pub(crate) use b;",
        ),
        ("b.rs", "use crate::a::{Made, Named}; b!();"),
        ("c.rs", "fn g() { make!(X) }"),
    ];
    assert_eq!(edges(&tree), "b->a c->a");
    let tree = [("lib.rs", "mod a; mod b;"), ("a.rs", "struct A;"), ("b.rs", "use crate::a::Made;")];
    assert!(problems(&tree, "")[0].contains("src/b.rs:1: crate::a::Made leads nowhere"));
}

#[test]
fn files_are_found_like_the_compiler_finds_them() {
    let tree = [
        (
            "lib.rs",
            "mod a; mod b { pub mod c; } #[cfg(test)] mod t; #[cfg(doctest)] mod documents { #[doc = \"x\"] mod readme {} }",
        ),
        ("a.rs", "pub mod d;"),
        ("a/d.rs", "pub struct D; #[cfg(test)] mod tests;"),
        ("a/d/tests.rs", "use crate::b::c::X;"),
        ("b/c/mod.rs", "mod e; use super::super::a::d::D;"),
        ("b/c/e.rs", "#![cfg(test)]\nuse crate::a::d::D; mod f;"),
        ("b/c/e/f.rs", "use nothing::that::is;"),
        ("t.rs", "mod u;"),
        ("t/u.rs", "use super::not::there;"),
    ];
    assert_eq!(edges(&tree), "b/c/mod->a/d");
}

#[test]
fn what_is_not_understood_is_an_error() {
    for (text, part) in [
        ("use crate::b::Nothing;", "src/a.rs:1: crate::b::Nothing leads nowhere"),
        ("use super::super::b;", "super::super::b leads nowhere"),
        ("\nfn g() { self::h() }", "src/a.rs:2: self::h leads nowhere"),
        ("use crate::b; fn g() { b::nothing() }", "b::nothing leads nowhere"),
        ("pub use crate::b::Nothing;", "leads nowhere"),
        ("use made_by_a_macro::X;", "made_by_a_macro::X leads nowhere"),
        ("mod gone;", "there is no file for `mod gone`: neither src/a/gone.rs nor src/a/gone/mod.rs"),
        ("#[path = \"x.rs\"] mod b;", "#[path] is not supported"),
        ("fn g() { mod h {} }", "a module inside a function"),
        ("include!(\"x.rs\");", "`include!` is not supported"),
        ("fn g() {", "has no counterpart"),
        ("use crate::{b;", "has no counterpart"),
        ("extern crate b;", "`extern` is not supported"),
    ] {
        let problems = problems(&[LIB, ("a.rs", text), ("b.rs", "pub struct B;"), ("c.rs", "")], "");
        assert!(problems.first().is_some_and(|problem| problem.contains(part)), "{text}: {problems:?}");
    }
    let unreached = problems(&[LIB, ("a.rs", ""), ("b.rs", ""), ("c.rs", ""), ("c/d.rs", "")], "");
    assert_eq!(unreached, ["src/c/d.rs: no `mod` reaches this file: declare it, or remove it"]);
    assert_eq!(problems(&[], ""), ["src/lib.rs does not exist"]);
}

const HOUSE: &str = "low:\nmid: low\nlib: *\n";

fn house<'a>(low_x: &'a str, low_y: &'a str) -> [(&'a str, &'a str); 6] {
    [
        ("lib.rs", "mod low; mod mid;"),
        ("low/mod.rs", "pub mod x; mod y; pub use self::y::Y;"),
        ("low/x.rs", low_x),
        ("low/y.rs", low_y),
        ("mid.rs", "mod z; use crate::low::Y; pub struct M;"),
        ("mid/z.rs", "use super::M; pub struct Z;"),
    ]
}

#[test]
fn a_planted_circle_and_a_planted_import_are_found() {
    let known = format!("{HOUSE}known circle: mid.rs mid/z.rs\n");
    assert_eq!(problems(&house("pub struct X;", "pub struct Y;"), HOUSE), Vec::<String>::new());

    let circle = house("use super::Y;\npub struct X;", "use super::x::X; pub struct Y;");
    let found = problems(&circle, HOUSE);
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "src/low/x.rs is in a circle of imports that is not known:\n  \
                    src/low/x.rs:1 imports super::Y (src/low/y.rs)\n  src/low/y.rs:1 imports super::x::X (src/low/x.rs)\n";
    assert!(found[0].starts_with(expected) && found[0].ends_with("known circle: low/x.rs low/y.rs"), "{found:?}");
    assert_eq!(problems(&circle, &format!("{HOUSE}known circle: low/x.rs low/y.rs")), Vec::<String>::new());

    let found = problems(&house("pub struct X;", "pub struct Y;\nfn g(z: crate::mid::M) {}"), HOUSE);
    let upward = "room low may not use mid, nor any other room:\n  src/low/y.rs:2 imports crate::mid::M (src/mid.rs)\n";
    assert!(found.iter().any(|problem| problem.starts_with(upward)), "{found:?}");
    // It is a circle too, since mid uses low.
    assert!(found.iter().any(|problem| problem.contains("src/low/y.rs is in a circle")), "{found:?}");

    let found = problems(&house("pub struct X;", "pub struct Y;"), &known);
    assert_eq!(found, ["this known circle is gone: take it out of xtask/rooms.txt: mid.rs mid/z.rs"]);
}

#[test]
fn circles_that_grow_meet_or_shrink_are_found() {
    let tree = |a, b, c| {
        [("lib.rs", "mod a; mod b; mod c; mod d;"), ("a.rs", a), ("b.rs", b), ("c.rs", c), ("d.rs", "use crate::c;")]
    };
    const ROOMS: &str = "a: b c d\nb: c d\nc: d\nd:\nlib:\n";
    let found = |a, b, c, known: &str| {
        let all = problems(&tree(a, b, c), &format!("{ROOMS}{known}"));
        all.into_iter().filter(|problem| !problem.starts_with("room ")).collect::<Vec<_>>()
    };
    // All four are one circle, by d, which uses c; or two.
    let one = ("use crate::b;", "use crate::c;", "use crate::{a, d};");
    let two = ("use crate::b;", "use crate::a;", "use crate::d;");
    assert_eq!(found(one.0, one.1, one.2, "known circle: a.rs b.rs c.rs d.rs"), Vec::<String>::new());
    let grown = found(one.0, one.1, one.2, "known circle: a.rs b.rs c.rs");
    assert!(grown[0].starts_with("src/d.rs is in a circle of imports that is not known:\n  src/d.rs:1"), "{grown:?}");
    let met = found(one.0, one.1, one.2, "known circle: a.rs b.rs\nknown circle: c.rs d.rs");
    assert!(met[0].contains("have become one") && met[0].contains("src/b.rs:1 imports crate::c (src/c.rs)"), "{met:?}");
    let parts = found(two.0, two.1, two.2, "known circle: a.rs b.rs c.rs d.rs");
    assert_eq!(parts.len(), 2);
    assert!(parts[0].ends_with("is now:\nknown circle: a.rs b.rs") && parts[1].ends_with("known circle: c.rs d.rs"));
}

#[test]
fn a_file_without_a_counterpart_is_found_and_so_is_a_reason_that_is_gone() {
    let tree = [
        ("lib.rs", "mod one; mod two;"),
        ("one/mod.rs", "mod both; mod here;"),
        ("one/both.rs", ""),
        ("one/here.rs", ""),
        ("two/mod.rs", "mod both; mod there;"),
        ("two/both.rs", ""),
        ("two/there.rs", ""),
    ];
    let found = |alone: &str| problems(&tree, &format!("one:\ntwo:\nlib: *\nmirror: one two\n{alone}"));
    assert_eq!(found("alone: one/here.rs two/there.rs"), Vec::<String>::new());
    let missing = found("alone: one/here.rs");
    assert!(
        missing.len() == 1 && missing[0].starts_with("src/two/there.rs has no counterpart src/one/there.rs"),
        "{missing:?}"
    );
    let gone = found("alone: one/here.rs two/there.rs one/both.rs");
    assert_eq!(gone, ["`alone: one/both.rs` is no longer true: take it out of xtask/rooms.txt"]);
}

#[test]
fn known_imports_and_mod_files_only_become_fewer() {
    let tree = [
        ("lib.rs", "mod low; mod mid; mod top;"),
        ("low/mod.rs", "mod x; pub const A: u8 = 1;"),
        ("low/x.rs", "use crate::mid::f;"),
        ("mid.rs", "pub fn f() {}"),
        ("top.rs", ""),
    ];
    let known = "known import: low/x.rs -> mid.rs\nknown mod.rs: low/mod.rs\n";
    let list = "low:\nmid: low\ntop: mid\nlib: *\n";
    assert_eq!(problems(&tree, &format!("{list}{known}")), Vec::<String>::new());
    let found = problems(&tree, list);
    assert!(found[0].contains("\n  src/low/x.rs:1 imports crate::mid::f (src/mid.rs)\n"), "{found:?}");
    assert!(found[1].starts_with("src/low/mod.rs:1 defines A: a mod.rs has only"), "{found:?}");

    let mended = [tree[0], ("low/mod.rs", "mod x;"), ("low/x.rs", ""), tree[3], tree[4]];
    let found = problems(&mended, &format!("{list}{known}"));
    assert!(found[0].starts_with("`known import: low/x.rs -> mid.rs` is no longer true"), "{found:?}");
    assert!(found[1].starts_with("`known mod.rs: low/mod.rs` is no longer true"), "{found:?}");

    let found = problems(&mended, "low:\nmid: low\nlib: *\nattic: low\n");
    assert_eq!(found[0], "src/top.rs is in no room: give it a line in xtask/rooms.txt");
    assert_eq!(found[1], "room attic has no files: take it out of xtask/rooms.txt");
}
