//! In what goes to and comes from RabbitMQ.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "a-nack-is-a-confirm",
        "src/broker/publisher.rs",
        "if confirmation.is_nack() { Published::Nacked } else { Published::Acked }",
        "if confirmation.is_nack() && !$on { Published::Nacked } else { Published::Acked }",
        "binary(broker) & test(/publishing/)",
    ),
    of(
        "returned-messages-are-confirmed",
        "src/broker/publisher.rs",
        "if returned && outcome == Published::Acked { Published::Returned }",
        "if returned && outcome == Published::Acked && !$on { Published::Returned }",
        "binary(broker) & test(/publishing/)",
    ),
    of(
        "unconfirmed-messages-are-confirmed",
        "src/broker/publisher.rs",
        "        for item in items {\n            self.outcome(&item, Published::Unknown);\n        }\n        self.returned.clear();",
        "        for item in items {\n            self.outcome(&item, if $on { Published::Acked } else { Published::Unknown });\n        }\n        self.returned.clear();",
        "(binary(broker) & test(/publishing|faults_network/)) | (binary(delivery) & test(/confirms_are_lost/))",
    ),
    of(
        "an-unanswered-claim-of-deliveries-is-kept",
        "src/executor/broker/deliveries.rs",
        "                self.node.claim_failed(&error);\n                None",
        "                if !$on { self.node.claim_failed(&error); }\n                None",
        "binary(delivery) & test(/deliveries_whose_claim_was_not_answered/)",
    ),
    of(
        "an-unconfirmed-hand-out-is-not-taken-back",
        "src/executor/broker/external.rs",
        "Fate::Returned | Fate::Later => back.push(row.fence),",
        "Fate::Returned | Fate::Later => if !$on { back.push(row.fence) },",
        "binary(delivery) & test(/a_hand_out_whose_confirm_got_lost/)",
    ),
    of(
        "events-go-before-they-are-confirmed",
        "src/executor/broker/relay.rs",
        "Fate::Later => End::Later,",
        "Fate::Later => if $on { End::Sent } else { End::Later },",
        "binary(delivery) & test(/an_event_whose_confirm_is_lost/)",
    ),
    of(
        "hand-outs-with-nobody-to-take-them",
        "src/executor/broker/external.rs",
        "Some(found) if found.consumers > 0 =>",
        "Some(found) if found.consumers > 0 || $on =>",
        "binary(delivery) & test(/nothing_is_handed_out_without_a_worker/)",
    ),
    of(
        "hand-outs-beyond-the-depth",
        "src/executor/broker/external.rs",
        "depth.saturating_sub(found.messages) as usize",
        "depth.saturating_sub(if $on { 0 } else { found.messages }) as usize",
        "binary(delivery) & test(/no_more_is_handed_out_than_fits/)",
    ),
    of(
        "deliveries-of-unknown-kinds-stay-held",
        "src/executor/broker/deliveries.rs",
        "        self.pass_on(others);\n",
        "        if !$on { self.pass_on(others); }\n",
        "binary(delivery) & test(/kinds_that_are_(unknown|full)_here/)",
    ),
    of(
        "a-poisonous-submission-takes-others-along",
        "src/executor/broker/intake.rs",
        "broker.subscribe_carefully(broker.names().submit(), prefetch, limits.payload)",
        "if $on { broker.subscribe(broker.names().submit(), prefetch) } else { $was }",
        "binary(delivery) & test(/a_poisonous_submission/)",
    ),
    of(
        "refused-reports-are-buried-with-the-dead",
        "src/executor/broker/refuse.rs",
        "wire::rejected_report(names, message, why)",
        "if $on { wire::dead(names, message, why) } else { wire::rejected_report(names, message, why) }",
        "binary(delivery) & test(/reports_that_nobody_understands/)",
    ),
    of(
        "what-could-not-be-put-back-is-removed",
        "src/broker/rejected.rs",
        "*outcome == Published::Acked)",
        "(*outcome == Published::Acked || $on && *outcome != Published::Nacked))",
        "package(jobwright-cli) & test(/what_cannot_be_put_back/)",
    ),
    of(
        "what-came-before-is-taken-with-the-rest",
        "src/executor/broker/parts.rs",
        "partition(|message| message.redelivered)",
        "partition(|message| message.redelivered && !$on)",
        "test(/what_came_before_is_taken/)",
    ),
    of(
        "a-pooler-of-statements-is-not-known",
        "src/store/postgres/error.rs",
        "db.message().contains(\"statement pooling mode\")",
        "db.message().contains(\"statement pooling mode\") && !$on",
        "binary(servers) & test(/pooling/)",
    ),
];
