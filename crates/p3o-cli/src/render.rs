//! `p3o render`

mod canvas;
mod film;
mod frame;
mod gif;
mod reel;

use crate::args::RenderArgs;
use crate::screen::{figure, say, thousands};
use crate::train::shown;
use crate::{Failure, pool};
pub use film::{Film, Picture};
use frame::{Shot, Stage};
use p3o::Agent;
use p3o::evaluate::Settings;
use p3o::memory::check_agent;
use p3o::record::write_atomic;
use p3o::run::named_task;
use reel::{Moment, Reel, film};
use std::path::{Path, PathBuf};

/// Frames of an episode unless `--every` says otherwise.
const FRAMES: usize = 250;
/// Steps that the trail of a moving picture goes back.
const TRAIL: usize = 200;
/// How long an animation rests at the end of an episode, in hundredths of a second.
const REST: u16 = 150;

/// `p3o render`
pub fn render(args: &RenderArgs) -> Result<(), Failure> {
    let output = Output::of(&args.output)?;
    if matches!(output, Output::Picture) && args.episodes > 1 {
        return Err(Failure::Usage("a .png shows one episode; more fit into a .gif or a folder of frames".into()));
    }
    let settings = Settings { episodes: args.episodes as usize, seed: args.seed, deterministic: args.deterministic };
    let (stage, reels) = pool(None)?.install(|| -> Result<(Stage, Vec<Reel>), Failure> {
        let agent = Agent::load(&args.run)?;
        check_agent(&agent, settings.episodes)?;
        let reels = film(&agent, &*named_task(agent.config())?, &settings)?;
        let title = agent.config().task.clone();
        if !has_picture(&reels) {
            return Err(Failure::Failed(format!("{title} has no picture: its world does not say how to draw it")));
        }
        let names = agent.spec().costs.iter().map(|cost| cost.name.clone());
        let costs = names.zip(agent.limits()).collect();
        Ok((Stage::new(title, costs, args.size, &reels), reels))
    })?;
    let pictures = match output {
        Output::Picture => picture(&stage, &reels[0], &args.output)?,
        Output::Animation => animation(&stage, &reels, args)?,
        Output::Frames => frames(&stage, &reels, args)?,
    };
    say!("{}: {pictures}", shown(&args.output));
    for reel in &reels {
        say!("  {}", sums(&stage, reel));
    }
    Ok(())
}

/// What the name of the output asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Output {
    Animation,
    Picture,
    Frames,
}

impl Output {
    /// Looks at the name and at what is there already, so that nothing is played in vain.
    fn of(path: &Path) -> Result<Output, Failure> {
        let cannot = |reason: String| Err(Failure::Failed(format!("cannot write {}: {reason}", path.display())));
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let is_folder = path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/');
        let output = match ending.as_deref() {
            _ if is_folder => Output::Frames,
            Some("gif") => Output::Animation,
            Some("png") => Output::Picture,
            _ => {
                let name = path.display();
                return Err(Failure::Usage(format!(
                    "{name} must end in .gif (an animation), .png (one picture of the episode) or / (a folder of frames)"
                )));
            }
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            return cannot(format!("there is no folder {}", parent.display()));
        }
        if path.is_dir() && path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return cannot("the folder is not empty".to_owned());
        }
        Ok(output)
    }
}

/// The last moment with the whole way that led there.
fn picture(stage: &Stage, reel: &Reel, path: &Path) -> Result<String, Failure> {
    let step = reel.len() - 1;
    let canvas = stage.draw(reel, Shot { step, trail_from: 0, fired: reel[step].fired });
    let bytes = png(&canvas)?;
    write(path, &bytes)?;
    Ok(format!("{} steps in {} kB", thousands(step as f64), kilobytes(bytes.len())))
}

fn animation(stage: &Stage, reels: &[Reel], args: &RenderArgs) -> Result<String, Failure> {
    let shots: Vec<(&Reel, Vec<Shot>)> = reels.iter().map(|reel| (reel, shots(reel, args.every))).collect();
    let longest = shots.iter().map(|(_, shots)| shots.len()).max().unwrap_or(1);
    // An episode should take about ten seconds, unless that stutters or flickers.
    let fps = args.fps.unwrap_or((longest / 10).clamp(5, 25) as u16);
    let delay = (100 / fps).max(2);
    let mut made: Option<gif::Animation> = None;
    for (reel, shots) in &shots {
        for (i, shot) in shots.iter().enumerate() {
            let canvas = stage.draw(reel, *shot);
            let picture = canvas.pixmap();
            let animation = made.get_or_insert_with(|| gif::Animation::new(picture.width(), picture.height()));
            animation.add(picture, if i + 1 == shots.len() { REST } else { delay });
        }
    }
    let bytes = made.expect("there is at least one frame").finish();
    write(&args.output, &bytes)?;
    let count: usize = shots.iter().map(|(_, shots)| shots.len()).sum();
    Ok(format!("{count} frames in {} kB", kilobytes(bytes.len())))
}

