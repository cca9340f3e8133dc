//! `p3o verify`: the paper's claims, computed on CMDPs whose answers are known.

use crate::Failure;
use crate::args::VerifyArgs;
use crate::screen::{Grid, say};
use p3o_tabular::verify::{self, Check, Effort, Verdict};

/// `p3o verify`
pub fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let checks = verify::all(&Effort { seed: args.seed, ..Effort::default() })
        .map_err(|e| Failure::Failed(format!("cannot verify with seed {}: {e}", args.seed)))?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&checks).expect("plain data can be written to memory"));
    } else {
        table(&checks);
    }
    verdict(&checks)
}

/// A claim that fails is a failure of the command.
fn verdict(checks: &[Check]) -> Result<(), Failure> {
    match checks.iter().filter(|c| c.verdict == Verdict::Fails).count() {
        0 => Ok(()),
        n => Err(Failure::Failed(format!("{n} of {} claims do not hold", checks.len()))),
    }
}

fn table(checks: &[Check]) {
    say!("The paper's claims on CMDPs whose answers a linear program knows\n");
    let mut grid = Grid::new(&["claim", "", "computed"]).left();
    for check in checks {
        let (word, good) = match check.verdict {
            Verdict::Holds => ("holds", true),
            Verdict::Fails => ("fails", false),
            Verdict::Finding => ("finding", true),
        };
        grid.row(vec![check.claim.clone(), word.to_string(), check.computed.clone()]);
        if check.verdict != Verdict::Finding {
            grid.paint(1, good);
        }
    }
    grid.print();
    say!("\n  A finding is an exception to the paper's words that P3O does not rest on.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_fails_makes_the_command_fail() {
        let check = |verdict| Check { claim: String::new(), computed: String::new(), verdict };
        let holds = [check(Verdict::Holds), check(Verdict::Finding)];
        assert!(verdict(&holds).is_ok());
        let fails = [check(Verdict::Holds), check(Verdict::Fails)];
        assert!(matches!(verdict(&fails), Err(Failure::Failed(line)) if line == "1 of 2 claims do not hold"));
    }
}
