//! A document as a module of Rust, in which each line of a block has the number that it has in the document. So a message of the compiler, or of
//! a panic, names the line of the document.

use super::blocks::{Block, Mode};
use super::frames::{Frame, Frames};

/// The error of a block's code. Blocks may use `?`.
const RETURNS: &str = "std::result::Result<(), Box<dyn std::error::Error>>";

/// Returns the module, and the names of the tests in it that run a whole program. A problem begins with its line.
pub(super) fn module(
    document: &str,
    lines: usize,
    blocks: &[Block],
    frames: &Frames,
) -> Result<(String, Vec<String>), Vec<String>> {
    let mut text = vec![String::new(); lines];
    let (mut programs, mut problems) = (Vec::new(), Vec::new());
    let none = Frame::default();
    for block in blocks.iter().filter(|block| block.mode != Mode::Ignored) {
        let line = block.line;
        let frame = match &block.frame {
            Some(name) => frames.get(name),
            None => Some(&none),
        };
        let Some(frame) = frame else {
            let name = block.frame.as_deref().unwrap_or_default();
            problems.push(format!("{line}: there is no frame `{name}` in {}", super::FRAMES));
            continue;
        };
        let (before, after) = (&frame.before, &frame.after);
        let (head, tail) = if block.is_program() {
            let mut tail = after.clone();
            if block.mode == Mode::Run {
                tail += " #[test] #[ignore = \"a process of its own\"] fn program() -> impl std::process::Termination { main() }";
                programs.push(format!("{}::line_{line}::program", name(document)));
            }
            (before.clone(), tail)
        } else {
            let test = match block.mode {
                Mode::Run => format!("#[test] fn runs() {{ crate::run(\"{document}:{line}\", block()); }}"),
                Mode::NoRun | Mode::Ignored => String::new(),
            };
            let tail = format!("{after} ; Ok(()) }} {test}");
            (format!("async fn block() -> {RETURNS} {{ {before}"), tail)
        };
        text[line - 1] = format!("mod line_{line} {{ {head}");
        text[line..block.end() - 1].clone_from_slice(&block.code);
        text[block.end() - 1] = format!("{tail} }}");
    }
    if problems.is_empty() { Ok((text.join("\n") + "\n", programs)) } else { Err(problems) }
}

/// Returns the name of a document's module.
pub(super) fn name(document: &str) -> String {
    document.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}
