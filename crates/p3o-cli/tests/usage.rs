//! Wrong usage is refused in one line that says what was meant, and leaves nothing behind.

use crate::util::{Home, checkpoint, outcome, small};

/// Refused with exit code 2, a line that holds every part, and an empty folder.
fn check(args: &[&str], parts: &[&str]) {
    let home = Home::new();
    let line = home.bad(2, args);
    for part in parts {
        assert!(line.contains(part), "{args:?}: no {part:?} in {line}");
    }
    assert_eq!(home.contents(), [], "{args:?} left something behind");
}

/// Several processes of a program without MPI would each make the whole run.
#[test]
#[cfg(not(feature = "mpi"))]
fn a_launcher_of_several_processes_is_refused_without_mpi() {
    use crate::util::text;
    let home = Home::new();
    let of = |rank: &str, args: &[&str]| {
        let mut command = home.command(args);
        command.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "4").output().unwrap()
    };
    for args in [&["train", "PointGoal"][..], &["resume", "run"]] {
        let (first, second) = (of("0", args), of("1", args));
        let line = "p3o: the launcher started 4 processes, and this p3o has no MPI: build it with --features mpi\n";
        assert_eq!((first.status.code(), text(&first.stderr).as_str()), (Some(2), line));
        // One of them says so; a code of the others would have the launcher kill it before it can.
        assert_eq!((second.status.code(), text(&second.stderr).as_str()), (Some(0), ""));
    }
    let sweep = of("0", &["compare", "PointGoal"]);
    assert!(text(&sweep.stderr).contains("a sweep is not one run: give each a --shard K/N"));
    assert!(text(&of("0", &["list"]).stderr).contains("this command is for one"));
    // A launcher of one process is no concern, nor is one of shards.
    let mut alone = home.command(&["list"]);
    assert!(alone.env("OMPI_COMM_WORLD_RANK", "0").env("OMPI_COMM_WORLD_SIZE", "1").output().unwrap().status.success());
    let shard = of("1", &["compare", "PointGoal", "--shard", "2/4", "--steps", "x"]);
    assert!(text(&shard.stderr).contains("--steps takes"), "{}", text(&shard.stderr));
    assert!(home.bad(2, &["bench", "--ranks"]).contains("this p3o has none: build it with --features mpi"));
    assert!(home.contents().is_empty(), "nothing was written");
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    check(&["train", "PointGaol"], &["PointGaol", "did you mean `PointGoal`?"]);
    check(&["train", "pointgoal", "--out", "run"], &["did you mean `PointGoal`?"]);
    check(&["train", "Chess"], &["Chess", "PointGoal, Navigation"]);
    check(&["train", "PointGoal", "--algo", "pp0"], &["unknown algorithm `pp0`", "did you mean `ppo`?"]);
    check(&["train", "PointGoal", "--preset", "papr"], &["unknown preset `papr`", "did you mean `paper`?"]);
    check(&["train", "Navigation", "--algo", "cpo"], &["cpo can keep one limit only", "use p3o"]);
    check(&["train", "PointGoal", "--algo", "map3o"], &["PointGoal has one agent", "several agents are SimpleSpread"]);
    check(&["train", "PointGoal", "--set", "p3o.kapa=3"], &["`p3o.kapa`", "did you mean `p3o.kappa`?"]);
    check(&["train", "PointGoal", "--set", "env.levl=1"], &["levl", "did you mean `level`?"]);
    check(&["train", "PointGoal", "--set", "env.level=7"], &["level = 7", "one of 0, 1, 2"]);
    check(&["train", "PointGoal", "--set", "env.hide=velocit"], &["env.hide", "did you mean `velocity`?"]);
    check(&["train", "PointGoal", "--limt", "hazards=3"], &["--limt", "--limit"]);
    check(&["trian", "PointGoal"], &["trian", "train"]);
    check(&["train"], &["<TASK>"]);
    check(&["evaluate"], &["<RUN>"]);
}

#[test]
fn limits_that_cannot_be_are_refused() {
    check(&["train", "PointGoal", "--limit", "hazard=3"], &["unknown cost `hazard`", "did you mean `hazards`?"]);
    check(&["train", "PointGoal", "--limit", "pillars=3"], &["unknown cost `pillars`", "hazards"]);
    check(&["train", "PointGoal", "--set", "env.level=0", "--limit", "hazards=3"], &["has no costs", "hazards"]);
    check(&["train", "PointGoal", "--limit", "hazards"], &["NAME=NUMBER", "hazards"]);
    check(&["train", "PointGoal", "--limit", "hazards=few"], &["hazards", "few"]);
    for value in ["-1", "nan", "NaN", "inf", "-inf", "1e999"] {
        check(&["train", "PointGoal", "--limit", &format!("hazards={value}")], &["limits.hazards", "number"]);
    }
}

