//! A chart of the ratios: one row per line of the table, on a logarithmic scale, with the limit at 1.

use std::fmt::Write as _;

use crate::report::{Line, Report, Required};
use crate::stats::Spread;

const ROW: f64 = 22.0;
const LABELS: f64 = 430.0;
const PLOT: f64 = 430.0;
const FIGURES: f64 = 80.0;
const TOP: f64 = 34.0;
const TEXT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";

/// Returns SVG without external resources. The colours are neutral, for light and dark pages.
pub(crate) fn svg(report: &Report) -> String {
    let rows: Vec<(String, Spread, Option<f64>)> = report.lines.iter().filter_map(row).collect();
    let scale = Scale::of(&rows);
    let (width, height) = (LABELS + PLOT + FIGURES, TOP + ROW * rows.len() as f64 + 8.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"ratios to the limits\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for power in scale.ticks() {
        let x = scale.x(2.0_f64.powi(power));
        let tick = if power < 0 { format!("1/{}", 1_u64 << -power) } else { (1_u64 << power).to_string() };
        let (colour, weight) = if power == 0 { ("#333", 1.5) } else { ("#ddd", 1.0) };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{height}\" stroke=\"{colour}\" stroke-width=\"{weight}\"/>\
             <text x=\"{x:.1}\" y=\"18\" text-anchor=\"middle\" fill=\"#555\" {TEXT}>{tick}</text>",
            TOP - 8.0
        );
    }
    for (n, (label, ratio, required)) in rows.iter().enumerate() {
        let y = TOP + ROW * n as f64;
        let middle = y + ROW / 2.0;
        let (from, to) = (scale.x(1.0).min(scale.x(ratio.median)), scale.x(1.0).max(scale.x(ratio.median)));
        let colour = if ratio.median >= 1.0 { "#2a7f62" } else { "#4a78b5" };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#222\" {TEXT}>{}</text>\
             <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
             <line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222\" {TEXT}>{}</text>",
            LABELS - 8.0,
            middle + 4.0,
            escaped(label),
            y + 5.0,
            to - from,
            ROW - 10.0,
            scale.x(ratio.min),
            scale.x(ratio.max),
            LABELS + PLOT + 10.0,
            middle + 4.0,
            figure(ratio.median),
        );
        if let Some(least) = required {
            let x = scale.x(*least);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#c0392b\" stroke-width=\"2\"/>",
                y + 2.0,
                y + ROW - 2.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn row(line: &Line) -> Option<(String, Spread, Option<f64>)> {
    let required = match line.required {
        Some(Required::Ratio(least)) => Some(least),
        Some(Required::AtMost(_) | Required::AtLeast(_)) | None => None,
    };
    let (limit, _) = line.limit.as_ref()?;
    let label = if limit == "the same" { line.name.clone() } else { format!("{} : {limit}", line.name) };
    Some((shortened(&label), line.ratio()?, required))
}

/// Powers of two, so that both directions look alike.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn of(rows: &[(String, Spread, Option<f64>)]) -> Self {
        let least = rows.iter().map(|(_, ratio, _)| ratio.min).fold(0.5, f64::min);
        let most = rows.iter().map(|(_, ratio, _)| ratio.max).fold(2.0, f64::max);
        Self { low: least.log2().floor() as i32, high: most.log2().ceil() as i32 }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.log2() - f64::from(self.low)) / f64::from(self.high - self.low);
        LABELS + PLOT * share.clamp(0.0, 1.0)
    }

    /// Returns no more ticks than fit.
    fn ticks(&self) -> impl Iterator<Item = i32> {
        let step = (self.high - self.low) / 9 + 1;
        let (low, high) = (self.low, self.high);
        (low..=high).filter(move |power| power % step == 0)
    }
}

fn figure(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.4}") } else { format!("{ratio:.2}") }
}

fn shortened(label: &str) -> String {
    const MOST: usize = 68;
    if label.chars().count() <= MOST {
        return label.to_owned();
    }
    label.chars().take(MOST - 1).chain(std::iter::once('…')).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    #[test]
    fn only_lines_with_a_limit_are_drawn_and_each_within_the_picture() {
        let mut report = Report::new(Vec::new());
        report.add(Line::new("a < b", Unit::PerSecond, vec![1.0]).limit("limit", vec![1000.0]));
        report.add(Line::new("alone", Unit::PerSecond, vec![1.0]));
        report.add(
            Line::new("fast", Unit::PerSecond, vec![700.0]).limit("peer", vec![10.0]).required(Required::Ratio(1.6)),
        );
        let svg = svg(&report);
        assert!(svg.contains("a &lt; b : limit") && svg.contains("fast : peer") && !svg.contains("alone"), "{svg}");
        assert!(svg.contains(">0.0010<") && svg.contains(">70.00<"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("=\"-"), "{svg}");
    }
}
