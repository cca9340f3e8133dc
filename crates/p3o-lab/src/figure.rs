//! Figures: learning curves of groups of runs in rows of panels, and results against a setting, as SVG or PNG.
//!
//! A curve is the mean over a group's runs, the shade one standard deviation to either side. Each run is smoothed before:
//! every point becomes the mean over a twentieth of the steps around it. Groups differ in colour, markers and, after
//! eight, dashes, so that they can be told apart in grey and by the colour-blind.

mod panel;
mod picture;

use crate::statistics::Interval;
use p3o::record::{Summary, Table};
use panel::{Axis, HEIGHT, INK, Line, Look, PALE, Panel, Style, WIDTH};
use picture::{Anchor, LETTER, Pen};

pub use panel::Limit;
pub use picture::Picture;

/// Points of a curve; more would not be seen.
const POINTS: usize = 240;
const LEGEND_LINE: f64 = 20.0;
const MARGIN: f64 = 18.0;

/// A row of panels: one for the return, one for each cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The task; may be empty.
    pub title: String,
    /// Names, and the progress of the runs of each.
    pub groups: Vec<(String, Vec<Table>)>,
    /// Names and limits.
    pub costs: Vec<(String, Option<f64>)>,
}

/// A panel of results against a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Above the panel.
    pub title: String,
    /// The setting.
    pub x_label: String,
    /// The result.
    pub y_label: String,
    /// The limit on the result.
    pub limit: Limit,
    /// Names, and the results of each: the setting's value, and what it led to. An end that is not finite is not drawn.
    pub series: Vec<(String, Vec<(f64, Interval)>)>,
}

/// One run's progress; `costs` are names and limits.
pub fn progress(table: &Table, costs: &[(String, Option<f64>)]) -> Picture {
    let panels = quantities(costs).into_iter().enumerate().map(|(i, quantity)| {
        let points = points(table, &quantity.column);
        let style = Style(i.min(1));
        let smooth = smoothed(&points, 0.025 * points.last().map_or(0.0, |p| p[0]));
        let raw = Line { style, look: Look::Faint, points, band: Vec::new() };
        let smooth = Line { style, look: Look::Curve, points: smooth, band: Vec::new() };
        quantity.panel("", vec![raw, smooth], false)
    });
    arrange(&[panels.collect()], &[], "thin: every update; thick: means over 5 % of the steps")
}

/// Groups of runs, such as the seeds of an algorithm, a row for each task.
pub fn curves(rows: &[Row]) -> Picture {
    let names = names(rows.iter().flat_map(|row| row.groups.iter().map(|g| &g.0)));
    let row_of = |row: &Row| -> Vec<Panel> {
        let panel = |quantity: Quantity| {
            let line = |(name, runs): &(String, Vec<Table>)| {
                let style = Style(names.iter().position(|n| n == name).expect("all names are collected"));
                mean(runs, &quantity.column, style)
            };
            let lines = row.groups.iter().map(line).collect();
            quantity.panel(&row.title, lines, names.len() > 1)
        };
        quantities(&row.costs).into_iter().map(panel).collect()
    };
    let panels: Vec<Vec<Panel>> = rows.iter().map(row_of).collect();
    let sizes = rows.iter().flat_map(|row| &row.groups).map(|(_, runs)| runs.len());
    let runs = match (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0)) {
        (_, 0 | 1) => return arrange(&panels, &names, "lines: means over 5 % of the steps"),
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    let lines = format!("lines: means over {runs} runs and over 5 % of the steps");
    arrange(&panels, &names, &format!("{lines}; shades: standard deviation over the runs"))
}

