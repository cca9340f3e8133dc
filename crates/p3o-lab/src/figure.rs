//! Learning curves as SVG: panels side by side, a line per algorithm with the spread over its seeds, limits dashed.

use p3o::record::Table;
use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 36.0;
const LEGEND: f64 = 24.0;
/// Safe for the colour-blind (Okabe and Ito), the most different first.
pub const COLOURS: [&str; 8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#B8A800"];

/// A line over the steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// One of [`COLOURS`].
    pub colour: &'static str,
    /// Steps and value.
    pub points: Vec<(f64, f64)>,
    /// Half the width of the shade around it, if any.
    pub spread: Vec<f64>,
    /// Whether it stays in the background.
    pub faint: bool,
}

/// A quantity of some runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// A limit, drawn as a dashed line.
    pub limit: Option<f64>,
    /// From back to front.
    pub lines: Vec<Line>,
}

/// One run's progress; `costs` are names and limits.
pub fn progress(table: &Table, costs: &[(String, Option<f64>)]) -> String {
    let panel = |title: &str, column: &str, colour, limit| {
        let points = points(table, column);
        let smooth = Line { colour, points: smoothed(&points), spread: Vec::new(), faint: false };
        let raw = Line { points, faint: true, ..smooth.clone() };
        Panel { title: title.to_string(), limit, lines: vec![raw, smooth] }
    };
    let mut panels = vec![panel("return", "return", COLOURS[0], None)];
    for (name, limit) in costs {
        panels.push(panel(&format!("cost {name}"), &format!("cost_{name}"), COLOURS[1], *limit));
    }
    svg(&panels, &[])
}

/// Groups of runs, such as the seeds of an algorithm: mean and standard deviation over the runs of each.
pub fn comparison(groups: &[(String, Vec<Table>)], costs: &[(String, Option<f64>)]) -> String {
    let panel = |title: &str, column: &str, limit| Panel {
        title: title.to_string(),
        limit,
        lines: groups
            .iter()
            .zip(COLOURS.iter().cycle())
            .map(|((_, runs), colour)| mean(runs, column, colour))
            .collect(),
    };
    let mut panels = vec![panel("return", "return", None)];
    for (name, limit) in costs {
        panels.push(panel(&format!("cost {name}"), &format!("cost_{name}"), *limit));
    }
    let legend: Vec<(&str, &str)> = groups.iter().map(|g| g.0.as_str()).zip(COLOURS.iter().copied().cycle()).collect();
    svg(&panels, &legend)
}

/// Mean and deviation over runs whose rows stand at the same steps, as far as all of them reach.
fn mean(runs: &[Table], column: &str, colour: &'static str) -> Line {
    let smooth: Vec<Vec<(f64, f64)>> = runs.iter().map(|t| smoothed(&points(t, column))).collect();
    let rows = smooth.iter().map(Vec::len).min().unwrap_or(0);
    let at = |i: usize| {
        let values: Vec<f64> = smooth.iter().map(|run| run[run.len() - rows + i].1).collect();
        p3o::record::Summary::of(&values)
    };
    Line {
        colour,
        points: (0..rows).map(|i| (smooth[0][smooth[0].len() - rows + i].0, at(i).mean)).collect(),
        spread: (0..rows).map(|i| if runs.len() > 1 { at(i).sd } else { 0.0 }).collect(),
        faint: false,
    }
}

/// A column over the steps, without the rows where it has no value.
fn points(table: &Table, column: &str) -> Vec<(f64, f64)> {
    let (Some(x), Some(y)) = (table.column("steps"), table.column(column)) else { return Vec::new() };
    table.rows.iter().map(|row| (row[x], row[y])).filter(|p| p.1.is_finite()).collect()
}

/// Panels side by side over a legend of names and colours.
pub fn svg(panels: &[Panel], legend: &[(&str, &str)]) -> String {
    let width = WIDTH * panels.len() as f64;
    let height = HEIGHT + if legend.is_empty() { 0.0 } else { LEGEND };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        writeln!(svg, "<g transform=\"translate({} 0)\">", WIDTH * i as f64).expect("writing to memory");
        panel.draw(&mut svg);
        svg += "</g>\n";
    }
    let mut x = LEFT;
    for (name, colour) in legend {
        let (y, text) = (HEIGHT + 8.0, escape(name));
        let _ = writeln!(svg, "<path d=\"M{x} {y}h18\" stroke=\"{colour}\" stroke-width=\"3\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{text}</text>", x + 23.0, y + 4.0);
        x += 41.0 + 6.6 * name.chars().count() as f64;
    }
    svg + "</svg>\n"
}

