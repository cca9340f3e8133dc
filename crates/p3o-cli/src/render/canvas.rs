//! Colours, text, and shapes of a world on a picture.

use p3o_env::{Form, Role, Shape};
use p3o_lab::letters::{self, RasterHeight};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PixmapPaint, PremultipliedColorU8, Rect,
    Stroke, StrokeDash, Transform,
};

/// Red, green and blue.
pub type Rgb = [u8; 3];

pub const WHITE: Rgb = [255, 255, 255];
pub const INK: Rgb = [40, 40, 40];
pub const FAINT: Rgb = [222, 222, 222];
/// Costs: the one colour that nothing but limits and what breaks them has.
pub const ALARM: Rgb = [213, 94, 0];
pub const TRAIL: Rgb = [86, 180, 233];
const BLUE: Rgb = [0, 114, 178];
const DEEP_BLUE: Rgb = [0, 70, 115];
const GREEN: Rgb = [0, 158, 115];
const LIGHT_GREEN: Rgb = [178, 226, 213];
const YELLOW: Rgb = [230, 159, 0];
const LIGHT_YELLOW: Rgb = [250, 228, 178];
const PURPLE: Rgb = [204, 121, 167];
const GREY: Rgb = [140, 140, 140];

/// Every colour in use, for a palette.
pub const COLOURS: &[Rgb] =
    &[WHITE, INK, FAINT, ALARM, TRAIL, BLUE, DEEP_BLUE, GREEN, LIGHT_GREEN, YELLOW, LIGHT_YELLOW, PURPLE, GREY];

/// Fill and outline of a role; after Okabe and Ito, whose colours the colour-blind can tell apart.
fn colours(role: Role) -> (Rgb, Rgb) {
    match role {
        Role::Agent => (BLUE, DEEP_BLUE),
        Role::Limb => (DEEP_BLUE, DEEP_BLUE),
        Role::Goal => (LIGHT_GREEN, GREEN),
        Role::Landmark | Role::Apple | Role::Track => (GREEN, GREEN),
        Role::Hazard => (LIGHT_YELLOW, YELLOW),
        Role::Pillar => (GREY, INK),
        Role::Vase | Role::Gremlin => (PURPLE, INK),
        Role::Button => (YELLOW, INK),
        Role::Bomb | Role::Wall => (INK, INK),
        Role::Limit => (ALARM, ALARM),
    }
}

/// From metres to the pixels of one picture.
#[derive(Clone, Copy)]
pub struct Camera {
    /// What is in the middle.
    pub centre: [f64; 2],
    /// Pixels in a metre.
    pub scale: f64,
}

/// A picture in the making. Lengths are pixels, y goes down.
pub struct Canvas {
    pixmap: Pixmap,
    /// Thickness of a thin line.
    hair: f32,
    font: RasterHeight,
}

impl Canvas {
    /// A white picture whose lines and letters suit a whole picture of `full` pixels' width.
    pub fn new(width: u32, height: u32, full: u32) -> Canvas {
        let mut pixmap = Pixmap::new(width.max(1), height.max(1)).expect("a picture has a size");
        pixmap.fill(colour(WHITE));
        let font = match full {
            ..700 => RasterHeight::Size16,
            700..1000 => RasterHeight::Size24,
            _ => RasterHeight::Size32,
        };
        Canvas { pixmap, hair: full as f32 / 320.0, font }
    }

    pub fn pixmap(&self) -> &Pixmap {
        &self.pixmap
    }

    /// Height of a line of text.
    pub fn line_height(&self) -> f32 {
        self.font.val() as f32
    }

    pub fn text_width(&self, text: &str) -> f32 {
        (letters::advance(self.font) * text.chars().count()) as f32
    }

    /// Writes text with its upper left corner there; what is beyond the edge is cut off.
    pub fn text(&mut self, x: f32, y: f32, text: &str, ink: Rgb) {
        let (width, height) = (self.pixmap.width() as usize, self.pixmap.height() as usize);
        let pixels = self.pixmap.pixels_mut();
        letters::write(text, self.font, |column, row, strength| {
            let (px, py) = (x as usize + column, y as usize + row);
            if px < width && py < height {
                let pixel = &mut pixels[py * width + px];
                *pixel = blend(*pixel, ink, strength);
            }
        });
    }

    /// Puts another picture on this one.
    pub fn paste(&mut self, other: &Canvas, x: i32, y: i32) {
        let picture = other.pixmap.as_ref();
        self.pixmap.draw_pixmap(x, y, picture, &PixmapPaint::default(), Transform::identity(), None);
    }

    pub fn fill_rect(&mut self, x: f32, y: f32, width: f32, height: f32, ink: Rgb) {
        if let Some(rect) = Rect::from_xywh(x, y, width, height) {
            self.pixmap.fill_rect(rect, &paint(ink), Transform::identity(), None);
        }
    }

    /// A frame along the inside of the picture's edge.
    pub fn frame(&mut self, thickness: f32, ink: Rgb) {
        let (w, h) = (self.pixmap.width() as f32, self.pixmap.height() as f32);
        for (x, y, width, height) in [
            (0.0, 0.0, w, thickness),
            (0.0, h - thickness, w, thickness),
            (0.0, 0.0, thickness, h),
            (w - thickness, 0.0, thickness, h),
        ] {
            self.fill_rect(x, y, width, height, ink);
        }
    }

