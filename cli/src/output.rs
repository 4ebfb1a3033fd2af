//! Data goes to stdout, messages to stderr. Neither panics when its reader has gone.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use comfy_table::{Table, presets};
use jiff::Timestamp;
use serde::Serialize;

use crate::failure::Failure;

/// Format of listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
}

/// Writes data to stdout.
///
/// # Errors
/// [`Failure::OutputClosed`] when the reader has gone.
pub(crate) fn print(data: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data.as_ref()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Failed(format!("could not write to stdout: {error}")),
    })
}

/// Returns a number with its noun, whose plural ends with an s: `1 job`, `2 jobs`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Writes a line to stdout.
pub(crate) fn line(text: impl AsRef<str>) -> Result<(), Failure> {
    print(format!("{}\n", text.as_ref()))
}

/// Whether output there has colors: on a terminal that knows them, unless the user has said no (<https://no-color.org>).
pub(crate) fn has_colors(to: &impl io::IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    to.is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes a line to stderr; a closed stderr is ignored.
pub(crate) fn say(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Writes a value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(format!("the result can't be written as JSON: {error}")))?;
    line(plain(&text))
}

/// Writes a value as JSON in one line.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::Failed(format!("the result can't be written as JSON: {error}")))?;
    line(plain(&text))
}

/// Escapes characters that JSON allows but that control some terminals or reverse the text. They only occur inside of strings.
fn plain(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut out, c| {
        if c != '\n' && is_harmful(c) {
            // All of them are below U+10000.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

/// Whether it is a control character, or overrides the direction of writing.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Lays out rows in columns, without frames, so that `awk` and `cut` can read them too. On a terminal, lines are cut at its width.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let text = columns(header, rows);
    let stdout = console::Term::stdout();
    match stdout.size_checked().filter(|_| stdout.is_term()) {
        Some((_, width)) => cut(&text, width.into()),
        None => text,
    }
}

/// Cuts lines at this width, whose end shows that.
fn cut(text: &str, width: usize) -> String {
    text.lines().fold(String::with_capacity(text.len()), |cut, line| {
        cut + &console::truncate_str(line, width.max(1), "…") + "\n"
    })
}

fn columns<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| one_line(&cell, 100)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Returns a text as one line of at most `width` characters, harmless to a terminal.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let text = harmless(text).replace(['\n', '\t'], " ");
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Escapes control characters and direction overrides: the stderr of a failed program may contain anything.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_harmful(c) && c != '\n' && c != '\t' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// Returns a value, or a dash if there is none.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats a time, to the millisecond.
pub(crate) fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Whether progress may be drawn: stderr is a terminal.
pub(crate) fn is_interactive() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_width_of_a_terminal() {
        let text = columns(["id", "error"], [["1".to_owned(), "a long story".to_owned()]]);
        assert_eq!(text, "id  error\n1   a long story\n");
        assert_eq!(cut(&text, 10), "id  error\n1   a lon…\n");
        assert_eq!(cut(&text, 80), text);
    }

    #[test]
    fn output_of_programs_can_not_control_the_terminal() {
        assert_eq!(harmless("a\x1b[31mb\r\n\t"), "a\\u{1b}[31mb\\r\n\t");
        assert_eq!(one_line("first\nsecond third", 12), "first secon…");
        // The order of letters can't be changed either.
        assert_eq!(harmless("a\u{202e}b\u{2066}\u{200f}\u{61c}ä"), "a\\u{202e}b\\u{2066}\\u{200f}\\u{61c}ä");
    }

    #[test]
    fn json_can_not_steer_the_terminal_and_stays_the_same_json() {
        let text = "a\x7f\u{9b}31m\u{202e}\u{2069}\u{200e}\u{61c}\n\x1bä";
        let written = plain(&serde_json::to_string_pretty(&[text]).unwrap());
        assert_eq!(written, "[\n  \"a\\u007f\\u009b31m\\u202e\\u2069\\u200e\\u061c\\n\\u001bä\"\n]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), [text]);
    }
}