impl Panel {
    /// The lowest and the highest value shown.
    fn range(&self) -> (f64, f64) {
        let mut sorted: Vec<f64> =
            self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)).chain(self.limit).collect();
        sorted.sort_by(f64::total_cmp);
        // Early costs can be many times the limit; the picture is about what happens near it.
        let high = sorted.get(sorted.len().saturating_sub(1) * 97 / 100).copied().unwrap_or(1.0);
        let high = 1.08 * high.max(self.limit.unwrap_or(0.0) * 1.5).max(1e-3);
        let low = if self.limit.is_some() { 0.0 } else { sorted.first().map_or(0.0, |low| low.min(0.0)) };
        (low, high)
    }

    fn draw(&self, svg: &mut String) {
        let (low, high) = self.range();
        let end = self.lines.iter().filter_map(|l| l.points.last()).map(|p| p.0).fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let x = |steps: f64| LEFT + steps / end * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| HEIGHT - BOTTOM - (v.clamp(low, high) - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
        self.draw_axes(svg, (low, high), end, &x, &y);
        let join = |points: &mut dyn Iterator<Item = (f64, f64)>| -> String {
            let pairs: Vec<String> = points.map(|(s, v)| format!("{:.1},{:.1}", x(s), y(v))).collect();
            pairs.join(" ")
        };
        let mut put = |text: String| *svg += &(text + "\n");
        for Line { colour, points, spread, .. } in self.lines.iter().filter(|l| l.spread.iter().any(|&s| s > 0.0)) {
            let above = points.iter().zip(spread).map(|(p, s)| (p.0, p.1 + s));
            let below = points.iter().zip(spread).map(|(p, s)| (p.0, p.1 - s)).rev();
            put(format!("<polygon points=\"{}\" fill=\"{colour}\" opacity=\"0.15\"/>", join(&mut above.chain(below))));
        }
        for Line { colour, points, faint, .. } in &self.lines {
            let style = if *faint { "opacity=\"0.3\"" } else { "stroke-width=\"2\"" };
            let points = join(&mut points.iter().copied());
            put(format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" {style}/>"));
        }
        if let Some(limit) = self.limit {
            let (at, right) = (y(limit), WIDTH - RIGHT);
            put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#333\" stroke-dasharray=\"6 4\"/>"));
            put(format!("<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">limit {limit}</text>", at - 5.0));
        }
    }

    fn draw_axes(
        &self,
        svg: &mut String,
        (low, high): (f64, f64),
        end: f64,
        x: &dyn Fn(f64) -> f64,
        y: &dyn Fn(f64) -> f64,
    ) {
        let mut put = |text: String| *svg += &(text + "\n");
        put(format!(
            "<text x=\"{LEFT}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{}</text>",
            escape(&self.title)
        ));
        for v in ticks(low, high) {
            let (at, right) = (y(v), WIDTH - RIGHT);
            put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e4e4e4\"/>"));
            put(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{v}</text>", LEFT - 6.0, at + 4.0));
        }
        for v in ticks(0.0, end) {
            let label = if v >= 1e6 { format!("{} M", v / 1e6) } else { format!("{} k", v / 1e3) };
            let label = if v == 0.0 { "0".to_string() } else { label };
            put(format!("<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", x(v), HEIGHT - 18.0));
        }
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - 4.0);
        put(format!("<text x=\"{right}\" y=\"{bottom}\" text-anchor=\"end\" fill=\"#777\">steps</text>"));
    }
}

/// Mean over a twentieth of the run around each point.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = points.len() / 40;
    let mean = |i: usize| {
        let window = &points[i.saturating_sub(reach)..(i + reach + 1).min(points.len())];
        window.iter().map(|p| p.1).sum::<f64>() / window.len() as f64
    };
    points.iter().enumerate().map(|(i, p)| (p.0, mean(i))).collect()
}

/// Four or five round numbers between `low` and `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    // The product of a count and a short decimal may carry a last digit of dust.
    let round = |v: f64| (v * 1e6).round() / 1e6;
    (first..).map(|i| round(i as f64 * step)).take_while(|v| *v <= high).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 37.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(-1.2, 4.0), [0.0, 2.0, 4.0]);
        assert_eq!(ticks(0.0, 0.6), [0.0, 0.2, 0.4, 0.6]);
    }

    #[test]
    fn every_signal_has_a_panel_and_missing_values_are_left_out() {
        let columns = ["steps", "return", "cost_heat"].map(String::from).to_vec();
        let table = Table { columns, rows: vec![vec![10.0, f64::NAN, 3.0], vec![20.0, 1.0, 2.0]] };
        let svg = progress(&table, &[("heat".into(), Some(2.5))]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("limit 2.5") && svg.contains("cost heat") && !svg.contains("NaN"));
    }

    #[test]
    fn a_run_without_episodes_still_has_a_picture() {
        let columns = ["steps", "return"].map(String::from).to_vec();
        let svg = progress(&Table { columns, rows: Vec::new() }, &[]);
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn groups_have_a_mean_a_shade_and_a_name() {
        let columns = ["steps", "return"].map(String::from).to_vec();
        let run = |v: f64| Table { columns: columns.clone(), rows: vec![vec![10.0, v], vec![20.0, 2.0 * v]] };
        let line = mean(&[run(1.0), run(3.0)], "return", COLOURS[0]);
        // (1 + 3) / 2 and (2 + 6) / 2; the sample deviation of two numbers is their distance over the root of two.
        assert_eq!(line.points, [(10.0, 2.0), (20.0, 4.0)]);
        assert!((line.spread[0] - 2f64.sqrt()).abs() < 1e-12 && (line.spread[1] - 8f64.sqrt()).abs() < 1e-12);
        let svg = comparison(&[("a".into(), vec![run(1.0), run(3.0)]), ("b<".into(), vec![run(2.0)])], &[]);
        assert_eq!((svg.matches("<polygon").count(), svg.matches("<polyline").count()), (1, 2));
        assert!(svg.contains(">a<") && svg.contains(">b&lt;<"));
    }
}
