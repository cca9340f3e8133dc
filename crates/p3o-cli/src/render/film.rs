//! An episode that is still being played, drawn whenever somebody looks.

use super::TRAIL;
use super::frame::{Shot, Stage};
use super::reel::{Moment, Reel};
use p3o_env::{EnvSpec, Scene};

/// An episode so far, as it is drawn.
pub struct Film {
    title: String,
    /// Names and limits of the costs.
    costs: Vec<(String, f64)>,
    reel: Reel,
}

/// Pixels in rows from above, each of red, green and blue.
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Three bytes for each pixel.
    pub rgb: Vec<u8>,
}

impl Film {
    /// The start of an episode of such a world; the limits are the task's own.
    pub fn new(spec: &EnvSpec, scene: Scene) -> Film {
        let costs = spec.costs.iter().map(|cost| (cost.name.clone(), cost.limit)).collect();
        Film { title: spec.name.clone(), costs, reel: vec![Moment::start(scene, spec.costs.len())] }
    }

    /// Adds what a step led to.
    pub fn add(&mut self, scene: Scene, reward: f32, costs: &[f32]) {
        let before = self.reel.last().expect("a film begins with its start");
        self.reel.push(before.next(scene, reward, costs));
    }

    /// The last moment, `size` pixels wide, with the way that led there.
    pub fn picture(&self, size: u32) -> Picture {
        let stage = Stage::new(self.title.clone(), self.costs.clone(), size, std::slice::from_ref(&self.reel));
        let step = self.reel.len() - 1;
        let shot = Shot { step, trail_from: step.saturating_sub(TRAIL), fired: self.reel[step].fired };
        let canvas = stage.draw(&self.reel, shot);
        let pixmap = canvas.pixmap();
        let rgb = pixmap.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Picture { width: pixmap.width() as usize, height: pixmap.height() as usize, rgb }
    }
}
