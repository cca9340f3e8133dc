//! Lines, areas and words, written as SVG or painted as PNG.

use crate::letters::{self, RasterHeight};
use std::fmt::Write;
use tiny_skia::{
    Color, FillRule, FilterQuality, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PixmapPaint,
    PremultipliedColorU8, Stroke, StrokeDash, Transform,
};

/// Height of the letters.
const FONT: f64 = 12.0;
/// Width of a letter in a PNG, whose letters are all equally wide; few in an SVG are wider.
pub(super) const LETTER: f64 = 7.0;
/// The part of a letter's raster above the line that it stands on.
const ASCENT: f64 = 0.78;

/// Red, green and blue.
pub(super) type Rgb = [u8; 3];
pub(super) const WHITE: Rgb = [255, 255, 255];

/// Where a text is relative to its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pen {
    pub ink: Rgb,
    pub width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static [f64],
    pub opacity: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Mark {
    Line { points: Vec<[f64; 2]>, pen: Pen },
    Area { points: Vec<[f64; 2]>, ink: Rgb, opacity: f64, edge: Option<Rgb> },
    Words { at: [f64; 2], text: String, anchor: Anchor, bold: bool, upward: bool, ink: Rgb },
}

/// A drawing on white, which is as readable on a dark screen as on paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: f64,
    height: f64,
    marks: Vec<Mark>,
}

impl Picture {
    pub(super) fn new(width: f64, height: f64) -> Picture {
        Picture { width, height, marks: Vec::new() }
    }

    pub(super) fn line(&mut self, points: Vec<[f64; 2]>, pen: Pen) {
        self.marks.push(Mark::Line { points, pen });
    }

    /// A filled polygon.
    pub(super) fn area(&mut self, points: Vec<[f64; 2]>, ink: Rgb, opacity: f64, edge: Option<Rgb>) {
        self.marks.push(Mark::Area { points, ink, opacity, edge });
    }

    /// Text that stands on the line through `at`.
    pub(super) fn words(&mut self, at: [f64; 2], text: &str, anchor: Anchor, ink: Rgb) {
        self.marks.push(Mark::Words { at, text: text.to_string(), anchor, bold: false, upward: false, ink });
    }

    pub(super) fn heading(&mut self, at: [f64; 2], text: &str, ink: Rgb) {
        let anchor = Anchor::Start;
        self.marks.push(Mark::Words { at, text: text.to_string(), anchor, bold: true, upward: false, ink });
    }

    /// Text that runs upward around `at`.
    pub(super) fn upward(&mut self, at: [f64; 2], text: &str, ink: Rgb) {
        let anchor = Anchor::Middle;
        self.marks.push(Mark::Words { at, text: text.to_string(), anchor, bold: false, upward: true, ink });
    }

    /// As the text of an SVG file.
    pub fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{FONT}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        self.marks.iter().for_each(|mark| mark.write(&mut svg));
        svg + "</svg>\n"
    }

    /// As the bytes of a PNG file, `scale` pixels to a point; letters are sharpest at 1 and 2.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, String> {
        let (width, height) = (self.width * f64::from(scale), self.height * f64::from(scale));
        let cannot = |why: &str| format!("cannot draw a picture of {width:.0} x {height:.0} pixels: {why}");
        let mut pixmap =
            Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or_else(|| cannot("no such size"))?;
        pixmap.fill(Color::WHITE);
        self.marks.iter().for_each(|mark| mark.paint(&mut pixmap, scale));
        pixmap.encode_png().map_err(|e| cannot(&e.to_string()))
    }
}

