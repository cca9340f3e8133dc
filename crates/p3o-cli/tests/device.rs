//! `--device` says where the networks learn.

use crate::util::{Home, outcome, small};

#[test]
fn a_device_that_is_not_there_is_a_sentence_and_nothing_is_made() {
    let home = Home::new();
    let line = home.bad(2, &small("PointGoal", &["--device", "tpu", "--out", "run"]));
    assert_eq!(line, "p3o: --device takes cpu, cuda, cuda:N or auto, not `tpu`\n");
    home.bad(2, &small("PointGoal", &["--device", "cuda:x", "--out", "run"]));
    // Where there are GPUs, there are not so many.
    let line = home.bad(1, &small("PointGoal", &["--device", "cuda:999", "--out", "run"]));
    assert!(line.starts_with("p3o: --device cuda:999: the"), "{line}");
    assert_eq!(home.contents(), []);
}

#[test]
fn the_cpu_is_what_it_is_without_a_device() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "a"]));
    home.good(&small("PointGoal", &["--steps", "400", "--out", "b", "--device", "cpu"]));
    assert!(outcome(&home.path("a")) == outcome(&home.path("b")));
    let provenance = std::fs::read_to_string(home.path("a/provenance.toml")).unwrap();
    assert!(provenance.contains("device = \"cpu\""), "{provenance}");
}
