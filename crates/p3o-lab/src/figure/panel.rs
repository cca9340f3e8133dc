//! One diagram: axes, limit, lines.

use super::picture::{Anchor, LETTER, Pen, Picture, Rgb, WHITE};

pub(super) const WIDTH: f64 = 372.0;
pub(super) const HEIGHT: f64 = 252.0;
const LEFT: f64 = 66.0;
/// Room for the limit's label, where no line can cross it.
const RIGHT: f64 = 48.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Markers along a curve.
const MARKERS: usize = 6;

pub(super) const INK: Rgb = [51, 51, 51];
pub(super) const PALE: Rgb = [110, 110, 110];
const GRID: Rgb = [228, 228, 228];
/// Safe for the colour-blind (Okabe and Ito), the most different first.
const COLOURS: [Rgb; 8] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [102, 102, 102],
    [184, 168, 0],
];
const LIMIT: Pen = Pen { ink: INK, width: 1.2, dash: &[6.0, 4.0], opacity: 1.0 };

/// What a line is known by, in colour and in grey: colour, form of its markers, dashes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Style(pub usize);

impl Style {
    pub fn colour(self) -> Rgb {
        COLOURS[self.0 % COLOURS.len()]
    }

    /// Dashed where colours are used again.
    pub fn pen(self) -> Pen {
        const DASHES: [&[f64]; 3] = [&[], &[7.0, 2.0], &[2.0, 2.0]];
        Pen { ink: self.colour(), width: 2.0, dash: DASHES[self.0 / COLOURS.len() % 3], opacity: 1.0 }
    }

    /// Five forms, filled, then hollow.
    pub fn marker(self, picture: &mut Picture, [x, y]: [f64; 2]) {
        let ring = |n: usize, radius: f64, turn: f64| -> Vec<[f64; 2]> {
            let angle = |i: usize| std::f64::consts::TAU * (i as f64 / n as f64 + turn);
            (0..n).map(|i| [x + radius * angle(i).sin(), y - radius * angle(i).cos()]).collect()
        };
        let points = match self.0 % 5 {
            0 => ring(20, 3.6, 0.0),
            1 => ring(4, 4.6, 0.125),
            2 => ring(3, 5.2, 0.0),
            3 => ring(4, 5.0, 0.0),
            _ => ring(3, 5.2, 0.5),
        };
        let (fill, edge) = if (self.0 / 5).is_multiple_of(2) { (self.colour(), WHITE) } else { (WHITE, self.colour()) };
        picture.area(points, fill, 1.0, Some(edge));
    }
}

/// How a line's points are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Look {
    /// A line with a shade around it.
    Curve,
    /// A thin line in the background.
    Faint,
    /// Markers with error bars, joined by a thin line.
    Dots,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub style: Style,
    pub look: Look,
    pub points: Vec<[f64; 2]>,
    /// Lower and upper end around each point, or nothing.
    pub band: Vec<[f64; 2]>,
}