impl Mark {
    fn write(&self, svg: &mut String) {
        let pairs = |points: &[[f64; 2]]| -> String {
            points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
        };
        let see_through = |o: f64| if o < 1.0 { format!(" opacity=\"{o}\"") } else { String::new() };
        let written = match self {
            Mark::Line { points, pen } => {
                let dashes: Vec<String> = pen.dash.iter().map(f64::to_string).collect();
                let dash = match dashes.as_slice() {
                    [] => String::new(),
                    dashes => format!(" stroke-dasharray=\"{}\"", dashes.join(" ")),
                };
                let (stroke, width, opacity) = (hex(pen.ink), pen.width, see_through(pen.opacity));
                let shape = match points.as_slice() {
                    [a, b] => format!("path d=\"M{:.1} {:.1}L{:.1} {:.1}\"", a[0], a[1], b[0], b[1]),
                    _ => format!("polyline points=\"{}\" stroke-linejoin=\"round\"", pairs(points)),
                };
                writeln!(svg, "<{shape} fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dash}{opacity}/>")
            }
            Mark::Area { points, ink, opacity, edge } => {
                let stroke = edge.map_or(String::new(), |edge| format!(" stroke=\"{}\"", hex(edge)));
                let (points, fill, opacity) = (pairs(points), hex(*ink), see_through(*opacity));
                writeln!(svg, "<polygon points=\"{points}\" fill=\"{fill}\"{stroke}{opacity}/>")
            }
            Mark::Words { at: [x, y], text, anchor, bold, upward, ink } => {
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => " text-anchor=\"middle\"",
                    Anchor::End => " text-anchor=\"end\"",
                };
                let bold = if *bold { " font-weight=\"bold\"" } else { "" };
                let place = match upward {
                    true => format!("transform=\"translate({x:.1} {y:.1}) rotate(-90)\""),
                    false => format!("x=\"{x:.1}\" y=\"{y:.1}\""),
                };
                let (fill, text) = (hex(*ink), text.replace('&', "&amp;").replace('<', "&lt;"));
                writeln!(svg, "<text {place}{anchor}{bold} fill=\"{fill}\">{text}</text>")
            }
        };
        written.expect("writing to memory");
    }

    fn paint(&self, pixmap: &mut Pixmap, scale: f32) {
        let whole = Transform::from_scale(scale, scale);
        match self {
            Mark::Line { points, pen } => {
                let Some(path) = path(points, false) else { return };
                let dash = StrokeDash::new(pen.dash.iter().map(|d| *d as f32).collect(), 0.0);
                let line_join = LineJoin::Round;
                let stroke =
                    Stroke { width: pen.width as f32, line_cap: LineCap::Butt, line_join, dash, ..Stroke::default() };
                pixmap.stroke_path(&path, &colour(pen.ink, pen.opacity), &stroke, whole, None);
            }
            Mark::Area { points, ink, opacity, edge } => {
                let Some(path) = path(points, true) else { return };
                pixmap.fill_path(&path, &colour(*ink, *opacity), FillRule::Winding, whole, None);
                if let Some(edge) = edge {
                    pixmap.stroke_path(&path, &colour(*edge, 1.0), &Stroke::default(), whole, None);
                }
            }
            Mark::Words { at, text, anchor, bold, upward, ink } => {
                let font = if scale > 1.0 { RasterHeight::Size32 } else { RasterHeight::Size16 };
                let Some(words) = raster(text, font, *ink, *bold) else { return };
                let size = LETTER as f32 * scale / letters::advance(font) as f32;
                let share = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
                let back = [-share * words.width() as f32 * size, -(ASCENT as f32) * font.val() as f32 * size];
                let [x, y] = at.map(|v| v as f32 * scale);
                // To whole pixels, so that letters of the right size need no blending.
                let transform = match upward {
                    false => Transform::from_row(size, 0.0, 0.0, size, (x + back[0]).round(), (y + back[1]).round()),
                    true => Transform::from_row(0.0, -size, size, 0.0, (x + back[1]).round(), (y - back[0]).round()),
                };
                let quality = if size == 1.0 { FilterQuality::Nearest } else { FilterQuality::Bilinear };
                let paint = PixmapPaint { quality, ..PixmapPaint::default() };
                pixmap.draw_pixmap(0, 0, words.as_ref(), &paint, transform, None);
            }
        }
    }
}

/// Ink on a transparent ground.
fn raster(text: &str, font: RasterHeight, [r, g, b]: Rgb, bold: bool) -> Option<Pixmap> {
    let mut pixmap = Pixmap::new((letters::advance(font) * text.chars().count() + 1) as u32, font.val() as u32)?;
    let width = pixmap.width() as usize;
    let pixels = pixmap.pixels_mut();
    // Bold letters are struck twice, a pixel apart.
    for shift in 0..=usize::from(bold) {
        letters::write(text, font, |x, y, strength| {
            let pixel = &mut pixels[y * width + x + shift];
            let alpha = strength.max(pixel.alpha());
            let part = |c: u8| (u32::from(c) * u32::from(alpha) / 255) as u8;
            *pixel = PremultipliedColorU8::from_rgba(part(r), part(g), part(b), alpha).expect("no part exceeds alpha");
        });
    }
    Some(pixmap)
}

