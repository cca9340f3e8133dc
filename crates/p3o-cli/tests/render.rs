//! `p3o render` makes pictures of the episodes that `p3o evaluate` plays.

use crate::util::{Home, json, small};
use std::path::Path;
use tiny_skia::Pixmap;

/// A run of a world with short episodes.
fn trained(task: &str) -> Home {
    let home = Home::new();
    home.good(&small(task, &["--steps", "400", "--out", "run"]));
    home
}

/// Width, height and the delay of each frame in hundredths of a second.
fn decoded(path: &Path) -> (u16, u16, Vec<u16>) {
    let mut file = gif::DecodeOptions::new().read_info(std::fs::File::open(path).unwrap()).unwrap();
    let mut delays = Vec::new();
    while let Some(frame) = file.read_next_frame().unwrap() {
        delays.push(frame.delay);
    }
    (file.width(), file.height(), delays)
}

#[test]
fn an_animation_has_a_frame_per_step_and_rests_at_the_end() {
    let home = trained("SimpleSpread");
    let told = home.good(&["render", "run", "-o", "agent.gif", "--size", "320"]);
    // 25 steps and the start; 26 frames in ten seconds would stutter, so there are five in a second.
    assert!(told.starts_with("agent.gif: 26 frames in "), "{told}");
    let (width, height, delays) = decoded(&home.path("agent.gif"));
    assert!(width == 320 && height > 320, "{width} x {height}");
    assert_eq!(delays, [vec![20; 25], vec![150]].concat());

    home.good(&["render", "run", "-o", "fewer.gif", "--every", "10", "--episodes", "2", "--fps", "50"]);
    let (width, _, delays) = decoded(&home.path("fewer.gif"));
    // Steps 0, 10, 20 and 25, twice.
    assert_eq!((width, delays), (480, vec![2, 2, 2, 150, 2, 2, 2, 150]));
}

#[test]
fn the_sums_are_those_of_evaluate() {
    let home = trained("PointCircle");
    for more in [&[][..], &["--seed", "7"], &["--deterministic"]] {
        let told = home.good(&[&["render", "run", "-o", "agent.png"], more].concat());
        let found = json(&home.good(&[&["evaluate", "run", "--episodes", "1", "--json"], more].concat()));
        let [ret, cost] = [&found["return"], &found["costs"]["boundary"]].map(|f| f["mean"].as_f64().unwrap());
        assert!(told.ends_with(&format!("\n  return {ret:.2}  boundary {cost:.2}/5\n")), "{told} {ret} {cost}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let home = trained("PointGather");
    let made = |name: &str, seed: &str| {
        home.good(&["render", "run", "-o", name, "--seed", seed, "--every", "20"]);
        std::fs::read(home.path(name)).unwrap()
    };
    assert!(made("a.gif", "3") == made("b.gif", "3"));
    assert!(made("a.gif", "3") != made("b.gif", "4"));
    assert!(made("a.png", "3") == made("b.png", "3"));
}

#[test]
fn a_folder_takes_numbered_frames() {
    let home = trained("SimpleSpread");
    home.good(&["render", "run", "-o", "frames/", "--every", "12"]);
    home.good(&["render", "run", "-o", "whole.png"]);
    let mut names: Vec<_> = std::fs::read_dir(home.path("frames")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["0000.png", "0001.png", "0002.png", "0003.png"]);
    let open = |name: &str| Pixmap::load_png(home.path(name)).unwrap();
    let (first, last, whole) = (open("frames/0000.png"), open("frames/0003.png"), open("whole.png"));
    assert_eq!((first.width(), first.height()), (last.width(), last.height()));
    assert!(first != last);
    // The episode is shorter than a moving trail, so its last frame is the picture of the whole.
    assert!(last == whole);
}

#[test]
fn every_task_can_be_drawn() {
    for task in ["PointGoal", "Navigation", "AntCircle", "PointCircle", "PointGather", "SimpleSpread"] {
        let home = trained(task);
        home.good(&["render", "run", "-o", "agent.png", "--size", "320"]);
        let picture = Pixmap::load_png(home.path("agent.png")).unwrap();
        let agent = |p: &&tiny_skia::PremultipliedColorU8| (p.red(), p.green(), p.blue()) == (0, 114, 178);
        // The agent's sample in the legend alone has about 80.
        assert!(picture.pixels().iter().filter(agent).count() > 90, "{task}: there is no agent");
    }
}

#[test]
fn a_team_is_drawn_like_one_agent() {
    for algo in ["map3o", "map3o-dec"] {
        let home = Home::new();
        home.good(&small("SimpleSpread", &["--algo", algo, "--steps", "400", "--out", "run"]));
        let told = home.good(&["render", "run", "-o", "agents.gif"]);
        assert!(told.starts_with("agents.gif: 26 frames in "), "{told}");
        let found = json(&home.good(&["evaluate", "run", "--episodes", "1", "--json"]));
        let [ret, cost] = [&found["return"], &found["costs"]["collisions"]].map(|f| f["mean"].as_f64().unwrap());
        assert!(told.ends_with(&format!("\n  return {ret:.2}  collisions {cost:.2}/0.5\n")), "{told} {ret} {cost}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_in_one_line() {
    let home = trained("PointCircle");
    std::fs::create_dir(home.path("full")).unwrap();
    std::fs::write(home.path("full/cat.txt"), "meow").unwrap();
    let before = home.contents();
    let check = |code: i32, args: &[&str], parts: &[&str]| {
        let line = home.bad(code, &[&["render"], args].concat());
        parts.iter().for_each(|part| assert!(line.contains(part), "{args:?}: no {part:?} in {line}"));
    };
    check(2, &["run"], &["--output <FILE>"]);
    check(2, &["run", "-o", "agent.mp4"], &["agent.mp4", ".gif", ".png", "folder"]);
    check(2, &["run", "-o", "agent"], &["agent must end in .gif"]);
    check(2, &["run", "-o", "agent.png", "--episodes", "2"], &["one episode"]);
    check(2, &["run", "-o", "agent.gif", "--size", "100"], &["--size", "320"]);
    check(2, &["run", "-o", "agent.gif", "--every", "0"], &["--every"]);
    check(1, &["run", "-o", "none/agent.gif"], &["none/agent.gif", "there is no folder none"]);
    check(1, &["run", "-o", "full"], &["full", "not empty"]);
    check(1, &["nowhere", "-o", "agent.gif"], &["there is no run at nowhere"]);
    assert_eq!(home.contents(), before);
    std::fs::remove_dir_all(home.path("run/checkpoints")).unwrap();
    check(1, &["run", "-o", "agent.gif"], &["checkpoints/latest.safetensors"]);
}