/// A limit on what a panel shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// There is none.
    None,
    /// The same everywhere: a dashed line.
    At(f64),
    /// Whatever stands on the horizontal axis: a dashed diagonal.
    Diagonal,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Axis {
    /// From zero to the longest run, with round numbers.
    Steps,
    /// From the first to the last of these values, at which its ticks are.
    Values { values: Vec<f64>, log: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub axis: Axis,
    pub limit: Limit,
    pub lines: Vec<Line>,
    /// Whether curves have markers.
    pub marked: bool,
}

/// From values to places in the picture.
struct Frame {
    corner: [f64; 2],
    x: [f64; 2],
    y: [f64; 2],
    log: bool,
}

impl Frame {
    fn left(&self) -> f64 {
        self.corner[0] + LEFT
    }

    fn right(&self) -> f64 {
        self.corner[0] + WIDTH - RIGHT
    }

    fn bottom(&self) -> f64 {
        self.corner[1] + HEIGHT - BOTTOM
    }

    fn x(&self, v: f64) -> f64 {
        let on = |v: f64| if self.log { v.ln() } else { v };
        let [low, high] = self.x.map(on);
        self.left() + (on(v) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    }

    /// Values beyond the axis are drawn at its end.
    fn y(&self, v: f64) -> f64 {
        let [low, high] = self.y;
        self.bottom() - (v.clamp(low, high) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    }

    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.x(x), self.y(y)]
    }
}

impl Panel {
    pub fn draw(&self, picture: &mut Picture, corner: [f64; 2]) {
        let log = matches!(self.axis, Axis::Values { log: true, .. });
        let frame = Frame { corner, x: self.width(), y: self.range(), log };
        self.draw_axes(picture, &frame);
        for line in &self.lines {
            line.draw_band(picture, &frame);
        }
        // Results at the same setting stand side by side.
        let aside = |i: usize| 7.0 * (i as f64 - 0.5 * (self.lines.len() - 1) as f64);
        for (i, line) in self.lines.iter().enumerate() {
            line.draw_line(picture, &frame, aside(i));
        }
        self.draw_limit(picture, &frame);
        // Last, so that no line hides another's markers.
        for (i, line) in self.lines.iter().enumerate() {
            match line.look {
                Look::Faint => {}
                Look::Dots => line.draw_bars(picture, &frame, aside(i)),
                Look::Curve => line.draw_markers(picture, &frame, self.marked.then_some([i, self.lines.len()])),
            }
        }
    }

    /// The ends of the horizontal axis.
    fn width(&self) -> [f64; 2] {
        match &self.axis {
            Axis::Steps => {
                let end = self.lines.iter().filter_map(|l| l.points.last()).map(|p| p[0]).fold(0.0, f64::max);
                [0.0, if end > 0.0 { end } else { 1.0 }]
            }
            Axis::Values { values, log } => {
                let (low, high) = (values.first().copied().unwrap_or(1.0), values.last().copied().unwrap_or(1.0));
                match log {
                    _ if high <= low => [low - 0.5 * low.abs().max(1.0), low + 0.5 * low.abs().max(1.0)],
                    true => [low * (low / high).powf(0.06), high * (high / low).powf(0.06)],
                    false => [low - 0.06 * (high - low), high + 0.06 * (high - low)],
                }
            }
        }
    }

    /// The ends of the vertical axis: all that is shown, but for the extremes of background lines.
    fn range(&self) -> [f64; 2] {
        let mut shown: Vec<f64> = Vec::new();
        for line in &self.lines {
            let mut values: Vec<f64> = line.points.iter().map(|p| p[1]).collect();
            if line.look == Look::Faint {
                values.sort_by(f64::total_cmp);
                let spare = values.len() / 50;
                values = values[spare..values.len() - spare].to_vec();
            }
            shown.extend(values.iter().chain(line.band.iter().flatten()).filter(|v| v.is_finite()));
        }
        match (self.limit, &self.axis) {
            // Some air above, so that it does not look like the frame.
            (Limit::At(limit), _) => shown.extend([0.0, 1.2 * limit]),
            (Limit::Diagonal, Axis::Values { values, .. }) => shown.extend(values.iter().chain(&[0.0])),
            _ => {}
        }
        let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
        let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return [0.0, 1.0];
        }
        let pad = 0.06 * (high - low).max(0.01 * high.abs()).max(1e-3);
        // Zero is shown where it is near, and is the end where no mean lies beyond.
        let sunk = self.lines.iter().flat_map(|l| &l.points).any(|p| p[1] < 0.0);
        let from_zero = if self.limit == Limit::None { low >= 0.0 && low < 0.6 * high } else { !sunk };
        [if from_zero { 0.0 } else { low - pad }, high + pad]
    }

    fn draw_axes(&self, picture: &mut Picture, frame: &Frame) {
        let (left, right, bottom) = (frame.left(), frame.right(), frame.bottom());
        let [x, y] = frame.corner;
        let pen = |ink| Pen { ink, width: 1.0, dash: &[], opacity: 1.0 };
        picture.heading([left, y + 18.0], &self.title, INK);
        for v in ticks(frame.y[0], frame.y[1]) {
            let at = frame.y(v);
            picture.line(vec![[left, at], [right, at]], pen(GRID));
            picture.words([left - 6.0, at + 4.0], &short(v, frame.y[1]), Anchor::End, INK);
        }
        picture.line(vec![[left, bottom], [right, bottom]], pen(PALE));
        let values = match &self.axis {
            Axis::Steps => ticks(frame.x[0], frame.x[1]),
            Axis::Values { values, .. } => values.clone(),
        };
        let mut free = x;
        for v in values {
            let (at, label) = (frame.x(v), short(v, frame.x[1]));
            picture.line(vec![[at, bottom], [at, bottom + 4.0]], pen(PALE));
            let half = 0.5 * LETTER * label.len() as f64;
            if at - half > free {
                picture.words([at, bottom + 17.0], &label, Anchor::Middle, INK);
                free = at + half + 4.0;
            }
        }
        picture.words([0.5 * (left + right), bottom + 35.0], &self.x_label, Anchor::Middle, INK);
        picture.upward([x + 16.0, 0.5 * (y + TOP + bottom)], &self.y_label, INK);
    }

    fn draw_limit(&self, picture: &mut Picture, frame: &Frame) {
        let [from, to] = match self.limit {
            Limit::None => return,
            Limit::At(limit) => [[frame.x[0], limit], [frame.x[1], limit]],
            Limit::Diagonal => frame.x.map(|x| x.clamp(frame.y[0], frame.y[1])).map(|v| [v, v]),
        };
        picture.line(vec![frame.at(from), frame.at(to)], LIMIT);
        let [x, y] = [frame.right() + 5.0, frame.at(to)[1]];
        match self.limit {
            Limit::At(limit) => {
                picture.words([x, y - 2.0], "limit", Anchor::Start, INK);
                picture.words([x, y + 11.0], &short(limit, frame.y[1]), Anchor::Start, INK);
            }
            _ => picture.words([x, y + 4.0], "limit", Anchor::Start, INK),
        }
    }
}

