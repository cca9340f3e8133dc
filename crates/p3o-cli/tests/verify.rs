//! `p3o verify` computes the paper's claims and says which hold.

use crate::util::{Home, json, keys};

#[test]
fn every_claim_has_its_row_and_verdict() {
    let told = Home::new().good(&["verify"]);
    for claim in ["Lemma 1", "Proposition 1", "Theorem 2", "κ = ‖λ‖∞, which the paper includes", "Theorem 3"] {
        assert!(told.contains(claim), "no {claim:?} in {told}");
    }
    let count = |word: &str| told.lines().filter(|l| l.contains(&format!("  {word} "))).count();
    assert_eq!((count("holds"), count("finding"), count("fails")), (6, 2, 0), "{told}");
}

#[test]
fn machines_get_json_that_depends_on_the_seed_alone() {
    let home = Home::new();
    let first = home.good(&["verify", "--json", "--seed", "3"]);
    assert_eq!(first, home.good(&["verify", "--json", "--seed", "3"]));
    assert_ne!(first, home.good(&["verify", "--json", "--seed", "4"]));
    let found = json(&first);
    let checks = found.as_array().expect("a list of checks");
    assert_eq!(checks.len(), 8);
    for check in checks {
        assert_eq!(keys(check), ["claim", "computed", "verdict"]);
        assert!(["holds", "finding"].iter().any(|word| check["verdict"] == *word), "{check}");
    }
    assert_eq!(home.contents(), []);
}

#[test]
fn wrong_usage_is_refused() {
    let home = Home::new();
    assert!(home.bad(2, &["verify", "--seed", "many"]).contains("--seed"));
    assert!(home.bad(2, &["verify", "Theorem 2"]).contains("Theorem 2"));
}