/// Results against a setting, in rows of panels; `note` says what the intervals are.
pub fn studies(rows: &[Vec<Study>], note: &str) -> Picture {
    let names = names(rows.iter().flatten().flat_map(|study| study.series.iter().map(|s| &s.0)));
    let panel = |study: &Study| {
        let line = |(name, results): &(String, Vec<(f64, Interval)>)| Line {
            style: Style(names.iter().position(|n| n == name).expect("all names are collected")),
            look: Look::Dots,
            points: results.iter().map(|(x, y)| [*x, y.mean]).collect(),
            band: results.iter().map(|(_, y)| [y.low, y.high]).collect(),
        };
        let mut values: Vec<f64> = study.series.iter().flat_map(|s| s.1.iter().map(|r| r.0)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let wide = values.first().zip(values.last()).is_some_and(|(low, high)| *low > 0.0 && *high >= 20.0 * low);
        Panel {
            title: study.title.clone(),
            x_label: study.x_label.clone(),
            y_label: study.y_label.clone(),
            axis: Axis::Values { values, log: wide && study.limit != Limit::Diagonal },
            limit: study.limit,
            lines: study.series.iter().map(line).collect(),
            marked: true,
        }
    };
    let panels: Vec<Vec<Panel>> = rows.iter().map(|row| row.iter().map(panel).collect()).collect();
    arrange(&panels, if names.len() > 1 { &names } else { &[] }, note)
}

/// A column of progress.csv and its panel.
struct Quantity {
    column: String,
    title: String,
    y_label: String,
    limit: Limit,
}

fn quantities(costs: &[(String, Option<f64>)]) -> Vec<Quantity> {
    let of = |column: String, title: String, what: &str, limit: Option<f64>| Quantity {
        column,
        title,
        y_label: format!("{what} per episode"),
        limit: limit.map_or(Limit::None, Limit::At),
    };
    let cost =
        |(name, limit): &(String, Option<f64>)| of(format!("cost_{name}"), format!("cost {name}"), "cost", *limit);
    std::iter::once(of("return".into(), "return".into(), "return", None)).chain(costs.iter().map(cost)).collect()
}

impl Quantity {
    fn panel(self, task: &str, lines: Vec<Line>, marked: bool) -> Panel {
        let title = if task.is_empty() { self.title } else { format!("{task}: {}", self.title) };
        let x_label = "environment steps".to_string();
        Panel { title, x_label, y_label: self.y_label, axis: Axis::Steps, limit: self.limit, lines, marked }
    }
}

/// Every name once, in the order of its first appearance.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    all.for_each(|name| {
        if !names.contains(name) {
            names.push(name.clone());
        }
    });
    names
}

/// Rows of panels over one legend and a note.
fn arrange(rows: &[Vec<Panel>], legend: &[String], note: &str) -> Picture {
    let width = WIDTH * rows.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64;
    let mut places = Vec::new();
    let [mut x, mut y] = [MARGIN, HEIGHT * rows.len() as f64 + 16.0];
    for name in legend {
        let needed = 52.0 + LETTER * name.chars().count() as f64;
        if x > MARGIN && x + needed > width {
            [x, y] = [MARGIN, y + LEGEND_LINE];
        }
        places.push([x, y]);
        x += needed;
    }
    let note_at = if legend.is_empty() { y } else { y + LEGEND_LINE };
    let notes = wrapped(note, ((width - 2.0 * MARGIN) / LETTER) as usize);
    let mut picture = Picture::new(width, note_at + 16.0 * notes.len() as f64 - 4.0);
    for (i, row) in rows.iter().enumerate() {
        row.iter().enumerate().for_each(|(k, p)| p.draw(&mut picture, [WIDTH * k as f64, HEIGHT * i as f64]));
    }
    for (i, ([x, y], name)) in places.into_iter().zip(legend).enumerate() {
        picture.line(vec![[x, y - 4.0], [x + 26.0, y - 4.0]], Pen { width: 2.5, ..Style(i).pen() });
        if legend.len() > 1 {
            Style(i).marker(&mut picture, [x + 13.0, y - 4.0]);
        }
        picture.words([x + 32.0, y], name, Anchor::Start, INK);
    }
    for (i, line) in notes.iter().enumerate() {
        picture.words([MARGIN, note_at + 16.0 * i as f64], line, Anchor::Start, PALE);
    }
    picture
}

