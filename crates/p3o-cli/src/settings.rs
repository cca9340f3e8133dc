//! `p3o settings`: every effective setting, its meaning, its range and where its value comes from.

use crate::Failure;
use crate::args::SettingsArgs;
use crate::screen::say;
use crate::train::parse_steps;
use p3o::config::{Resolved, Setting};
use p3o::{Method, Request};

/// `p3o settings`
pub fn settings(args: &SettingsArgs) -> Result<(), Failure> {
    if args.markdown {
        say!("{}", p3o::config::reference().trim_end());
        return Ok(());
    }
    let method = Method::named(args.algo.as_deref().unwrap_or("p3o"))?;
    let preset = args.preset.clone().unwrap_or_else(|| "quick".into());
    let resolved = match &args.task {
        Some(task) => {
            let (set, limits, seed) = (args.set.clone(), args.limit.clone(), args.seed);
            let steps = args.steps.as_deref().map(parse_steps).transpose()?;
            Request { preset, set, limits, seed, steps, ..Request::new(task, method) }.resolve()?
        }
        None if args.preset.is_some() => {
            return Err(Failure::Usage("a preset depends on the task: p3o settings TASK --preset NAME".into()));
        }
        None => Resolved::base(method, &args.set)?,
    };
    show(&resolved, args.task.is_some());
    Ok(())
}

fn show(resolved: &Resolved, of_task: bool) {
    let config = &resolved.config;
    if of_task {
        say!("{} by {}, preset {}\n", config.task, config.method(), config.preset);
        for (name, value) in &config.limits {
            say!("limits.{name} = {value}");
        }
        for (name, value) in &config.env {
            say!("env.{name} = {value}");
        }
    } else {
        say!("The base values for {}\n", config.method());
    }
    let mut last = "";
    for setting in config.settings() {
        let (key, Setting { section, field, value }) = (setting.key(), setting);
        if section != last {
            say!("{}[{section}]", if last.is_empty() { "" } else { "\n" });
            last = section;
        }
        let origin = resolved.origins.get(&key).map_or("base", String::as_str);
        say!("{} = {}    ({origin})", field.name, p3o::config::plain(&value));
        say!("    {} [{}]", field.about(), field.takes);
    }
}
