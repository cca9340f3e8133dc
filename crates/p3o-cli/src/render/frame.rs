//! One frame: the sums against their limits, the world from above, and a legend.

use super::canvas::{ALARM, Camera, Canvas, FAINT, INK, TRAIL};
use super::reel::{Moment, Reel};
use p3o_env::{Role, Scene, Shape};
use std::collections::BTreeSet;

/// White space around everything.
const MARGIN: f32 = 10.0;
const LINE_GAP: f32 = 6.0;
/// Left free beyond an agent, as a share of half the world.
const ROOM: f64 = 0.12;
/// Share of the world's width that a close-up takes.
const CLOSE_UP: f64 = 0.3;
/// The bar of a cost ends at this multiple of its limit.
const BAR_END: f64 = 1.5;

/// What all frames of a picture have in common.
pub struct Stage {
    title: String,
    /// Names of the costs and their limits; infinite where there is none.
    costs: Vec<(String, f64)>,
    size: u32,
    world: [u32; 2],
    camera: Camera,
    /// Where close-ups are, as signs of x and y.
    corner: [f64; 2],
    legend: Vec<Entry>,
}

/// One line of the legend.
enum Entry {
    Thing(Role),
    Cost,
}

impl Entry {
    fn name(&self) -> &'static str {
        match self {
            Entry::Thing(role) => role.name(),
            Entry::Cost => "cost",
        }
    }
}

/// Which part of an episode to show.
#[derive(Clone, Copy)]
pub struct Shot {
    /// The step that is shown.
    pub step: usize,
    /// The first step of the trail.
    pub trail_from: usize,
    /// Whether to raise the alarm.
    pub fired: bool,
}

impl Stage {
    /// A stage `size` pixels wide on which all that happens in the reels can be seen.
    pub fn new(title: String, costs: Vec<(String, f64)>, size: u32, reels: &[Reel]) -> Stage {
        let scenes = || reels.iter().flatten().map(|moment| &moment.scene);
        let (min, max) = bounds(scenes());
        let width = size - 2 * MARGIN as u32;
        let scale = f64::from(width) / (max[0] - min[0]);
        let height = ((max[1] - min[1]) * scale).round().clamp(1.0, 4.0 * f64::from(width)) as u32;
        let centre = [0.5 * (min[0] + max[0]), 0.5 * (min[1] + max[1])];
        let roles: BTreeSet<Role> = scenes().flat_map(|scene| &scene.shapes).map(|shape| shape.role).collect();
        let things = roles.into_iter().filter(|role| *role != Role::Limb).map(Entry::Thing);
        let legend = things.chain((!costs.is_empty()).then_some(Entry::Cost)).collect();
        let camera = Camera { centre, scale };
        let corner = free_corner(scenes().flat_map(|scene| &scene.agents), camera, 0.5 * (max[0] - min[0]));
        Stage { title, costs, size, world: [width, height], camera, corner, legend }
    }

    /// Names of the costs and their limits.
    pub fn costs(&self) -> &[(String, f64)] {
        &self.costs
    }

    /// Draws one moment of an episode.
    pub fn draw(&self, reel: &Reel, shot: Shot) -> Canvas {
        let probe = Canvas::new(1, 1, self.size);
        let line = probe.line_height() + LINE_GAP;
        let top = MARGIN + line * (1 + self.costs.len()) as f32 + 2.0;
        let rows = self.legend_rows(&probe);
        let bottom = top + self.world[1] as f32 + LINE_GAP;
        let height = bottom + line * rows.len() as f32 + MARGIN - LINE_GAP;
        let mut canvas = Canvas::new(self.size, height as u32, self.size);
        self.numbers(&mut canvas, &reel[shot.step], shot.step);
        canvas.paste(&self.world(reel, shot), MARGIN as i32, top as i32);
        for (i, row) in rows.iter().enumerate() {
            self.legend(&mut canvas, bottom + line * i as f32, row);
        }
        canvas
    }

