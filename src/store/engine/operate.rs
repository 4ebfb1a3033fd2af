//! The role [`Operate`].

use async_trait::async_trait;

use crate::error::Result;
use crate::job::NodeId;
use crate::store::{Action, AffectedJobs, JobFilter, OperatorOptions, Released, Rule, RuleEdit, Scope};

/// What operators do. Each change goes into the audit if the operator is named.
#[async_trait]
pub trait Operate: Send + Sync {
    /// Applies an action to the jobs that match, in the order they were sent, some thousands in one transaction. The audit entry, if there is
    /// to be one, is written in the same transactions. Leaves out jobs that start, end or move meanwhile, and jobs that are sent meanwhile.
    ///
    /// If it fails half-way, what was done stays and is in the audit; the same call may be made again. Sends a hint if the store can. Use
    /// `Admin` to wake executors in the same process in any case.
    ///
    /// # Errors
    /// When the action is invalid; then nothing changed.
    async fn operate(&self, filter: &JobFilter, action: &Action, operator: OperatorOptions<'_>)
    -> Result<AffectedJobs>;

    /// Declares a node dead on an operator's order, waits for its claims that are still under way, and releases what it owns as the lock
    /// monitor does: each job's attempt is spent. Returns how many jobs were released; `None` = there is no such node.
    async fn evict(&self, node: NodeId, by: Option<&str>) -> Result<Option<Released>>;

    /// Changes a rule, or a new one that sets nothing yet, and returns the result; a rule that then sets nothing is removed. No other change comes
    /// between reading and writing it. `edit` runs while all admission waits, so it must not take long. Scope and name stay as they are.
    ///
    /// Waiting jobs are checked again. Jobs that run already get permits, even if there are more of them than the rule allows. A job that was
    /// started inside a transaction which has been open for longer than `database.call_timeout` is not counted.
    ///
    /// # Errors
    /// When the rule is invalid; then nothing changed.
    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule>;
}