/// Lines of at most `width` letters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// Mean and standard deviation, at every step, over the runs that have got there.
fn mean(runs: &[Table], column: &str, style: Style) -> Line {
    let raw: Vec<Vec<[f64; 2]>> = runs.iter().map(|t| points(t, column)).collect();
    let end = raw.iter().filter_map(|run| run.last()).map(|p| p[0]).fold(0.0, f64::max);
    let smooth: Vec<Vec<[f64; 2]>> = raw.iter().map(|run| smoothed(run, 0.025 * end)).collect();
    let mut steps: Vec<f64> = smooth.iter().flatten().map(|p| p[0]).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    if steps.len() > POINTS {
        steps = (0..POINTS).map(|i| steps[i * (steps.len() - 1) / (POINTS - 1)]).collect();
    }
    let at = |x: &f64| Summary::of(&smooth.iter().filter_map(|run| value(run, *x)).collect::<Vec<f64>>());
    let summaries: Vec<Summary> = steps.iter().map(at).collect();
    let band = |s: &Summary| if s.n > 1 { [s.mean - s.sd, s.mean + s.sd] } else { [s.mean; 2] };
    Line {
        style,
        look: Look::Curve,
        points: steps.iter().zip(&summaries).map(|(x, s)| [*x, s.mean]).collect(),
        band: summaries.iter().map(band).collect(),
    }
}

/// A run's value at a step, between its points linearly; none before its first and after its last.
fn value(run: &[[f64; 2]], x: f64) -> Option<f64> {
    let after = run.partition_point(|p| p[0] < x);
    let [x1, y1] = *run.get(after)?;
    if x1 == x {
        return Some(y1);
    }
    let [x0, y0] = *run.get(after.checked_sub(1)?)?;
    Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
}

/// A column over the steps, without the rows where it has no value.
fn points(table: &Table, column: &str) -> Vec<[f64; 2]> {
    let (Some(x), Some(y)) = (table.column("steps"), table.column(column)) else { return Vec::new() };
    table.rows.iter().map(|row| [row[x], row[y]]).filter(|p| p[1].is_finite()).collect()
}

