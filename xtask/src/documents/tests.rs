use super::blocks::{Mode, blocks};
use super::frames::Frames;
use super::module::module;
use super::*;

fn problem(text: &str) -> String {
    blocks(text).expect_err(text).join("; ")
}

#[test]
fn the_documents_and_the_library_are_in_order() {
    check().unwrap();
}

#[test]
fn all_features_of_the_library_are_on() {
    let features = features().unwrap();
    let names: Vec<&str> = features.split(',').collect();
    assert!(["jobwright/sqlite", "jobwright/codecs"].iter().all(|name| names.contains(name)), "{features}");
    assert!(names.iter().all(|name| *name != "jobwright/default"), "{features}");
}

#[test]
fn a_block_keeps_its_lines() {
    let text = "# Title\n\n<!-- frame: f -->\n```rust\nlet a = b;\n  a?;\n```\nText.\n```rust,no_run\nc();\n```\n";
    let frames =
        Frames::read("About frames.\n// frame: f\n// why\nlet b =\n  1;\n/* the block */\nafter();\n").unwrap();
    let (code, programs) = module("docs/a.md", 11, &blocks(text).unwrap(), &frames).unwrap();
    let lines: Vec<&str> = code.lines().collect();
    assert_eq!(lines.len(), 11);
    assert!(lines[3].starts_with("mod line_4 {") && lines[3].ends_with("let b = 1;"), "{}", lines[3]);
    assert_eq!(lines[4..6], ["let a = b;", "  a?;"]);
    assert!(lines[6].starts_with("after();") && lines[6].contains("crate::run(\"docs/a.md:4\""), "{}", lines[6]);
    assert_eq!(lines[9], "c();");
    assert!(!lines[10].contains("#[test]"), "it is only compiled");
    assert!(programs.is_empty() && frames.unused().next().is_none());
}

#[test]
fn a_whole_program_is_run_as_one() {
    let text = "```rust\n#[tokio::main]\nasync fn main() {\n}\n```\n";
    let (code, programs) = module("docs/A.md", 5, &blocks(text).unwrap(), &Frames::default()).unwrap();
    assert_eq!(programs, ["docs_a_md::line_1::program"]);
    assert!(code.starts_with("mod line_1 { \n#[tokio::main]\n"), "{code}");
    let (_, programs) =
        module("a.md", 5, &blocks(&text.replace("rust", "rust,no_run")).unwrap(), &Frames::default()).unwrap();
    assert!(programs.is_empty());
}

#[test]
fn a_block_that_nobody_would_compile_is_refused() {
    assert!(problem("\n```rs\nx\n```").starts_with("2: a block of `rs` is not compiled"));
    assert!(problem("```Rust\nx\n```").starts_with("1: "));
    assert!(problem("> ```rust\n> x\n> ```").starts_with("1: a fence inside"));
    assert!(problem("```rust,norun\nx\n```").contains("`norun` is not known"));
    assert!(problem("```rust\nx").contains("has no end"));
    assert!(problem("```rust,ignore\nx\n```").contains("nobody compiles this block"));
    assert!(problem("<!-- ignored: -->\n```rust,ignore\nx\n```").contains("nobody compiles this block"));
    let ignored = blocks("<!-- ignored: it shows a mistake -->\n```rust,ignore\nx\n```").unwrap();
    assert_eq!(ignored[0].mode, Mode::Ignored);
}

#[test]
fn a_line_that_only_rustdoc_hides_is_refused() {
    assert_eq!(problem("```rust\nlet a;\n# let b;\n```").split(':').next(), Some("3"));
    assert!(problem("```rust\n#\n```").starts_with("2: "));
    assert!(blocks("```rust\n#[derive(Clone)]\nstruct A;\n```\n```sh\n# a comment\n```").is_ok());
}

#[test]
fn a_comment_for_no_block_is_refused() {
    assert!(problem("<!-- frame: f -->\n\n```rust\nx\n```").starts_with("1: this comment belongs directly before"));
    assert!(problem("<!-- frame: f -->\n```sh\nx\n```").starts_with("1: this comment belongs before a block of Rust"));
    assert!(problem("<!-- ignored: why -->\n```rust\nx\n```").contains("but it is not ignored"));
    assert!(problem("<!-- frame: f -->").starts_with("1: "));
}

#[test]
fn a_frame_that_is_missing_or_broken_is_named() {
    let text = "\n<!-- frame: g -->\n```rust\nx\n```";
    let why = module("a.md", 5, &blocks(text).unwrap(), &Frames::default()).unwrap_err();
    assert!(why[0].starts_with("3: there is no frame `g`"), "{why:?}");
    assert!(Frames::read("// frame: f\nlet a = 1;\n").is_err());
    assert!(Frames::read("// frame: f\n/* the block */\n// frame: f\n/* the block */\n").is_err());
    let frames = Frames::read("// frame: f\n/* the block */\n").unwrap();
    assert_eq!(frames.unused().collect::<Vec<_>>(), ["f"]);
}

#[test]
fn fences_of_other_marks_and_lengths_are_read() {
    let text = "~~~rust\na();\n```\n~~~\n````text\n```rust\nb();\n```\n````\n```rust\nc();\n```\n";
    let found: Vec<(usize, usize)> = blocks(text).unwrap().iter().map(|block| (block.line, block.end())).collect();
    assert_eq!(found, [(1, 4), (10, 12)]);
}

#[test]
fn the_librarys_first_block_is_that_of_the_readme() {
    let library = "//! A library.\n//!\n//! ```no_run\n//! a();\n//!\n//! b();\n//! ```\n\nmod x;\n";
    assert_eq!(first_program("```rust\na();\n\nb();\n```\n", &library.replace("no_run", "rust,no_run")), None);
    assert!(first_program("```rust\na();\n```\n", &library.replace("no_run", "rust,no_run")).is_some());
}
