//! A run's curves as an SVG: the return and every cost against its limit.

use p3o::record::Table;
use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 36.0;
/// Safe for the colour-blind (Okabe and Ito).
const BLUE: &str = "#0072B2";
const ORANGE: &str = "#D55E00";

/// One panel: a column of the progress over the steps.
struct Panel {
    title: String,
    colour: &'static str,
    limit: Option<f64>,
    points: Vec<(f64, f64)>,
}

/// Draws the progress; `costs` are names and limits.
pub fn curves(table: &Table, costs: &[(String, Option<f64>)]) -> String {
    let points = |column: &str| -> Vec<(f64, f64)> {
        let (Some(x), Some(y)) = (table.column("steps"), table.column(column)) else { return Vec::new() };
        table.rows.iter().map(|row| (row[x], row[y])).filter(|p| p.1.is_finite()).collect()
    };
    let mut panels = vec![Panel { title: "return".into(), colour: BLUE, limit: None, points: points("return") }];
    for (name, limit) in costs {
        let points = points(&format!("cost_{name}"));
        panels.push(Panel { title: format!("cost {name}"), colour: ORANGE, limit: *limit, points });
    }
    let width = WIDTH * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n<rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        writeln!(svg, "<g transform=\"translate({} 0)\">", WIDTH * i as f64).expect("writing to memory");
        panel.draw(&mut svg);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

impl Panel {
    fn draw(&self, svg: &mut String) {
        let smooth = smoothed(&self.points);
        let end = self.points.last().map_or(1.0, |p| p.0);
        let values = || self.points.iter().map(|p| p.1).chain(self.limit);
        // Early costs can be many times the limit; the picture is about what happens near it.
        let mut sorted: Vec<f64> = values().collect();
        sorted.sort_by(f64::total_cmp);
        let high = sorted.get(sorted.len().saturating_sub(1) * 97 / 100).copied().unwrap_or(1.0);
        let high = 1.08 * high.max(self.limit.unwrap_or(0.0) * 1.5).max(1e-3);
        let low = if self.limit.is_some() { 0.0 } else { values().fold(0.0, f64::min) };
        let x = |steps: f64| LEFT + steps / end * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| HEIGHT - BOTTOM - (v.clamp(low, high) - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
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
        put(format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#777\">steps</text>",
            WIDTH - RIGHT,
            HEIGHT - 4.0
        ));
        let line = |points: &[(f64, f64)]| -> String {
            let pairs: Vec<String> = points.iter().map(|&(s, v)| format!("{:.1},{:.1}", x(s), y(v))).collect();
            pairs.join(" ")
        };
        let colour = self.colour;
        for (points, style) in [(&self.points, "opacity=\"0.3\""), (&smooth, "stroke-width=\"2\"")] {
            put(format!("<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" {style}/>", line(points)));
        }
        if let Some(limit) = self.limit {
            let (at, right) = (y(limit), WIDTH - RIGHT);
            put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#333\" stroke-dasharray=\"6 4\"/>"));
            put(format!("<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">limit {limit}</text>", at - 5.0));
        }
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
        let svg = curves(&table, &[("heat".into(), Some(2.5))]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("limit 2.5") && svg.contains("cost heat") && !svg.contains("NaN"));
    }

    #[test]
    fn a_run_without_episodes_still_has_a_picture() {
        let columns = ["steps", "return"].map(String::from).to_vec();
        let svg = curves(&Table { columns, rows: Vec::new() }, &[]);
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
