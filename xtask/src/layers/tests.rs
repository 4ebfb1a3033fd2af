use std::path::PathBuf;
use std::{env, fs};

use super::*;

/// A crate of these files, removed at the end.
struct Crate(PathBuf);

impl Crate {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = env::temp_dir().join(format!("jobwright-layers-{}-{name}", std::process::id()));
        for (file, text) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Crate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The pairs of files in which the first uses the second.
fn used(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let folder = Crate::new(name, files);
    found(&folder.0).unwrap().uses.into_keys().map(|(from, to)| format!("{from} {to}")).collect()
}

#[test]
fn the_library_and_the_program_keep_their_layers() {
    run().unwrap();
}

#[test]
fn a_name_leads_to_the_file_that_defines_it() {
    let facade = ("a/mod.rs", "mod deep; pub use self::deep::{Thing, make as made};");
    let deep = ("a/deep.rs", "pub struct Thing; pub fn make() {}");
    for (name, text) in [
        ("use", "use crate::a::Thing;"),
        ("group", "use super::a::{self as other, Thing as It};"),
        ("path", "fn f() { crate::a::made(); }"),
        ("type", "struct S(Vec<Option<crate::a::Thing>>);"),
        ("macro", "fn f() { assert!(matches!(x, (crate::a::Thing, 1)), \"no\"); }"),
        ("nested", "mod inner { fn f() { use super::super::a::Thing; } }"),
    ] {
        let found = used(name, &[("lib.rs", "mod a; mod b;"), facade, deep, ("b.rs", text)]);
        assert!(found.contains(&"b.rs a/deep.rs".to_owned()), "{name}: {found:?}");
        // The facade only passes the names on.
        assert!(found.iter().all(|pair| !pair.starts_with("a/mod.rs")), "{name}: {found:?}");
    }
}

#[test]
fn tests_and_other_crates_and_words_in_texts_are_no_uses() {
    let b = "
        //! [`crate::a::Thing`]
        use std::fmt;
        use made::made;
        pub(in crate::a) fn f(a: u8) { println!(\"crate::a::Thing {}\", a); made(); other::a::b(); }
        #[cfg(test)]
        mod tests { use crate::a::Thing; }
        #[cfg(all(test, unix))]
        mod more { use crate::a::Thing; }";
    let found = used("none", &[("lib.rs", "mod a; mod b;"), ("a.rs", "pub struct Thing;"), ("b.rs", b)]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_facade_that_uses_a_name_itself_counts() {
    let found = used("own", &[("lib.rs", "mod a; pub use a::f; fn g() { f(); }"), ("a.rs", "pub fn f() {}")]);
    assert_eq!(found, ["lib.rs a.rs"]);
}

#[test]
fn a_glob_uses_all_that_is_behind_it() {
    let b = ("b.rs", "use crate::f;");
    let found = used("glob", &[("lib.rs", "mod a; mod b; pub use a::*;"), ("a.rs", "pub fn f() {}"), b]);
    assert_eq!(found, ["b.rs lib.rs", "lib.rs a.rs"]);
}

#[test]
fn a_file_that_is_named_may_be_several_modules() {
    let version = "#[path = \"each/mod.rs\"] mod shared; pub use self::shared::Thing; pub struct Own;";
    let found = used(
        "path",
        &[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod one; mod two; mod other;"),
            ("a/one.rs", version),
            ("a/two.rs", version),
            ("a/other.rs", "pub struct Other;"),
            ("a/each/mod.rs", "mod deep; pub use self::deep::Thing;"),
            ("a/each/deep.rs", "use super::super::Own; pub struct Thing(crate::a::other::Other, Own);"),
        ],
    );
    assert_eq!(found, ["a/each/deep.rs a/one.rs", "a/each/deep.rs a/other.rs", "a/each/deep.rs a/two.rs"]);
}

#[test]
fn a_planted_circle_is_found() {
    let line = ("lib.rs", "mod a; mod b; mod c; mod top;");
    let (a, top) = (("a.rs", "use crate::b::B; pub struct A;"), ("top.rs", "use crate::a::A;"));
    let (b, c) = (("b.rs", "use crate::c::C; pub struct B;"), ("c.rs", "pub struct C;"));
    let folder = Crate::new("line", &[line, a, b, c, top]);
    assert_eq!(circles(found(&folder.0).unwrap().uses), None);
    let back = ("c.rs", "pub struct C; impl C { fn f() { crate::a::A; } }");
    let folder = Crate::new("circle", &[line, a, b, back, top]);
    let found = circles(found(&folder.0).unwrap().uses).unwrap();
    assert!(found.contains("c.rs uses a.rs (crate::a::A)") && !found.contains("top.rs"), "{found}");
}

#[test]
fn a_planted_use_of_a_higher_layer_is_found() {
    let files = [
        ("lib.rs", "mod alone; mod low; mod mid; mod top; pub use alone::Alone; pub use low::T;"),
        ("alone.rs", "pub struct Alone;"),
        ("low.rs", "pub use crate::top::T;"),
        ("mid/mod.rs", "pub mod left; pub mod right;"),
        ("mid/left.rs", "use crate::low;"),
        ("mid/right.rs", "fn f() { super::left::g(); }"),
        ("top.rs", "pub struct T; use crate::mid::left;"),
    ];
    let folder = Crate::new("upward", &files);
    let Found { files, mut uses, passed } = found(&folder.0).unwrap();
    assert!(passed.keys().any(|(from, to)| from == "low.rs" && to == "top.rs"), "{passed:?}");
    uses.extend(passed);
    let found = against("a comment\n| alone low\n| mid/left mid/right\n| mid top\n| lib\n", &files, &uses);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("low.rs uses top.rs (crate::top::T), but low is not above top"), "{found:?}");
    assert!(found[1].starts_with("mid/right.rs uses mid/left.rs"), "{found:?}");
    let found = against("| low\n| mid\n| gone\n| lib\n", &files, &uses);
    assert!(found.iter().any(|problem| problem.starts_with("top.rs is in no layer")), "{found:?}");
    assert!(found.iter().any(|problem| problem.starts_with("alone.rs is in no layer")), "{found:?}");
    assert!(found.iter().any(|problem| problem.starts_with("gone has no files")), "{found:?}");
}
