//! `jobwright man`: a page for each command, from the definitions that `--help` has.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output::{counted, say};

pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let directory = args.directory.as_path();
    let failed = |what: &str, path: &Path, why: &io::Error| {
        Failure::Failed(format!(
            "{what} {} failed: {why}. Name a directory that you may write, such as ~/.local/share/man/man1",
            path.display()
        ))
    };
    // All of them before the first is written: a page that can't be made leaves the directory as it was.
    let pages = pages().map_err(|why| failed("making the pages for", directory, &why))?;
    fs::create_dir_all(directory).map_err(|why| failed("creating the directory", directory, &why))?;
    for (name, page) in &pages {
        let path = directory.join(name);
        fs::write(&path, page).map_err(|why| failed("writing the page", &path, &why))?;
    }
    say(format!("{} written to {}", counted(pages.len() as u64, "page"), directory.display()));
    Ok(())
}

/// Returns the names of the files with their texts.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // `help` is a command of each command that has some, and would have a page for each of these again.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    let mut left = vec![(program, None)];
    while let Some((command, above)) = left.pop() {
        let title = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let parts = command.get_subcommands().filter(|part| !part.is_hide_set());
        left.extend(parts.map(|part| (part.clone(), Some(title.clone()))));
        pages.push((format!("{title}.1"), page(command, &title, above.as_deref())?));
    }
    Ok(pages)
}

/// The generator writes no argument for an empty date, and the next one would take its place.
const NO_DATE: &str = " ";

/// Renders a page; `above` is the title of the page of the command that this one is a part of.
fn page(command: Command, title: &str, above: Option<&str>) -> io::Result<Vec<u8>> {
    let more = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let has_parts = command.has_subcommands();
    let man = Man::new(command)
        .title(title.to_uppercase())
        .date(NO_DATE)
        .source(concat!("jobwright ", env!("CARGO_PKG_VERSION")))
        .manual("jobwright");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_parts {
        man.render_subcommands_section(&mut page)?;
    }
    let mut end = Roff::new();
    if let Some(more) = more {
        notes_and_examples(&mut end, &more);
    }
    if let Some(above) = above {
        end.control("SH", ["SEE ALSO"]).text([roman(format!("{above}(1)"))]);
    }
    end.to_writer(&mut page)?;
    Ok(page)
}

/// Writes sections in place of the generator's own, which would fill the lines of examples to paragraphs.
fn notes_and_examples(page: &mut Roff, text: &str) {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let at = lines.iter().position(|line| line.starts_with("Example")).unwrap_or(lines.len());
    let (notes, examples) = lines.split_at(at);
    if notes.iter().any(|line| !line.is_empty()) {
        page.control("SH", ["NOTES"]);
        for line in notes {
            page.text([roman(*line)]);
        }
    }
    if let Some((title, lines)) = examples.split_first() {
        page.control("SH", ["EXAMPLES"]);
        if *title != "Example:" {
            page.text([roman(*title)]);
        }
        page.control("nf", []);
        for line in lines {
            page.text([roman(*line)]);
        }
        page.control("fi", []);
    }
}
