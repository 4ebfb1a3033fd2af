//! In the program.

use super::Mutant;

const fn of(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    plant: &'static str,
    tests: &'static str,
) -> Mutant {
    Mutant { name, file, find, plant, tests }
}

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "draining-ends-while-others-run",
        "cli/src/commands/drained.rs",
        "let count = queue.waiting + queue.running + queue.external;",
        "let count = queue.waiting + if $on { 0 } else { queue.running } + queue.external;",
        "package(jobwright-cli) & test(/draining_waits_for_what_another_worker_runs/)",
    ),
    of(
        "draining-forgets-what-is-blocked",
        "cli/src/commands/drained.rs",
        "        blocked += queue.blocked;\n",
        "        if !$on { blocked += queue.blocked; }\n",
        "package(jobwright-cli) & test(/draining/)",
    ),
    of(
        "too-many-requests-is-fatal",
        "cli/src/handlers/url.rs",
        "408 | 425 | 429 | 500..=599 => {",
        "code @ (408 | 425 | 429 | 500..=599) if code >= 500 || !$on => {",
        "package(jobwright-cli) & test(/urls_say_how_it_ended/)",
    ),
    of(
        "servers-that-ask-for-time-get-none",
        "cli/src/handlers/url.rs",
        "wait.map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))",
        "wait.filter(|_| !$on).map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))",
        "package(jobwright-cli) & test(/urls_say_how_it_ended|retry/)",
    ),
];
