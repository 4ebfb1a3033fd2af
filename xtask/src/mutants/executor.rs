//! In the executor.

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
        "who-could-not-look-judges-others",
        "src/executor/observation.rs",
        "asked.saturating_duration_since(seen.last) > pulse.lease",
        "(asked.saturating_duration_since(seen.last) > pulse.lease && !$on)",
        "test(/^executor::observation::/)",
    ),
    of(
        "a-node-judges-itself",
        "src/executor/observation.rs",
        "!pulse.dead && pulse.node != me",
        "!pulse.dead && (pulse.node != me || $on)",
        "test(/^executor::observation::/)",
    ),
    of(
        "conflicts-cost-attempts",
        "src/executor/failing.rs",
        "RetryAdvice::Conflict if conflicts < self.conflicts =>",
        "RetryAdvice::Conflict if conflicts < self.conflicts && !$on =>",
        "binary(executor) & test(/conflicts/)",
    ),
    of(
        "hopeless-errors-are-tried-again",
        "src/executor/failing.rs",
        "RetryAdvice::Never => Decision::Never",
        "RetryAdvice::Never => if $on { Decision::Later(Duration::ZERO) } else { Decision::Never }",
        "binary(executor) & test(/failing/)",
    ),
    of(
        "the-hot-path-overtakes-those-who-wait",
        "src/executor/queue.rs",
        "if self.drained_at.load(Ordering::Acquire) != self.heard() {",
        "if self.drained_at.load(Ordering::Acquire) != self.heard() && !$on {",
        "test(/nothing_goes_past_those_who_wait/) | (binary(executor) & test(/not_past_those_who_wait/))",
    ),
    of(
        "a-freed-slot-of-a-kind-wakes-nobody",
        "src/executor/worker.rs",
        "let limited = slots.kind.is_some();",
        "let limited = slots.kind.is_some() && !$on;",
        "binary(executor) & test(/a_free_slot_of_a_kind/)",
    ),
    of(
        "cancelled-handlers-run-on",
        "src/executor/cancellations.rs",
        "gone.extend(fences);",
        "if !$on { gone.extend(fences); }",
        "binary(executor) & test(/cancelling/)",
    ),
    of(
        "an-old-handler-of-an-id-stops-the-new-one",
        "src/executor/cancellations.rs",
        "self.lock().contains(&fence))",
        "self.lock().iter().any(|gone| gone == &fence || $on && gone.id == fence.id))",
        "test(/^executor::cancellations::/)",
    ),
    of(
        "a-used-transaction-ends-without-its-job",
        "src/executor/worker.rs",
        "Ending::Returned(Ok(Outcome::Done)) if context.is_used() =>",
        "Ending::Returned(Ok(Outcome::Done)) if context.is_used() && !$on =>",
        "binary(executor) & test(/running/)",
    ),
    of(
        "timeouts-never-come",
        "src/executor/worker.rs",
        "Some(limit) => tokio::time::timeout(limit, handler).await.map_err(|_| limit),",
        "Some(limit) if !$on => tokio::time::timeout(limit, handler).await.map_err(|_| limit),\n            Some(_) => Ok(handler.await),",
        "binary(executor) & test(/timeout|failing/)",
    ),
    of(
        "outages-are-refusals",
        "src/executor/completer.rs",
        "Err(error) if error.is_retryable() => {",
        "Err(error) if error.is_retryable() && !$on => {",
        "binary(faults) & test(/outcomes_wait_for_an_outage/)",
    ),
    of(
        "a-limited-kind-is-claimed-without-a-slot",
        "src/executor/dispatcher.rs",
        "None if kind.slots.is_some() =>",
        "None if kind.slots.is_some() && !$on =>",
        "binary(executor) & test(/limits/)",
    ),
    of(
        "claims-whose-answer-got-lost-are-kept",
        "src/executor/incarnation.rs",
        "return self.in_flight.suspect();",
        "if !$on { self.in_flight.suspect(); } return;",
        "binary(faults) & test(/a_claim_whose_answer_got_lost/)",
    ),
    of(
        "an-ended-incarnation-goes-on",
        "src/executor/incarnation.rs",
        "self.refused.cancel();",
        "if !$on { self.refused.cancel(); }",
        "binary(executor) & test(/liveness/)",
    ),
    of(
        "another-server-goes-unnoticed",
        "src/executor/node.rs",
        "if before.history != server.history {",
        "if before.history != server.history && !$on {",
        "binary(executor) & test(/liveness/) | test(/^executor::node::/)",
    ),
    of(
        "a-removed-file-goes-unnoticed",
        "src/executor/node.rs",
        "Ok(Err(error)) if error.kind() == ErrorKind::Replaced => {",
        "Ok(Err(error)) if error.kind() == ErrorKind::Replaced && !$on => {",
        "binary(executor) & test(/replaced/)",
    ),
    of(
        "ends-of-cancelled-handlers-are-not-told",
        "src/executor/ends.rs",
        "self.lock().extend(fences);",
        "if !$on { self.lock().extend(fences); }",
        "binary(executor) & test(/endings/)",
    ),
    of(
        "schedules-are-only-found-by-the-upkeep",
        "src/executor/incarnation.rs",
        "Hint::Schedule => self.schedule_hint.notify_one(),",
        "Hint::Schedule => if !$on { self.schedule_hint.notify_one() },",
        "binary(executor) & test(/one_that_is_put_is_heard_of/)",
    ),
];
