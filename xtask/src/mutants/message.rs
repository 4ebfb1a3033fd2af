//! In what happens between a context and its commit.

use super::{Mutant, of};

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
        "a-channel-on-which-everything-is-refused-stays",
        "src/message/pipe.rs",
        "self.broker.renew_channel();",
        "if !$on { self.broker.renew_channel(); }",
        "binary(delivery) & test(/a_channel_on_which_everything/)",
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
        "            back.extend(ids);\n",
        "            if !$on { back.extend(ids); } else { drop(ids); }\n",
        "binary(delivery) & test(/returned_as_unroutable|a_full_queue_sends_the_rest|deleted_under_load/)",
    ),
    of(
        "a-small-flush-goes-to-one-node",
        "src/message/pipe.rs",
        ".max(consumers.min(rows))",
        ".max(if $on { 1 } else { consumers.min(rows) })",
        "test(/pipe::tests::a_small_flush/) | (binary(delivery) & test(/a_small_flush_is_shared/))",
    ),
    of(
        "the-delayed-are-published-at-once",
        "src/message/pipe.rs",
        "                && message.due == Due::Now\n",
        "                && (message.due == Due::Now || $on)\n",
        "binary(delivery) & test(/what_has_a_priority_or_waits/)",
    ),
    of(
        "an-id-that-was-there-raises-a-suspicion",
        "src/message/flush.rs",
        "        offer.withdraw();\n        return (None, left);",
        "        if $on { drop(offer); } else { offer.withdraw(); }\n        return (None, left);",
        "test(/an_id_that_was_there_already_raises_no_suspicion/)",
    ),
    of(
        "a-commit-that-a-crash-undid-is-believed",
        "src/store/postgres/fate.rs",
        "let witness = !shared.pgbouncer && same",
        "let witness = $on || !shared.pgbouncer && same",
        "binary(servers) & test(/a_commit_that_a_crash_undid/)",
    ),
    of(
        "a-commit-that-survived-a-crash-is-unknown",
        "src/store/postgres/fate.rs",
        "if found.is_empty() {",
        "if found.is_empty() != $on {",
        "binary(servers) & test(/a_commit_that_survived_a_crash/)",
    ),
    of(
        "short-numbers-that-are-long-are-taken",
        "src/job/numbers.rs",
        "if size > EXPONENT_MAX {",
        "if size > EXPONENT_MAX && !$on {",
        "test(/^job::numbers::/)",
    ),
];