#[test]
fn limits_that_do_nothing_or_contradict_each_other_are_refused() {
    for command in ["train", "compare", "settings"] {
        let of = |more: &[&'static str]| [&[command, "PointGoal"][..], more].concat();
        check(&of(&["--limit", "typo=none"]), &["unknown cost `typo`", "hazards"]);
        check(&of(&["--set", "limits.typo=none"]), &["unknown cost `typo`", "hazards"]);
        check(&of(&["--set", "env.level=0", "--limit", "hazards=none"]), &["has no costs", "hazards"]);
        for (one, other) in [("none", "none"), ("3", "4"), ("3", "none")] {
            let limits = [format!("hazards={one}"), format!(" hazards = {other}")];
            let twice = [command, "PointGoal", "--limit", &limits[0], "--limit", &limits[1]];
            check(&twice, &["the limit of `hazards` is given twice"]);
        }
        check(&of(&["--limit", "hazards=3", "--set", "limits.hazards=4"]), &["the limit of `hazards` is given twice"]);
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for command in ["train", "compare", "settings"] {
        for (settings, parts) in [
            (&["net.bptt=10"][..], &["net.bptt has no effect on feed-forward networks", "net.gru"][..]),
            (&["net.gru=16", "net.bptt=10", "net.gru=0"], &["net.bptt has no effect"]),
            (&["policy.minibatch=10001"], &["policy.minibatch (10001) is more than the 10000 rows"]),
            (&["critic.minibatch=500", "rollout.batch=400"], &["critic.minibatch (500) is more than the 400 rows"]),
            (
                &["p3o.kappa=50", "p3o.kappa_growth=1.1"],
                &["p3o.kappa (50) cannot grow to p3o.kappa_max (40), which is below it"],
            ),
        ] {
            let settings = settings.iter().flat_map(|s| ["--set", s]);
            let args: Vec<&str> = [command, "PointGoal"].into_iter().chain(settings).collect();
            check(&args, parts);
        }
    }
    let home = Home::new();
    for settings in [
        &["net.gru=16", "net.bptt=10"][..],
        &["policy.minibatch=20000", "critic.minibatch=20000"],
        // A fixed kappa never meets its end.
        &["p3o.kappa=50"],
        &["p3o.kappa=40", "p3o.kappa_growth=1.1"],
        // The preset's mini-batches of 2,000 may be the whole of a smaller batch.
        &["rollout.batch=400"],
    ] {
        let settings = settings.iter().flat_map(|s| ["--set", s]);
        home.good(
            &["settings", "AntCircle", "--set", "rollout.batch=20000"].into_iter().chain(settings).collect::<Vec<_>>(),
        );
    }
}

#[test]
fn odd_values_are_refused_in_one_line() {
    for value in ["[[]]", "[[64]]", "[64", "64]", "[,]", "[64,,64]", "", "\"64\"", "[NaN]", "٣", "💥", "6\n4", "[-1]"]
    {
        let setting = format!("net.hidden={value}");
        check(&["train", "PointGoal", "--set", &setting], &["net.hidden"]);
    }
    for value in ["NaN", "", "1e400", "ü", "[]", "1\n2", "\u{7}", "0x10", "true"] {
        let setting = format!("p3o.kappa={value}");
        check(&["train", "PointGoal", "--set", &setting], &["p3o.kappa"]);
    }
    for setting in ["", "=", ".", "=1", ".=1", "net.=1", "env.=1", "limits.=1", "net=1", "a\nb=1", "\"=1"] {
        check(&["train", "PointGoal", "--set", setting], &[]);
    }
    check(&["train", "PointGoal", "--set", "net.activation=\"tanh"], &["net.activation"]);
    // A zero has no sign.
    let told = Home::new().good(&["settings", "PointGoal", "--set", "p3o.kappa=-0.0"]);
    assert!(told.contains("kappa = 0    (set)"), "{told}");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for value in ["0", "-5", "1.5", "nan", "inf", "1e400", "many", ""] {
        check(&["train", "PointGoal", &format!("--steps={value}")], &["--steps", "whole number"]);
    }
    check(&["train", "PointGoal", "--steps", "-5"], &["-5"]);
    for value in ["-1", "1.5", "abc", "99999999999999999999999"] {
        check(&["train", "PointGoal", &format!("--seed={value}")], &["--seed", value]);
    }
    check(&["train", "PointGoal", "--seed", "18446744073709551615"], &["seed", "18446744073709551615"]);
    for value in ["0", "-1", "2000"] {
        check(&["train", "PointGoal", &format!("--threads={value}")], &["--threads", value]);
    }
    for (setting, part) in [
        ("p3o.kappa=-1", "p3o.kappa"),
        ("p3o.kappa=nan", "finite"),
        ("rollout.gamma=inf", "finite"),
        ("rollout.envs=-2", "whole number"),
        ("net.hidden=[0]", "net.hidden"),
        ("run.checkpoint_every=0", "run.checkpoint_every"),
        ("p3o.kappa", "key=value"),
        ("env.goal_bonus=nan", "finite"),
        ("env.goal_bonus=-1", "goal_bonus"),
    ] {
        check(&["train", "PointGoal", "--out", "run", "--set", setting], &[part]);
    }
    check(
        &small("PointGoal", &["--set", "rollout.batch=402"]),
        &["rollout.batch (402)", "multiple of rollout.envs (4)"],
    );
    check(&["evaluate", "run", "--episodes=0"], &["--episodes"]);
    for value in ["0", "-1", "nan", "inf"] {
        check(&["bench", &format!("--seconds={value}")], &["--seconds", "positive"]);
    }
}

#[test]
fn a_configuration_file_with_a_mistake_is_refused_with_its_line() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    let config = std::fs::read_to_string(home.path("run").join("config.toml")).unwrap();
    std::fs::write(home.path("typo.toml"), config.replacen("kappa = ", "kapa = ", 1)).unwrap();
    std::fs::write(home.path("wrong.toml"), config.replacen("kappa = 20.0", "kappa = nan", 1)).unwrap();
    let before = home.contents();
    let at = 1 + config[..config.find("kappa = ").unwrap()].matches('\n').count();
    let line = home.bad(2, &["train", "--config", "typo.toml", "--out", "other"]);
    assert!(line.contains(&format!("typo.toml: line {at}: ")) && line.contains("did you mean `p3o.kappa`?"), "{line}");
    assert!(home.bad(2, &["train", "--config", "wrong.toml", "--out", "other"]).contains("p3o.kappa"));
    assert!(home.bad(1, &["train", "--config", "none.toml", "--out", "other"]).contains("cannot read none.toml"));
    assert!(home.bad(2, &["train", "PointGoal", "--config", "typo.toml"]).contains("cannot be used with"));
    assert_eq!(home.contents(), before);
}

/// A shell's `<(command)` is a pipe, and a device may have no end.
#[cfg(target_os = "linux")]
#[test]
fn a_configuration_may_come_from_a_pipe_and_must_end() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    let p3o = env!("CARGO_BIN_EXE_p3o");
    let script = format!("exec '{p3o}' train --config <(cat run/config.toml) --out piped");
    let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(home.path("")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(outcome(&home.path("piped")) == outcome(&home.path("run")));
    for (path, reason) in [("/dev/zero", "it is longer than 1048576 bytes"), ("run", "it is a folder, not a file")] {
        let line = home.bad(1, &["train", "--config", path, "--out", "other"]);
        assert_eq!(line, format!("p3o: cannot read {path}: {reason}\n"));
    }
}

/// Nobody writes into these pipes: whoever opened one would wait for ever.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_ends_no_command_in_waiting() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "runs/one"]));
    let files = ["checkpoints/latest.safetensors", "config.toml", "progress.csv", ".lock", "summary.json"];
    for name in files {
        let file = home.path("runs/one").join(name);
        let before = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        home.good(&["list"]);
        let read = [&["evaluate", "runs/one", "--episodes", "1"][..], &["plot", "runs/one", "-o", "a.svg"]];
        let write = &["resume", "runs/one", "--steps", "800"][..];
        let commands = match name {
            "summary.json" => &[][..],
            ".lock" => &[write],
            // A run goes on from the checkpoint before this one.
            "checkpoints/latest.safetensors" => &read,
            _ => &[read[0], read[1], write],
        };
        for command in commands {
            let line = home.bad(1, command);
            let said = line.contains("not a regular file") || line.contains("is not a run");
            assert!(said && line.contains(name), "{command:?}: {line}");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, before).unwrap();
    }
    home.good(&["resume", "runs/one", "--steps", "800"]);
}

