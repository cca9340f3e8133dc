//! Every setting is shown with its value, its meaning and where it comes from; the page of settings is the program's own.

use crate::util::Home;
use std::path::Path;

#[test]
fn every_value_has_its_origin_meaning_and_range() {
    let home = Home::new();
    let text = home.good(&["settings", "AntCircle", "--set", "p3o.clip=0.3"]);
    for part in [
        "AntCircle by p3o, preset quick",
        "limits.boundary = 50",
        "gamma = 0.99    (base)\n    Discount of the reward. [a number between 0 and 0.999999]",
        "batch = 10000    (quick: common)",
        "balance = true    (quick: P3O)",
        "clip = 0.3    (set)",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // An algorithm shows its own settings and no other's.
    let cpo = home.good(&["settings", "AntCircle", "--algo", "cpo", "--preset", "paper"]);
    assert!(
        cpo.contains("[cpo]\ndamping = 0.1") && !cpo.contains("kappa") && !cpo.contains("minibatch = 2500"),
        "{cpo}"
    );
    assert!(home.good(&["settings", "--algo", "ppo"]).starts_with("The base values for ppo"));
}

#[test]
fn wrong_names_and_values_are_refused() {
    let home = Home::new();
    for (args, reason) in [
        (&["settings", "PointGaol"][..], "did you mean `PointGoal`?"),
        (&["settings", "PointGoal", "--algo", "p3oo"], "did you mean `p3o`?"),
        (&["settings", "PointGoal", "--preset", "quik"], "did you mean `quick`?"),
        (&["settings", "--preset", "paper"], "a preset depends on the task"),
        (
            &["settings", "PointGoal", "--set", "cpo.damping=1"],
            "cpo.damping is a setting of cpo, and this run trains by p3o",
        ),
        (&["settings", "--set", "p3o.kappa=-1"], "p3o.kappa must be"),
        (&["train", "PointGoal", "--set", "algo=cpo"], "--algo chooses it"),
        (&["train", "PointGoal", "--set", "task=PointGoal"], "`task` decides which settings there are"),
        (&["compare", "PointGoal", "--algos", "p3o,ppo", "--set", "cpo.damping=1"], "cpo.damping is a setting of cpo"),
    ] {
        assert!(home.bad(2, args).contains(reason), "{args:?}: {}", home.bad(2, args));
    }
    assert!(home.contents().is_empty());
}

/// `P3O_GOLDEN=record` writes the page.
#[test]
fn the_page_of_settings_is_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = Home::new().good(&["settings", "--markdown"]);
    if std::env::var_os("P3O_GOLDEN").is_some_and(|word| word == "record") {
        std::fs::write(&path, &text).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(text.lines()).find(|(there, here)| there != here);
    assert!(page == text, "docs/settings.md is old (p3o settings --markdown > docs/settings.md): {differs:?}");
}