/// The mean over all points at most `reach` steps away.
fn smoothed(points: &[[f64; 2]], reach: f64) -> Vec<[f64; 2]> {
    let mean = |x: f64| {
        let first = points.partition_point(|p| p[0] < x - reach);
        let window = &points[first..points.partition_point(|p| p[0] <= x + reach)];
        window.iter().map(|p| p[1]).sum::<f64>() / window.len() as f64
    };
    points.iter().map(|p| [p[0], mean(p[0])]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[f64]]) -> Table {
        Table {
            columns: columns.iter().map(|c| c.to_string()).collect(),
            rows: rows.iter().map(|r| r.to_vec()).collect(),
        }
    }

    #[test]
    fn every_signal_has_a_panel_and_missing_values_are_left_out() {
        let rows: [&[f64]; 3] = [&[10.0, f64::NAN, 3.0], &[20.0, 1.0, 2.0], &[30.0, 1.5, 2.0]];
        let svg = progress(&table(&["steps", "return", "cost_heat"], &rows), &[("heat".into(), Some(2.5))]).svg();
        // Raw and smooth: two lines of two points for the return, two of three points for the cost.
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!([">limit<", ">2.5<", ">cost heat<", ">environment steps<"].iter().all(|part| svg.contains(part)));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_run_without_episodes_still_has_a_picture() {
        let svg = progress(&table(&["steps", "return"], &[]), &[]).svg();
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_curve_is_mean_and_standard_deviation_as_far_as_runs_go() {
        let run = |v: f64| table(&["steps", "return"], &[&[10.0, v], &[20.0, 2.0 * v]]);
        let line = mean(&[run(1.0), run(3.0)], "return", Style(0));
        // (1 + 3) / 2 and (2 + 6) / 2; the sample standard deviation of two numbers is their distance over root two.
        assert_eq!(line.points, [[10.0, 2.0], [20.0, 4.0]]);
        let (a, b) = (2f64.sqrt(), 8f64.sqrt());
        for (band, expected) in line.band.iter().flatten().zip([2.0 - a, 2.0 + a, 4.0 - b, 4.0 + b]) {
            assert!((band - expected).abs() < 1e-12, "{band} is not {expected}");
        }
        // A run with rows at 15 and 20 only: at 15 the other is half-way from 1 to 2, at 10 it is alone.
        let late = table(&["steps", "return"], &[&[15.0, 4.5], &[20.0, 4.0]]);
        assert_eq!(mean(&[run(1.0), late], "return", Style(0)).points, [[10.0, 1.0], [15.0, 3.0], [20.0, 3.0]]);
        let short = table(&["steps", "return"], &[&[10.0, 5.0]]);
        assert_eq!(mean(&[run(1.0), short], "return", Style(0)).points, [[10.0, 3.0], [20.0, 2.0]]);
    }

    #[test]
    fn smoothing_is_the_mean_of_what_is_near() {
        let points = [[0.0, 1.0], [10.0, 2.0], [20.0, 6.0], [30.0, 1.0]];
        // Ten steps to either side: (1 + 2) / 2, (1 + 2 + 6) / 3, (2 + 6 + 1) / 3, (6 + 1) / 2.
        assert_eq!(smoothed(&points, 10.0), [[0.0, 1.5], [10.0, 3.0], [20.0, 3.0], [30.0, 3.5]]);
    }

    #[test]
    fn long_runs_become_as_many_points_as_can_be_seen() {
        let rows: Vec<Vec<f64>> = (1..=1000).map(|i| vec![f64::from(i), 1.0]).collect();
        let line = mean(&[Table { columns: vec!["steps".into(), "return".into()], rows }], "return", Style(0));
        assert_eq!(line.points.len(), POINTS);
        assert_eq!((line.points[0][0], line.points[POINTS - 1][0]), (1.0, 1000.0));
    }

    #[test]
    fn a_name_has_one_style_in_all_rows_and_one_place_in_the_legend() {
        let run = || table(&["steps", "return"], &[&[10.0, 1.0], &[20.0, 2.0], &[30.0, 3.0]]);
        let row = |title: &str, names: &[&str]| Row {
            title: title.into(),
            groups: names.iter().map(|n| (n.to_string(), vec![run()])).collect(),
            costs: Vec::new(),
        };
        let mut rows = [row("One", &["a", "b<"]), row("Two", &["b<"])];
        let svg = curves(&rows).svg();
        assert_eq!((svg.matches(">a<").count(), svg.matches(">b&lt;<").count()), (1, 1));
        let lines: Vec<&str> = svg.lines().filter(|l| l.starts_with("<polyline")).collect();
        let orange = |line: &&str| line.contains("#d55e00");
        assert_eq!((lines.len(), lines.iter().filter(|l| orange(l)).count()), (3, 2));
        assert!(!svg.contains(" runs"));
        rows[1].groups[0].1.push(run());
        assert!(curves(&rows).svg().contains("means over 1 to 2 runs"));
    }

    #[test]
    fn a_study_has_bars_where_there_are_intervals_and_its_limit() {
        let at = |x: f64, low: f64| (x, Interval { mean: 5.0, low, high: 6.0 });
        let study = |limit| Study {
            title: "t".into(),
            x_label: "kappa".into(),
            y_label: "cost".into(),
            limit,
            series: vec![("p3o".into(), vec![at(1.0, 4.0), at(10.0, 4.0), at(20.0, f64::NEG_INFINITY)])],
        };
        let picture = |limit| studies(&[vec![study(limit)]], "95 % intervals").svg();
        // Two bars of three strokes; the connecting line has three points.
        let svg = picture(Limit::None);
        assert_eq!(svg.matches("stroke=\"#0072b2\" stroke-width=\"1.5\"").count(), 6);
        assert_eq!((svg.matches("<polygon").count(), svg.contains(">limit<")), (3, false));
        assert!([">kappa<", ">1<", ">10<", ">20<", ">95 % intervals<"].iter().all(|part| svg.contains(part)));
        assert!(!svg.contains("inf") && !svg.contains("NaN"));
        for limit in [Limit::At(5.0), Limit::Diagonal] {
            assert!(picture(limit).contains(">limit<"));
        }
    }

    #[test]
    fn notes_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert!(wrapped("", 7).is_empty());
    }
}