impl Line {
    fn draw_band(&self, picture: &mut Picture, frame: &Frame) {
        if self.look != Look::Curve || self.band.iter().all(|[low, high]| low == high) {
            return;
        }
        let end = |i: usize| self.points.iter().zip(&self.band).map(move |(p, band)| [p[0], band[i]]);
        let around = end(1).chain(end(0).rev()).map(|p| frame.at(p)).collect();
        picture.area(around, self.style.colour(), 0.15, None);
    }

    fn draw_line(&self, picture: &mut Picture, frame: &Frame, aside: f64) {
        let pen = self.style.pen();
        let pen = match self.look {
            Look::Curve => pen,
            Look::Faint => Pen { width: 1.0, opacity: 0.3, ..pen },
            Look::Dots => Pen { width: 1.2, opacity: 0.6, ..pen },
        };
        let mut points: Vec<[f64; 2]> = self.points.iter().map(|p| frame.at(*p)).collect();
        if self.look == Look::Dots {
            points.iter_mut().for_each(|p| p[0] += aside);
        }
        if points.len() > 1 {
            picture.line(points, pen);
        }
    }

    /// `[i, n]`: this is line `i` of `n`, whose markers are at different places. A single point is always marked.
    fn draw_markers(&self, picture: &mut Picture, frame: &Frame, which: Option<[usize; 2]>) {
        let count = self.points.len();
        let mut shown: Vec<usize> = match which {
            Some([i, n]) => {
                let place = |k: usize| (k as f64 + (i as f64 + 0.5) / n as f64) / MARKERS as f64;
                (0..MARKERS).map(|k| (place(k) * count as f64) as usize).filter(|i| *i < count).collect()
            }
            None => (0..count).filter(|_| count == 1).collect(),
        };
        shown.dedup();
        shown.iter().for_each(|i| self.style.marker(picture, frame.at(self.points[*i])));
    }

