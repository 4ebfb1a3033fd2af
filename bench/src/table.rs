//! The table, as Markdown: the same on a screen and in a document.

use std::fmt::Write as _;

use crate::report::{Line, Report, Required, Unit};
use crate::stats::{Spread, spread};

pub(crate) fn markdown(report: &Report) -> String {
    let facts: Vec<String> = report.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let what = format!("what the {} is", report.beside);
    let mut rows = vec![["what", "ours", report.beside, &what, "ratio", "required"].map(str::to_owned).to_vec()];
    rows.extend(report.lines.iter().map(|line| row(line).to_vec()));
    let mut text = format!("{}\n\n{}", facts.join("; "), aligned(&rows));
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "* {note}");
    }
    text
}

/// Returns rows as a table with columns of even width. The first row is the head.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        for (cell, &width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if n == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

fn row(line: &Line) -> [String; 6] {
    let figures =
        |values: &[f64]| spread(values).map_or_else(String::new, |s| with_spread(s, |v| figure(line.unit, v)));
    let (name, limit) = match &line.limit {
        Some((name, values)) => (name.clone(), figures(values)),
        None => (String::new(), String::new()),
    };
    let ratio = line.ratio().map_or_else(String::new, |ratio| {
        with_spread(ratio, |v| if ratio.max < 0.1 { format!("{v:.4}") } else { format!("{v:.2}") })
    });
    let required = match line.required {
        None => String::new(),
        Some(Required::Ratio(least)) => format!("ratio ≥ {least}"),
        Some(Required::AtMost(most)) => format!("≤ {most}"),
        Some(Required::AtLeast(least)) => format!("≥ {}", figure(line.unit, least)),
    };
    [line.name.clone(), figures(&line.ours), limit, name, ratio, required]
}

fn with_spread(spread: Spread, write: impl Fn(f64) -> String) -> String {
    let (median, min, max) = (write(spread.median), write(spread.min), write(spread.max));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", thousands(value)),
        Unit::Milliseconds => format!("{value:.2} ms"),
        Unit::CpuSeconds => format!("{value:.4} s"),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::MebiBytes => format!("{value:.1} MiB"),
        Unit::Count if value >= 0.1 => format!("{value:.2}"),
        Unit::Count => format!("{value:.5}"),
        Unit::Share => format!("{:.1} %", value * 100.0),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(figure(Unit::PerSecond, 1_234_567.4), "1,234,567/s");
        assert_eq!(figure(Unit::PerSecond, 123.0), "123/s");
        assert_eq!(figure(Unit::Share, 0.987), "98.7 %");
        assert_eq!(figure(Unit::Count, 0.00444), "0.00444");
    }

    #[test]
    fn a_table_has_a_row_for_each_line() {
        let mut report = Report::new(vec![("cores".to_owned(), "2".to_owned())]);
        report.add(
            Line::new("drain", Unit::PerSecond, vec![50.0]).limit("bare", vec![100.0]).required(Required::Ratio(0.4)),
        );
        let text = markdown(&report);
        assert!(text.contains("| drain | 50/s | 100/s | bare "), "{text}");
        assert!(text.contains("| 0.50  | ratio ≥ 0.4 |"), "{text}");
    }
}