    fn numbers(&self, canvas: &mut Canvas, moment: &Moment, step: usize) {
        let right = self.size as f32 - MARGIN;
        let line = canvas.line_height() + LINE_GAP;
        canvas.text(MARGIN, MARGIN, &self.title, INK);
        let end = format!("step {step:>4}");
        canvas.text(right - canvas.text_width(&end), MARGIN, &end, INK);
        let middle = format!("return {:>7.2}", moment.ret);
        canvas.text(0.5 * (self.size as f32 - canvas.text_width(&middle)), MARGIN, &middle, INK);

        let names = self.costs.iter().map(|(name, _)| canvas.text_width(name)).fold(0.0, f32::max);
        for (i, ((name, limit), &sum)) in self.costs.iter().zip(&moment.costs).enumerate() {
            let y = MARGIN + line * (i + 1) as f32;
            let ink = if sum > *limit { ALARM } else { INK };
            canvas.text(MARGIN, y, name, INK);
            let left = MARGIN + names + canvas.text_width("  ");
            let mut value = format!("{:>4}", short(sum));
            if limit.is_finite() {
                value += &format!(" / {limit}");
                let bar = left + canvas.text_width(&format!("{value:<12}"));
                self.bar(canvas, [bar, right], y, sum, *limit);
            }
            canvas.text(left, y, &value, ink);
        }
    }

    /// How much of a limit is used up; the mark is the limit.
    fn bar(&self, canvas: &mut Canvas, [left, right]: [f32; 2], y: f32, sum: f64, limit: f64) {
        let (y, height) = (y + 2.0, canvas.line_height() - 4.0);
        let share = |value: f64| if limit > 0.0 { (value / (BAR_END * limit)).min(1.0) } else { 1.0 };
        let mark = left + (right - left) * (1.0 / BAR_END) as f32;
        let end = left + (right - left) * if sum > 0.0 { share(sum) as f32 } else { 0.0 };
        canvas.fill_rect(left, y, right - left, height, FAINT);
        canvas.fill_rect(left, y, end.min(mark) - left, height, if sum > limit { ALARM } else { TRAIL });
        canvas.fill_rect(mark, y, end - mark, height, ALARM);
        canvas.fill_rect(mark - 1.0, y - 2.0, 2.0, height + 4.0, INK);
    }

    fn world(&self, reel: &Reel, shot: Shot) -> Canvas {
        let [width, height] = self.world;
        let mut canvas = Canvas::new(width, height, self.size);
        things(&mut canvas, self.camera, reel, shot);
        let scene = &reel[shot.step].scene;
        if let (Some(half), Some(&centre)) = (scene.close_up, scene.agents.first()) {
            let side = CLOSE_UP * f64::from(width);
            let mut lens = Canvas::new(side as u32, side as u32, self.size);
            things(&mut lens, Camera { centre, scale: 0.5 * side / half }, reel, shot);
            lens.frame(1.0, INK);
            let at = |sign: f64, whole: u32| (0.5 * (f64::from(whole) - side) * (1.0 + 0.96 * sign)) as i32;
            canvas.paste(&lens, at(self.corner[0], width), at(-self.corner[1], height));
        }
        let (thickness, ink) = if shot.fired { (5.0, ALARM) } else { (1.0, FAINT) };
        canvas.frame(thickness, ink);
        canvas
    }

    /// The entries of the legend in rows that fit.
    fn legend_rows(&self, canvas: &Canvas) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new()];
        let mut x = MARGIN;
        for (i, entry) in self.legend.iter().enumerate() {
            let width = entry_width(canvas, entry.name());
            if x + width > self.size as f32 && rows.last().is_some_and(|row| !row.is_empty()) {
                rows.push(Vec::new());
                x = MARGIN;
            }
            rows.last_mut().expect("there is a row").push(i);
            x += width;
        }
        rows
    }

    fn legend(&self, canvas: &mut Canvas, y: f32, row: &[usize]) {
        let mut x = MARGIN;
        let line = canvas.line_height();
        for &i in row {
            let entry = &self.legend[i];
            match *entry {
                Entry::Thing(role) => canvas.sample(x, y, role),
                Entry::Cost => canvas.fill_rect(x, y + 0.2 * line, 0.7 * line, 0.7 * line, ALARM),
            }
            canvas.text(x + 0.95 * line, y, entry.name(), INK);
            x += entry_width(canvas, entry.name());
        }
    }
}

