//! The blocks of Rust in a document.

/// A comment before a block that names the frame around it: code that the reader need not see.
const FRAME: &str = "<!-- frame:";
/// A comment before a block that nobody compiles, with the reason.
const IGNORED: &str = "<!-- ignored:";

#[derive(Debug, PartialEq)]
pub(super) enum Mode {
    /// Compiled and run.
    Run,
    /// Only compiled: it needs a server, or a file that it should not write.
    NoRun,
    /// Not even compiled.
    Ignored,
}

#[derive(Debug, PartialEq)]
pub(super) struct Block {
    /// The line of the opening fence, counted from 1.
    pub(super) line: usize,
    pub(super) code: Vec<String>,
    pub(super) mode: Mode,
    pub(super) frame: Option<String>,
}

impl Block {
    /// Whether it is a whole program.
    pub(super) fn is_program(&self) -> bool {
        self.code.iter().any(|line| line.trim_start().trim_start_matches("async ").starts_with("fn main("))
    }

    /// The line of the closing fence, counted from 1.
    pub(super) fn end(&self) -> usize {
        self.line + self.code.len() + 1
    }
}

/// Returns the blocks of Rust, or all that is wrong with them: each problem begins with its line.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>, Vec<String>> {
    let (mut blocks, mut problems) = (Vec::new(), Vec::new());
    let mut before = Before::default();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    while let Some((number, line)) = lines.next() {
        let Some(fence) = Fence::opened(line) else {
            if line.trim_start_matches([' ', '\t', '>', '*', '-']).starts_with("```rust") {
                problems
                    .push(format!("{number}: a fence inside a quotation or a list item is not compiled: move it out"));
            }
            problems.extend(before.see(number, line));
            continue;
        };
        let mut code = Vec::new();
        let closed = lines.by_ref().any(|(_, line)| {
            let closes = fence.closes(line);
            if !closes {
                code.push(line.to_owned());
            }
            closes
        });
        if !closed {
            problems.push(format!("{number}: this block has no end"));
        }
        match before.block(number, &fence, code) {
            Ok(block) => blocks.extend(block),
            Err(why) => problems.extend(why.into_iter().map(|(line, why)| format!("{line}: {why}"))),
        }
    }
    problems.extend(before.unused());
    if problems.is_empty() { Ok(blocks) } else { Err(problems) }
}

struct Fence<'a> {
    mark: &'a str,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn opened(line: &'a str) -> Option<Self> {
        let line = line.trim_start();
        let letter = line.chars().next().filter(|letter| ['`', '~'].contains(letter))?;
        let info = line.trim_start_matches(letter);
        let mark = &line[..line.len() - info.len()];
        // A line of text may begin with code in three backticks.
        (mark.len() >= 3 && !info.contains('`')).then_some(Self { mark, info: info.trim() })
    }

    fn closes(&self, line: &str) -> bool {
        Fence::opened(line).is_some_and(|end| end.info.is_empty() && end.mark.starts_with(self.mark))
    }
}

/// The comments directly before a fence, with their lines.
#[derive(Default)]
struct Before {
    frame: Option<(usize, String)>,
    reason: Option<(usize, String)>,
}

impl Before {
    /// Takes a line outside of blocks: a comment, or text, before which no comment may be left over.
    fn see(&mut self, number: usize, line: &str) -> Vec<String> {
        let comment = |mark| Some(line.trim().strip_prefix(mark)?.strip_suffix("-->")?.trim().to_owned());
        if let Some(name) = comment(FRAME) {
            return self.frame.replace((number, name)).map(|(line, _)| left_over(line)).into_iter().collect();
        }
        if let Some(reason) = comment(IGNORED) {
            return self.reason.replace((number, reason)).map(|(line, _)| left_over(line)).into_iter().collect();
        }
        self.unused()
    }

    fn unused(&mut self) -> Vec<String> {
        [self.frame.take(), self.reason.take()].into_iter().flatten().map(|(line, _)| left_over(line)).collect()
    }

    /// Returns the block that follows; `None` if it is not Rust. A problem comes with its line.
    fn block(
        &mut self,
        line: usize,
        fence: &Fence<'_>,
        code: Vec<String>,
    ) -> Result<Option<Block>, Vec<(usize, String)>> {
        let comments = std::mem::take(self);
        let mut words = fence.info.split([',', ' ']).filter(|word| !word.is_empty());
        let language = words.next().unwrap_or_default();
        if language != "rust" {
            let is_rust = ["rs", "rust"].contains(&language.to_lowercase().as_str());
            let mut problems = Vec::new();
            if is_rust {
                problems.push((line, format!("a block of `{language}` is not compiled: write `rust`")));
            }
            let comments = [comments.frame, comments.reason].into_iter().flatten();
            problems.extend(comments.map(|(line, _)| (line, "this comment belongs before a block of Rust".to_owned())));
            return if problems.is_empty() { Ok(None) } else { Err(problems) };
        }
        let mut problems = Vec::new();
        let mut mode = Mode::Run;
        for word in words {
            match word {
                "no_run" => mode = Mode::NoRun,
                "ignore" => mode = Mode::Ignored,
                _ => problems
                    .push((line, format!("`{word}` is not known: a block is `rust`, `rust,no_run` or `rust,ignore`"))),
            }
        }
        let has_reason = comments.reason.as_ref().is_some_and(|(_, reason)| !reason.is_empty());
        match (&mode, has_reason) {
            (Mode::Ignored, false) => {
                problems.push((line, format!("nobody compiles this block: write `{IGNORED} reason -->` above it")));
            }
            (Mode::Run | Mode::NoRun, true) => {
                problems.push((line, "there is a reason to ignore this block, but it is not ignored".to_owned()));
            }
            _ => {}
        }
        if mode == Mode::Ignored && comments.frame.is_some() {
            problems.push((line, "a block that is ignored needs no frame".to_owned()));
        }
        for (at, text) in code.iter().enumerate() {
            if text.trim() == "#" || text.trim_start().starts_with("# ") {
                let why =
                    "readers see this line, which only rustdoc would hide: put it into a frame of documents/frames.txt";
                problems.push((line + 1 + at, why.to_owned()));
            }
        }
        if problems.is_empty() {
            Ok(Some(Block { line, code, mode, frame: comments.frame.map(|(_, name)| name) }))
        } else {
            Err(problems)
        }
    }
}

fn left_over(line: usize) -> String {
    format!("{line}: this comment belongs directly before a block of Rust")
}
