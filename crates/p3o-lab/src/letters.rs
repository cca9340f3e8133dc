//! Text as pixels.

pub use noto_sans_mono_bitmap::RasterHeight;
use noto_sans_mono_bitmap::{FontWeight, get_raster, get_raster_width};

/// Pixels from one letter to the next.
pub fn advance(font: RasterHeight) -> usize {
    get_raster_width(FontWeight::Regular, font)
}

/// Calls `dot` with column, row and strength (of 255) of every pixel of `text` that is not empty. What the font does not
/// have becomes a question mark.
pub fn write(text: &str, font: RasterHeight, mut dot: impl FnMut(usize, usize, u8)) {
    let raster = |c: char| get_raster(c, FontWeight::Regular, font);
    for (i, c) in text.chars().enumerate() {
        let letter = raster(c).or_else(|| raster('?')).expect("the font has all of ASCII");
        for (row, line) in letter.raster().iter().enumerate() {
            let inked = line.iter().enumerate().filter(|(_, strength)| **strength > 0);
            inked.for_each(|(column, &strength)| dot(i * advance(font) + column, row, strength));
        }
    }
}