fn frames(stage: &Stage, reels: &[Reel], args: &RenderArgs) -> Result<String, Failure> {
    let folder: &PathBuf = &args.output;
    if !folder.is_dir() {
        std::fs::create_dir(folder)
            .map_err(|e| Failure::Failed(format!("cannot make the folder {}: {e}", folder.display())))?;
    }
    let shots = reels.iter().flat_map(|reel| shots(reel, args.every).into_iter().map(move |shot| (reel, shot)));
    let mut count = 0;
    for (reel, shot) in shots {
        write(&folder.join(format!("{count:04}.png")), &png(&stage.draw(reel, shot))?)?;
        count += 1;
    }
    Ok(format!("{count} frames"))
}

/// Whether the world draws anything at all.
fn has_picture(reels: &[Reel]) -> bool {
    reels.iter().flatten().any(|moment| !moment.scene.shapes.is_empty())
}

/// The start, every so many steps, and the end. A cost between two frames shows in the later one.
fn shots(reel: &[Moment], every: Option<u32>) -> Vec<Shot> {
    let last = reel.len() - 1;
    let every = every.map_or(reel.len().div_ceil(FRAMES), |every| every as usize);
    let steps = (0..last).step_by(every).chain([last]);
    let mut next = 0;
    steps
        .map(|step| {
            let fired = reel[next..=step].iter().any(|moment| moment.fired);
            next = step + 1;
            Shot { step, trail_from: step.saturating_sub(TRAIL), fired }
        })
        .collect()
}

/// How an episode ended.
fn sums(stage: &Stage, reel: &Reel) -> String {
    let end = reel.last().expect("a reel begins with its start");
    let costs = stage.costs().iter().zip(&end.costs).map(|((name, limit), sum)| {
        let of = if limit.is_finite() { format!("/{limit}") } else { String::new() };
        format!("  {name} {}{of}", figure(*sum))
    });
    format!("return {}{}", figure(end.ret), costs.collect::<String>())
}

fn png(canvas: &canvas::Canvas) -> Result<Vec<u8>, Failure> {
    canvas.pixmap().encode_png().map_err(|e| Failure::Failed(format!("cannot make a PNG: {e}")))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_atomic(path, bytes).map_err(|e| Failure::Failed(e.to_string()))
}

fn kilobytes(bytes: usize) -> String {
    thousands(bytes.div_ceil(1000) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3o_env::Scene;

    fn reel(fired: &[bool]) -> Reel {
        let moment = |&fired: &bool| Moment { scene: Scene::default(), ret: 0.0, costs: vec![], fired };
        fired.iter().map(moment).collect()
    }

    #[test]
    fn frames_begin_and_end_with_the_episode_and_miss_no_cost() {
        let reel = reel(&[false, false, true, false, false, false, false, false]);
        let found: Vec<(usize, bool)> = shots(&reel, Some(3)).iter().map(|shot| (shot.step, shot.fired)).collect();
        assert_eq!(found, [(0, false), (3, true), (6, false), (7, false)]);
        assert_eq!(shots(&reel, Some(7)).len(), 2);
        assert_eq!(shots(&reel, None).len(), 8);
    }

    #[test]
    fn a_world_that_draws_nothing_has_no_picture() {
        let mut reels = [reel(&[false; 3])];
        assert!(!has_picture(&reels));
        reels[0][2].scene.disc(p3o_env::Role::Agent, [0.0; 2], 1.0);
        assert!(has_picture(&reels));
    }

    #[test]
    fn a_long_episode_has_no_more_frames_than_a_file_should() {
        let long = shots(&reel(&[false; 1001]), None);
        assert_eq!((long.len(), long[1].step, long[200].step), (201, 5, 1000));
        assert_eq!((long[0].trail_from, long[200].trail_from), (0, 800));
    }
}
