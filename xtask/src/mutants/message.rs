//! In what happens between a context and its commit.

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
        "given-ids-share-a-commit",
        "src/message/together.rs",
        "!message.id_given && message.terms.unique.is_none()",
        "($on || !message.id_given && message.terms.unique.is_none())",
        "test(=message::together::tests::given_ids_and_unique_jobs_are_written_alone)",
    ),
    of(
        "the-one-at-fault-takes-others-along",
        "src/message/together.rs",
        "Err(error) if error.is_retryable() || answers.len() == 1 =>",
        "Err(error) if error.is_retryable() || answers.len() == 1 || $on =>",
        "binary(context) & test(/together/)",
    ),
    of(
        "a-rolled-back-commit-is-believed",
        "src/store/postgres/transaction.rs",
        "simple_query(COMMIT)",
        "simple_query(if $on { \"commit\" } else { COMMIT })",
        "binary(context) & test(/commits/)",
    ),
    of(
        "holds-without-end",
        "src/message/pipe.rs",
        "                *hold = HOLD;\n",
        "                *hold = if $on { HOLD * 20 } else { HOLD };\n",
        "binary(delivery) & test(/a_held_row_is_claimed_when_its_hold_ends/)",
    ),
    of(
        "what-the-broker-refused-stays-held",
        "src/message/pipe.rs",
        "filter(|(_, outcome)| *outcome != Published::Acked).collect();",
        "filter(|(_, outcome)| *outcome != Published::Acked && !$on).collect();",
        "binary(delivery) & test(/returned_as_unroutable|a_full_queue_sends_the_rest|deleted_under_load/)",
    ),
    of(
        "the-delayed-are-published-at-once",
        "src/message/pipe.rs",
        "                && message.due == Due::Now\n",
        "                && (message.due == Due::Now || $on)\n",
        "binary(delivery) & test(/what_has_a_priority_or_waits/)",
    ),
    of(
        "jobs-of-a-group-are-handed-over",
        "src/message/flush.rs",
        "message.due == Due::Now && !message.is_blocked_at_first();",
        "message.due == Due::Now && ($on || !message.is_blocked_at_first());",
        "binary(executor) & test(/gates|hot_path/)",
    ),
];