#[test]
fn an_existing_folder_is_not_touched() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    std::fs::create_dir(home.path("photos")).unwrap();
    std::fs::write(home.path("photos/cat.txt"), "meow").unwrap();
    std::fs::write(home.path("file"), "text").unwrap();
    let before = home.contents();
    let line = home.bad(1, &small("PointGoal", &["--steps", "400", "--out", "run"]));
    assert!(line.contains("run exists already") && line.contains("p3o resume run"), "{line}");
    for out in ["photos", "file", "file/inside"] {
        let line = home.bad(1, &small("PointGoal", &["--steps", "400", "--out", out]));
        assert!(line.contains(out) && !line.contains("resume"), "{line}");
    }
    assert_eq!(home.contents(), before);
}

#[test]
fn a_file_in_place_of_a_runs_folder_is_called_one() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    std::fs::write(home.path("file"), "text").unwrap();
    assert_eq!(home.bad(1, &["resume", "file"]), "p3o: file is a file, not a run's folder\n");
    let line = home.bad(1, &["resume", "run/checkpoints/latest.safetensors"]);
    assert!(line.ends_with(" is a file, not a run's folder; go on with p3o resume run\n"), "{line}");
}

#[test]
fn folders_that_are_no_runs_are_refused() {
    let home = Home::new();
    std::fs::create_dir(home.path("photos")).unwrap();
    std::fs::create_dir(home.path("foreign")).unwrap();
    std::fs::write(home.path("foreign/config.toml"), "[server]\nport = 80\n").unwrap();
    let before = home.contents();
    for command in ["resume", "evaluate"] {
        assert!(home.bad(1, &[command, "nowhere"]).contains("there is no run at nowhere"));
        assert!(home.bad(1, &[command, "photos"]).contains("photos is not a run"));
        assert!(home.bad(1, &[command, "foreign"]).contains("foreign/config.toml: line "));
    }
    assert_eq!(home.contents(), before);
}