    fn draw_bars(&self, picture: &mut Picture, frame: &Frame, aside: f64) {
        let pen = Pen { width: 1.5, ..self.style.pen() };
        for (point, [low, high]) in self.points.iter().zip(&self.band) {
            let [x, y] = [frame.x(point[0]) + aside, frame.y(point[1])];
            if low.is_finite() && high.is_finite() {
                let ends = [*low, *high].map(|v| frame.y(v));
                picture.line(ends.map(|y| [x, y]).to_vec(), pen);
                ends.iter().for_each(|y| picture.line(vec![[x - 4.0, *y], [x + 4.0, *y]], pen));
            }
            self.style.marker(picture, [x, y]);
        }
    }
}

/// Four or five round numbers between `low` and `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|v| *v <= high + 1e-9 * step).collect()
}

/// A number of an axis that ends at `end`: in millions, in thousands, or as it is.
fn short(v: f64, end: f64) -> String {
    let digits = |v: f64| {
        // The product of a count and a short decimal may carry a last digit of dust.
        let text = format!("{}", (v * 1e4).round() / 1e4);
        if text == "-0" { "0".to_string() } else { text }
    };
    match end {
        _ if v == 0.0 => "0".to_string(),
        end if end >= 1e6 => digits(v / 1e6) + "M",
        end if end >= 1e4 => digits(v / 1e3) + "k",
        _ => digits(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 37.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(-1.2, 4.0), [0.0, 2.0, 4.0]);
        let labels: Vec<String> = ticks(0.0, 0.6).into_iter().map(|v| short(v, 0.6)).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6"]);
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([0.0, 500_000.0, 1e6, 2.5e6].map(|v| short(v, 2.6e6)), ["0", "0.5M", "1M", "2.5M"]);
        assert_eq!([0.0, 500.0, 20_000.0].map(|v| short(v, 20_000.0)), ["0", "0.5k", "20k"]);
        assert_eq!([9_999.0, -23.5, -1e-9].map(|v| short(v, 9_999.0)), ["9999", "-23.5", "0"]);
    }

    fn panel(values: &[f64], limit: Limit) -> Panel {
        let points = values.iter().enumerate().map(|(i, v)| [i as f64, *v]).collect();
        let line = Line { style: Style(0), look: Look::Curve, points, band: Vec::new() };
        let [title, x_label, y_label] = ["t", "x", "y"].map(String::from);
        Panel { title, x_label, y_label, axis: Axis::Steps, limit, lines: vec![line], marked: false }
    }

    #[test]
    fn the_vertical_axis_shows_all_values_and_zero_if_it_is_near() {
        // 6 % of air above 10; zero is at the bottom.
        assert_eq!(panel(&[2.0, 10.0], Limit::None).range(), [0.0, 10.0 + 0.06 * 8.0]);
        // Zero is far from 90 to 100 and from -30 to -20.
        assert_eq!(panel(&[90.0, 100.0], Limit::None).range(), [90.0 - 0.6, 100.0 + 0.6]);
        assert_eq!(panel(&[-30.0, -20.0], Limit::None).range(), [-30.0 - 0.6, -20.0 + 0.6]);
        // A limit is inside, with a fifth above it: 30 and 6 % of 30.
        assert_eq!(panel(&[2.0, 10.0], Limit::At(25.0)).range(), [0.0, 30.0 + 1.8]);
        assert_eq!(panel(&[], Limit::None).range(), [0.0, 1.0]);
        // A cost's standard deviation may reach below zero, its axis does not: 0 to 30, and 6 % of -10 to 30 above.
        let mut wide = panel(&[2.0], Limit::At(25.0));
        wide.lines[0].band = vec![[-10.0, 14.0]];
        assert_eq!(wide.range(), [0.0, 30.0 + 2.4]);
    }

    #[test]
    fn forty_lines_look_different() {
        let look = |i: usize| {
            let mut picture = Picture::new(10.0, 10.0);
            Style(i).marker(&mut picture, [5.0, 5.0]);
            picture.line(vec![[0.0, 0.0], [1.0, 1.0]], Style(i).pen());
            picture.svg()
        };
        let looks: std::collections::BTreeSet<String> = (0..40).map(look).collect();
        assert_eq!(looks.len(), 40);
    }
}