    /// A thing of the world.
    pub fn shape(&mut self, camera: Camera, shape: &Shape) {
        let (fill, edge) = if shape.alarm { (ALARM, ALARM) } else { colours(shape.role) };
        let at = |p: [f64; 2]| self.place(camera, p);
        let length = |metres: f64| (metres * camera.scale) as f32;
        match shape.form {
            Form::Disc { centre, radius } => {
                let [x, y] = at(centre);
                self.solid(PathBuilder::from_circle(x, y, length(radius)), fill, edge);
            }
            Form::Block { centre, half, angle } => {
                let (sin, cos) = angle.sin_cos();
                let corners = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]].map(|[a, b]| {
                    let (u, v) = (a * half[0], b * half[1]);
                    at([centre[0] + cos * u - sin * v, centre[1] + sin * u + cos * v])
                });
                self.solid(polygon(&corners), fill, edge);
            }
            Form::Ring { centre, radius } => {
                let [x, y] = at(centre);
                self.stroke(PathBuilder::from_circle(x, y, length(radius)), self.hair, edge, false);
            }
            Form::Line { ends, radius } => {
                let width = (2.0 * length(radius)).max(self.hair);
                let dashed = shape.role == Role::Limit || shape.role == Role::Landmark;
                self.stroke(open_line(&ends.map(at)), width, edge, dashed);
            }
        }
    }

    /// Where a disc was.
    pub fn outline(&mut self, camera: Camera, shape: &Shape) {
        if let Form::Disc { centre, radius } = shape.form {
            self.shape(camera, &Shape { form: Form::Ring { centre, radius }, ..*shape });
        }
    }

    /// A line through places of the world.
    pub fn trail(&mut self, camera: Camera, places: impl Iterator<Item = [f64; 2]>, ink: Rgb) {
        let points: Vec<[f32; 2]> = places.map(|p| self.place(camera, p)).collect();
        self.stroke(open_line(&points), 1.2 * self.hair, ink, false);
    }

    /// A role as a legend shows it, at the beginning of a line of text.
    pub fn sample(&mut self, x: f32, y: f32, role: Role) {
        let (fill, edge) = colours(role);
        let side = 0.7 * self.line_height();
        let [left, top, middle] = [x, y + 0.2 * self.line_height(), y + 0.55 * self.line_height()];
        match role {
            Role::Track | Role::Limit | Role::Wall => {
                self.stroke(open_line(&[[left, middle], [left + side, middle]]), self.hair, edge, false);
            }
            Role::Vase | Role::Gremlin => {
                let [right, bottom] = [left + side, top + side];
                self.solid(polygon(&[[left, top], [right, top], [right, bottom], [left, bottom]]), fill, edge);
            }
            _ => self.solid(PathBuilder::from_circle(left + 0.5 * side, middle, 0.5 * side), fill, edge),
        }
    }

    fn place(&self, camera: Camera, [x, y]: [f64; 2]) -> [f32; 2] {
        let (w, h) = (f64::from(self.pixmap.width()), f64::from(self.pixmap.height()));
        let [cx, cy] = camera.centre;
        [(0.5 * w + (x - cx) * camera.scale) as f32, (0.5 * h - (y - cy) * camera.scale) as f32]
    }

    /// Nothing, where a coordinate is not a number.
    fn solid(&mut self, path: Option<Path>, fill: Rgb, edge: Rgb) {
        if let Some(shape) = &path {
            self.pixmap.fill_path(shape, &paint(fill), FillRule::Winding, Transform::identity(), None);
        }
        self.stroke(path, 0.7 * self.hair, edge, false);
    }

    fn stroke(&mut self, path: Option<Path>, width: f32, ink: Rgb, dashed: bool) {
        let Some(path) = path else { return };
        let dash = if dashed { StrokeDash::new(vec![4.0 * self.hair, 3.5 * self.hair], 0.0) } else { None };
        let stroke = Stroke { width, line_cap: LineCap::Round, line_join: LineJoin::Round, dash, ..Stroke::default() };
        self.pixmap.stroke_path(&path, &paint(ink), &stroke, Transform::identity(), None);
    }
}

fn open_line(points: &[[f32; 2]]) -> Option<Path> {
    let mut path = PathBuilder::new();
    let [x, y] = *points.first()?;
    path.move_to(x, y);
    points[1..].iter().for_each(|&[x, y]| path.line_to(x, y));
    path.finish()
}

fn polygon(points: &[[f32; 2]]) -> Option<Path> {
    let mut path = PathBuilder::new();
    let [x, y] = *points.first()?;
    path.move_to(x, y);
    points[1..].iter().for_each(|&[x, y]| path.line_to(x, y));
    path.close();
    path.finish()
}

fn colour([r, g, b]: Rgb) -> Color {
    Color::from_rgba8(r, g, b, 255)
}

fn paint(ink: Rgb) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(colour(ink));
    paint
}

/// An opaque pixel with `strength` of 255 parts ink.
fn blend(pixel: PremultipliedColorU8, [r, g, b]: Rgb, strength: u8) -> PremultipliedColorU8 {
    let mix = |from: u8, to: u8| {
        let (from, to, share) = (u32::from(from), u32::from(to), u32::from(strength));
        ((from * (255 - share) + to * share + 127) / 255) as u8
    };
    PremultipliedColorU8::from_rgba(mix(pixel.red(), r), mix(pixel.green(), g), mix(pixel.blue(), b), 255)
        .expect("no part of an opaque colour exceeds its alpha")
}