fn entry_width(canvas: &Canvas, name: &str) -> f32 {
    1.9 * canvas.line_height() + canvas.text_width(name)
}

/// The ground, the trails and then the agents. What has been collected leaves its outline.
fn things(canvas: &mut Canvas, camera: Camera, reel: &Reel, shot: Shot) {
    let is_agent = |role: Role| matches!(role, Role::Agent | Role::Limb);
    let shapes = &reel[shot.step].scene.shapes;
    let collected = |shape: &&Shape| matches!(shape.role, Role::Apple | Role::Bomb) && !shapes.contains(shape);
    reel[0].scene.shapes.iter().filter(collected).for_each(|shape| canvas.outline(camera, shape));
    shapes.iter().filter(|shape| !is_agent(shape.role)).for_each(|shape| canvas.shape(camera, shape));
    trails(canvas, camera, &reel[shot.trail_from..=shot.step]);
    shapes.iter().filter(|shape| is_agent(shape.role)).for_each(|shape| canvas.shape(camera, shape));
}

/// Every agent's way, in the colour of costs where a step cost.
fn trails(canvas: &mut Canvas, camera: Camera, moments: &[Moment]) {
    let agents = moments.iter().map(|moment| moment.scene.agents.len()).min().unwrap_or(0);
    // Costs last: where a way crosses itself, they are what one wants to see.
    for fired in [false, true] {
        let mut start = 0;
        while start + 1 < moments.len() {
            let alike = moments[start + 1..].iter().take_while(|moment| moment.fired == moments[start + 1].fired);
            let end = start + alike.count();
            if moments[end].fired == fired {
                let ink = if fired { ALARM } else { TRAIL };
                for agent in 0..agents {
                    canvas.trail(camera, moments[start..=end].iter().map(|moment| moment.scene.agents[agent]), ink);
                }
            }
            start = end;
        }
    }
}

/// What the scenes ask for, enlarged until every agent is inside, but at most doubled: one that runs away would leave
/// the rest too small to see.
fn bounds<'a>(scenes: impl Iterator<Item = &'a Scene> + Clone) -> ([f64; 2], [f64; 2]) {
    let (mut min, mut max) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for scene in scenes.clone() {
        for i in 0..2 {
            min[i] = min[i].min(scene.bounds.min[i]);
            max[i] = max[i].max(scene.bounds.max[i]);
        }
    }
    let centre = [0, 1].map(|i| 0.5 * (min[i] + max[i]));
    let half = [0, 1].map(|i| 0.5 * (max[i] - min[i]));
    let places = scenes.flat_map(|scene| &scene.agents);
    let distances = places.flat_map(|place| [0, 1].map(|i| (place[i] - centre[i]).abs() / half[i] + ROOM));
    let growth = distances.filter(|d| d.is_finite()).fold(1.0, f64::max).min(2.0);
    ([0, 1].map(|i| centre[i] - growth * half[i]), [0, 1].map(|i| centre[i] + growth * half[i]))
}

/// The corner, as signs of x and y, from which agents keep away most.
fn free_corner<'a>(places: impl Iterator<Item = &'a [f64; 2]> + Clone, camera: Camera, half: f64) -> [f64; 2] {
    let room = |[x, y]: [f64; 2]| {
        let corner = [camera.centre[0] + x * half, camera.centre[1] + y * half];
        places.clone().map(|p| (p[0] - corner[0]).hypot(p[1] - corner[1])).fold(f64::INFINITY, f64::min)
    };
    let corners = [[1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]];
    corners.into_iter().max_by(|a, b| room(*a).total_cmp(&room(*b))).unwrap_or(corners[0])
}

/// Whole numbers without decimals.
fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") }
}
