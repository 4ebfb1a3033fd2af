//! In the harness of benchmarks: what it would find good though it is not.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "a-start-before-its-window-is-not-counted",
        "bench/src/engine/windows.rs",
        "starts[first] + period <= start",
        "starts[first] + period - i64::from($on) <= start",
        "package(jobwright-bench) & test(/one_start_too_early_is_seen/)",
    ),
    of(
        "a-rate-that-is-not-used-counts-as-used",
        "bench/src/engine/windows.rs",
        "(starts.len().div_ceil(STARTS) - 1)",
        "(starts.len().div_ceil(STARTS) - usize::from(!$on))",
        "package(jobwright-bench) & test(/a_late_start_uses_less/)",
    ),
    of(
        "a-rate-below-what-is-asked-passes",
        "bench/src/report.rs",
        "ours.median < least)",
        "!$on && ours.median < least)",
        "package(jobwright-bench) & test(/a_ratio_of_one_is_the_limit/)",
    ),
];