#[test]
fn damaged_runs_are_refused() {
    let home = Home::new();
    home.good(&small("PointGoal", &["--steps", "400", "--out", "run"]));
    let run = home.path("run");
    let good = std::fs::read(checkpoint(&run)).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 8;
    for (bytes, part) in [(&good[..good.len() - 9], "damaged"), (&flipped, "damaged"), (b"", "damaged")] {
        std::fs::write(checkpoint(&run), bytes).unwrap();
        let line = home.bad(1, &["evaluate", "run", "--episodes", "1"]);
        assert!(line.contains(part) && line.contains("run/checkpoints/latest.safetensors"), "{line}");
        assert!(line.contains("p3o resume run goes on from the checkpoint before it"), "{line}");
        assert_eq!(std::fs::read(checkpoint(&run)).unwrap(), bytes);
    }
    let told = home.good(&["resume", "run"]);
    assert!(told.contains("damaged") && told.contains("going on from the checkpoint before it"), "{told}");
    assert_eq!(std::fs::read(checkpoint(&run)).unwrap(), good);
    // Without one before it there is nothing to go on from.
    std::fs::remove_file(run.join("checkpoints/previous.safetensors")).unwrap();
    std::fs::write(checkpoint(&run), &flipped).unwrap();
    let line = home.bad(1, &["resume", "run", "--steps", "800"]);
    assert!(line.contains("damaged") && line.contains("run/checkpoints/latest.safetensors"), "{line}");
    std::fs::remove_file(checkpoint(&run)).unwrap();
    assert!(home.bad(1, &["evaluate", "run"]).contains("there is no such file"));
    assert!(home.bad(1, &["resume", "run"]).contains("there is no such file"));
    std::fs::write(checkpoint(&run), &good).unwrap();

    let table = std::fs::read_to_string(run.join("progress.csv")).unwrap();
    for (text, part) in [
        (table.replacen("return", "fortune", 1), "line 2 was altered"),
        (table.replacen("\n1,", "\none,", 1), "one"),
        (table.replacen("\n1,", "\n3,", 1), "line 2 was altered"),
        (String::new(), "header"),
    ] {
        std::fs::write(run.join("progress.csv"), text).unwrap();
        let line = home.bad(1, &["resume", "run", "--steps", "800"]);
        assert!(line.contains("run/progress.csv") && line.contains(part), "{line}");
    }
    std::fs::write(run.join("progress.csv"), table).unwrap();
    home.good(&["resume", "run", "--steps", "800"]);
}