fn path(points: &[[f64; 2]], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    let ([x, y], rest) = points.split_first()?;
    path.move_to(*x as f32, *y as f32);
    rest.iter().for_each(|[x, y]| path.line_to(*x as f32, *y as f32));
    if closed {
        path.close();
    }
    path.finish()
}

fn colour([r, g, b]: Rgb, opacity: f64) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(Color::from_rgba8(r, g, b, (255.0 * opacity).round() as u8));
    paint
}

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Rgb = [255, 0, 0];

    fn pixel(png: &[u8], x: u32, y: u32) -> [u8; 3] {
        let pixel = Pixmap::decode_png(png).unwrap().pixel(x, y).unwrap();
        [pixel.red(), pixel.green(), pixel.blue()]
    }

    #[test]
    fn both_formats_show_the_same_marks() {
        let mut picture = Picture::new(20.0, 10.0);
        picture.area(vec![[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]], RED, 0.2, None);
        picture.line(vec![[10.0, 5.0], [20.0, 5.0]], Pen { ink: [0, 0, 255], width: 2.0, dash: &[], opacity: 1.0 });
        let png = picture.png(2.0).unwrap();
        // A fifth of red on white: 255 - 0.2 · 255 = 204. The line covers y = 4 to 6, pixels 8 to 11.
        assert_eq!((pixel(&png, 5, 5), pixel(&png, 30, 9), pixel(&png, 30, 3)), ([255, 204, 204], [0, 0, 255], WHITE));
        let svg = picture.svg();
        assert!(
            svg.contains("<polygon points=\"0.0,0.0 10.0,0.0 10.0,10.0 0.0,10.0\" fill=\"#ff0000\" opacity=\"0.2\"/>")
        );
        assert!(svg.contains("<path d=\"M10.0 5.0L20.0 5.0\" fill=\"none\" stroke=\"#0000ff\" stroke-width=\"2\"/>"));
    }

    /// The box of all that is not white: left, top, right, bottom.
    fn inked(picture: &Picture, scale: f32) -> [u32; 4] {
        let pixmap = Pixmap::decode_png(&picture.png(scale).unwrap()).unwrap();
        let width = pixmap.width();
        let dark = pixmap.pixels().iter().enumerate().filter(|(_, p)| p.green() < 128);
        dark.fold([u32::MAX, u32::MAX, 0, 0], |[l, t, r, b], (i, _)| {
            let (x, y) = (i as u32 % width, i as u32 / width);
            [l.min(x), t.min(y), r.max(x), b.max(y)]
        })
    }

    #[test]
    fn words_stand_on_their_line_and_end_where_they_should() {
        for scale in [1.0, 2.0, 3.0] {
            let mut picture = Picture::new(100.0, 40.0);
            picture.words([90.0, 30.0], "HHHH", Anchor::End, RED);
            let [left, top, right, bottom] = inked(&picture, scale).map(|v| f64::from(v) / f64::from(scale));
            assert!(left >= 90.0 - 4.0 * LETTER - 1.0 && right <= 90.0, "{left} to {right}");
            assert!(top > 18.0 && (bottom + 1.0 / f64::from(scale) - 30.0).abs() <= 1.0, "{top} to {bottom}");
            let mut picture = Picture::new(40.0, 100.0);
            picture.upward([30.0, 50.0], "HHHH", RED);
            let [left, top, right, bottom] = inked(&picture, scale).map(|v| f64::from(v) / f64::from(scale));
            assert!(top >= 50.0 - 2.0 * LETTER - 1.0 && bottom <= 50.0 + 2.0 * LETTER + 1.0, "{top} to {bottom}");
            assert!(left > 18.0 && (right + 1.0 / f64::from(scale) - 30.0).abs() <= 1.0, "{left} to {right}");
        }
    }

    #[test]
    fn markup_in_words_stays_words() {
        let mut picture = Picture::new(9.0, 9.0);
        picture.words([1.0, 8.0], "a<b&c", Anchor::Middle, RED);
        assert!(picture.svg().contains(">a&lt;b&amp;c</text>"));
    }

    #[test]
    fn a_picture_without_a_size_is_refused() {
        assert!(Picture::new(10.0, 10.0).png(0.0).unwrap_err().contains("0 x 0 pixels"));
    }
}
