//! Frames as an animated GIF: one palette for all, and of each frame only what changed.

use super::canvas::{COLOURS, Rgb};
use gif::{DisposalMethod, Encoder, Frame, Repeat};
use std::borrow::Cow;
use std::collections::HashMap;
use tiny_skia::Pixmap;

/// Marks a pixel that keeps its colour.
const SAME: u8 = 255;

/// An animation in the making.
pub struct Animation {
    encoder: Encoder<Vec<u8>>,
    palette: Vec<Rgb>,
    /// The nearest entry of the palette for every colour met so far.
    known: HashMap<Rgb, u8>,
    size: [usize; 2],
    before: Vec<u8>,
}

impl Animation {
    /// An empty animation that repeats for ever.
    pub fn new(width: u32, height: u32) -> Animation {
        let palette = palette();
        let mut bytes: Vec<u8> = palette.iter().flatten().copied().collect();
        bytes.resize(3 * 256, 0);
        let mut encoder = Encoder::new(Vec::new(), width as u16, height as u16, &bytes).expect("writing to memory");
        encoder.set_repeat(Repeat::Infinite).expect("writing to memory");
        let size = [width as usize, height as usize];
        Animation { encoder, palette, known: HashMap::new(), size, before: vec![SAME; size[0] * size[1]] }
    }

    /// Adds a frame that stays for `delay` hundredths of a second.
    pub fn add(&mut self, picture: &Pixmap, delay: u16) {
        let mut run = (COLOURS[0], self.index(COLOURS[0]));
        let indices = picture.pixels().iter().map(|p| {
            let colour = [p.red(), p.green(), p.blue()];
            // Most pixels are like their neighbour.
            if colour != run.0 {
                run = (colour, self.index(colour));
            }
            run.1
        });
        let now: Vec<u8> = indices.collect();
        let [left, top, width, height] = self.changed(&now);
        let mut buffer = Vec::with_capacity(width * height);
        for y in top..top + height {
            let row = y * self.size[0] + left..y * self.size[0] + left + width;
            let pixels = now[row.clone()].iter().zip(&self.before[row]);
            buffer.extend(pixels.map(|(new, old)| if new == old { SAME } else { *new }));
        }
        let frame = Frame {
            delay,
            dispose: DisposalMethod::Keep,
            transparent: Some(SAME),
            left: left as u16,
            top: top as u16,
            width: width as u16,
            height: height as u16,
            buffer: Cow::Owned(buffer),
            ..Frame::default()
        };
        self.encoder.write_frame(&frame).expect("writing to memory");
        self.before = now;
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        self.encoder.into_inner().expect("writing to memory")
    }

    /// Left, top, width and height of the smallest rectangle that holds every change, at least a pixel.
    fn changed(&self, now: &[u8]) -> [usize; 4] {
        let width = self.size[0];
        let (mut low, mut high) = ([usize::MAX; 2], [0; 2]);
        for (i, _) in now.iter().zip(&self.before).enumerate().filter(|(_, (new, old))| new != old) {
            for (axis, at) in [i % width, i / width].into_iter().enumerate() {
                low[axis] = low[axis].min(at);
                high[axis] = high[axis].max(at);
            }
        }
        if low[0] > high[0] { [0, 0, 1, 1] } else { [low[0], low[1], high[0] - low[0] + 1, high[1] - low[1] + 1] }
    }

    fn index(&mut self, wanted: Rgb) -> u8 {
        *self.known.entry(wanted).or_insert_with(|| {
            let distance = |c: &Rgb| c.iter().zip(wanted).map(|(a, b)| i32::from(a.abs_diff(b)).pow(2)).sum::<i32>();
            let entries = self.palette.iter().enumerate();
            entries.min_by_key(|(_, c)| distance(c)).map_or(0, |(i, _)| i as u8)
        })
    }
}

/// The colours in use, the middle between any two for soft edges, and more steps towards white for letters.
fn palette() -> Vec<Rgb> {
    let mix = |a: Rgb, b: Rgb, quarters: u16| -> Rgb {
        std::array::from_fn(|i| ((u16::from(a[i]) * (4 - quarters) + u16::from(b[i]) * quarters + 2) / 4) as u8)
    };
    let mut palette = COLOURS.to_vec();
    for (i, &a) in COLOURS.iter().enumerate() {
        palette.extend(COLOURS[..i].iter().map(|&b| mix(a, b, 2)));
        palette.extend([1, 3].map(|quarters| mix(a, COLOURS[0], quarters)));
    }
    assert!(palette.len() <= usize::from(SAME), "a GIF has 256 colours");
    palette
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiny_skia::{Color, Paint, Rect, Transform};

    fn picture(dots: &[[f32; 2]]) -> Pixmap {
        let mut picture = Pixmap::new(6, 4).unwrap();
        picture.fill(Color::WHITE);
        let mut paint = Paint::default();
        paint.set_color_rgba8(213, 94, 0, 255);
        for [x, y] in dots {
            let dot = Rect::from_xywh(*x, *y, 1.0, 1.0).unwrap();
            picture.fill_rect(dot, &paint, Transform::identity(), None);
        }
        picture
    }

    #[test]
    fn later_frames_hold_only_what_changed() {
        let mut animation = Animation::new(6, 4);
        let dots: [&[[f32; 2]]; 3] = [&[], &[[1.0, 2.0], [4.0, 3.0]], &[[1.0, 2.0], [4.0, 3.0]]];
        dots.iter().for_each(|dots| animation.add(&picture(dots), 7));
        let bytes = animation.finish();
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut file = options.read_info(&bytes[..]).unwrap();
        let mut next = || file.read_next_frame().unwrap().cloned();

        let first = next().unwrap();
        assert_eq!((first.width, first.height, first.delay), (6, 4, 7));
        assert!(first.buffer.iter().all(|v| *v == 255), "white, and nothing transparent");
        // From (1, 2) to (4, 3): the dots are its first and its last pixel.
        let second = next().unwrap();
        assert_eq!((second.left, second.top, second.width, second.height), (1, 2, 4, 2));
        let alpha: Vec<u8> = second.buffer.chunks(4).map(|p| p[3]).collect();
        assert_eq!(alpha, [255, 0, 0, 0, 0, 0, 0, 255]);
        assert_eq!(second.buffer[..4], [213, 94, 0, 255]);
        let third = next().unwrap();
        assert_eq!((third.width, third.height, third.buffer[3]), (1, 1, 0), "nothing changed");
        assert!(next().is_none());
    }
}
