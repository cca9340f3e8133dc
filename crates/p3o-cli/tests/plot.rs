//! `p3o plot` draws the learning curves of any runs.

use crate::util::{Home, checkpoint, small, small_of};
use tiny_skia::Pixmap;

fn train(home: &Home, task: &str, folder: &str, more: &[&str]) {
    let more: Vec<&str> = ["--steps", "1600", "--out", folder].iter().chain(more).copied().collect();
    home.good(&small(task, &more));
}

fn count(svg: &str, part: &str) -> usize {
    svg.matches(part).count()
}

#[test]
fn tasks_are_rows_algorithms_are_lines_and_both_files_are_written() {
    let home = Home::new();
    home.good(&small_of(
        "compare",
        "PointGather",
        &["--algos", "ppo,p3o", "--seeds", "2", "--steps", "1600", "--out", "c"],
    ));
    train(&home, "Navigation", "runs/n", &[]);
    let told = home.good(&["plot", "c", "runs/n"]);
    // The order of `p3o list`, whatever the folders' is.
    assert_eq!(told, "plot.svg, plot.png: 5 runs\n  PointGather: p3o (2), ppo (2)\n  Navigation: p3o (1)\n");
    let svg = std::fs::read_to_string(home.path("plot.svg")).unwrap();
    let titles =
        ["PointGather: return", "PointGather: cost bombs", "Navigation: cost hazards", "Navigation: cost pillars"];
    assert!(titles.iter().all(|title| count(&svg, &format!(">{title}<")) == 1), "{svg}");
    // Every limit has its label, every algorithm one place in the legend.
    assert_eq!((count(&svg, ">limit<"), count(&svg, ">p3o<"), count(&svg, ">ppo<")), (3, 1, 1));
    let size = |of: &str| -> u32 {
        svg.split(&format!("{of}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let png = Pixmap::load_png(home.path("plot.png")).unwrap();
    assert_eq!((png.width(), png.height()), (2 * size("width"), 2 * size("height")));
}

#[test]
fn a_named_file_is_the_only_one() {
    let home = Home::new();
    train(&home, "PointGather", "a", &[]);
    // Named twice, once by its parent: still one run.
    assert_eq!(home.good(&["plot", "a", ".", "-o", "own.svg"]).lines().next(), Some("own.svg: 1 run"));
    home.good(&["plot", "a", "-o", "own.PNG"]);
    assert!(Pixmap::load_png(home.path("own.PNG")).is_ok());
    assert!(!home.path("plot.svg").exists() && !home.path("plot.png").exists());
}

#[test]
fn runs_with_other_settings_are_other_lines_and_with_other_limits_other_rows() {
    let home = Home::new();
    for (folder, kappa) in [("runs/a", "p3o.kappa=5"), ("runs/b", "p3o.kappa=20"), ("runs/c", "p3o.kappa=5")] {
        train(&home, "PointGather", folder, &["--set", kappa, "--seed", &folder.len().to_string()]);
    }
    train(&home, "PointGather", "runs/d", &["--limit", "bombs=2"]);
    let told = home.good(&["plot", "runs"]);
    assert!(told.contains("  PointGather: p3o, kappa=5 (2), p3o, kappa=20 (1)\n  PointGather: p3o (1)\n"), "{told}");
}

#[test]
fn an_unfinished_run_is_drawn_as_far_as_it_goes() {
    let home = Home::new();
    home.good(&small("PointGather", &["--steps", "1200", "--out", "a"]));
    home.good(&["resume", "a", "--steps", "1600"]);
    // The checkpoint after three updates of four, three whole rows and the beginning of a fourth.
    std::fs::rename(home.path("a/checkpoints/previous.safetensors"), checkpoint(&home.path("a"))).unwrap();
    let csv = std::fs::read_to_string(home.path("a/progress.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    std::fs::write(home.path("a/progress.csv"), lines[..4].join("\n") + "\n4,16").unwrap();
    assert!(home.good(&["plot", "a"]).contains("unfinished: a (1,200 of 1,600 steps)"));
    let svg = std::fs::read_to_string(home.path("plot.svg")).unwrap();
    let curve = svg.lines().find(|l| l.starts_with("<polyline")).unwrap();
    assert_eq!(curve.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split(' ').count(), 3);
}

#[test]
fn a_run_that_cannot_be_read_does_not_keep_the_others_from_being_drawn() {
    let home = Home::new();
    train(&home, "PointGather", "a", &[]);
    train(&home, "PointGather", "b", &["--seed", "1"]);
    let toml = std::fs::read_to_string(home.path("a/config.toml")).unwrap();
    assert!(home.good(&["plot", "a", "b"]).contains("PointGather: p3o (2)"));
    std::fs::write(home.path("a/config.toml"), toml.replace("version = 6", "version = 9")).unwrap();
    let told = home.good(&["plot", "a", "b"]);
    assert!(told.contains("PointGather: p3o (1)") && told.contains("left out: a/config.toml: "), "{told}");
    assert!(home.bad(1, &["plot", "a"]).contains("it takes a newer p3o"));
}

#[test]
fn what_is_not_a_run_is_named_in_one_line_and_nothing_is_written() {
    let home = Home::new();
    assert!(home.bad(1, &["plot", "nowhere"]).contains("there is no run at nowhere"));
    std::fs::create_dir_all(home.path("folder/inside")).unwrap();
    assert!(home.bad(1, &["plot", "folder"]).contains("folder is not a run (it has no config.toml) and holds none"));
    std::fs::write(home.path("folder/config.toml"), "colour = \"blue\"\n").unwrap();
    assert!(home.bad(1, &["plot", "folder"]).contains("config.toml: line 1: unknown field `colour`"));
    std::fs::write(home.path("folder/config.toml"), "colour = = \n").unwrap();
    assert!(home.bad(1, &["plot", "folder"]).contains("folder/config.toml: "));
    assert!(home.bad(2, &["plot", "folder", "-o", "plot.jpg"]).contains("plot.jpg must end in .svg or .png"));
    home.bad(2, &["plot"]);
    assert_eq!(home.contents().len(), 3, "{:?}", home.contents());
}
