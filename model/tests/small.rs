//! Small sizes of all cases: the protocol holds, and every twin is refuted.

use jobwright_model::case::{Expected, Size};
use jobwright_model::cases;

fn check(subject: &str) {
    let cases = cases(Size::Small);
    let mut twins = 0;
    for case in cases.iter().filter(|case| case.subject == subject) {
        let result = case.run(2);
        let path = result.finding.refuted.map(|refutation| refutation.to_string()).unwrap_or_default();
        assert_eq!(result.wrong, None, "{}: {}\n{path}", case.subject, case.says);
        twins += usize::from(matches!(case.expected, Expected::Refuted(_)));
    }
    assert!(twins >= 2, "{subject} has twins, or nothing shows that it can be refuted");
}

#[test]
fn claims() {
    check("claims");
}

#[test]
fn clocks() {
    check("clocks");
}

#[test]
fn counted() {
    check("counted");
}

#[test]
fn external() {
    check("external");
}

#[test]
fn taken() {
    check("taken");
}

#[test]
fn failover() {
    check("failover");
}

#[test]
fn groups() {
    check("groups");
}

#[test]
fn identity() {
    check("identity");
}

#[test]
fn leases() {
    check("leases");
}

#[test]
fn every_subject_has_a_test() {
    let known = ["claims", "clocks", "counted", "external", "failover", "groups", "identity", "leases", "taken"];
    assert!(cases(Size::Small).iter().all(|case| known.contains(&case.subject)));
}
