//! Shared by all subjects: the rules that can be broken, the promises that must hold, and the trait of a subject.

use std::fmt;
use std::hash::Hash;

/// The rules of the protocol, each `true` as built. A broken twin has one of them `false`: then the model must find a path to a broken promise, or it
/// sees less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// An outcome names its claim, and is refused unless that is the row's current claim.
    pub outcomes_are_fenced: bool,
    /// The claimer draws the number of a claim. Otherwise it is counted up from the row's.
    pub claimers_draw_numbers: bool,
    /// A process draws the ids of its nodes. Otherwise a database sequence does.
    pub processes_draw_ids: bool,
    /// A claim locks its node against being declared dead until it has committed.
    pub claims_lock_their_node: bool,
    /// A claim that finds its own node missing or dead ends the node session. Otherwise it takes nothing and reports nothing.
    pub missing_nodes_are_noticed: bool,
    /// After a lost answer a node checks what it owns at once, and again when the statement can no longer run. Otherwise only at once.
    pub looks_twice: bool,
    /// While a node notes what it knows, to check what it owns, none of its claims is in flight.
    pub looks_exclude_claims: bool,
    /// A claim gets its number when no check can note what the node knows any more. Otherwise before, while it still waits for that.
    pub numbers_come_with_exclusion: bool,
    /// A node checks what it owns regularly, and after a replaced connection. Otherwise only after a lost answer.
    pub looks_now_and_then: bool,
    /// The jobs a node owns are compared with its jobs in flight claim by claim. Otherwise job by job.
    pub looks_compare_claims: bool,
    /// A heartbeat notices that the server is on another timeline. Otherwise nothing does.
    pub timelines_are_compared: bool,
    /// The permit of a running job that is cancelled is kept until its handler has ended. Otherwise it is freed with the row.
    pub permits_outlive_rows: bool,
    /// A permit is held by a claim. Otherwise by a job's id, which can be sent again.
    pub permits_belong_to_claims: bool,
    /// Permits left by dead nodes are freed by every sweep. Otherwise only with the declaration of death.
    pub permits_of_the_dead_are_swept: bool,
    /// A node that checks what it owns also checks permits that its claims left. Otherwise only rows.
    pub looks_see_permits: bool,
    /// A node frees its lease of a group when its group run is over. Otherwise the lease is freed with the first row of the run that is removed.
    pub leases_outlive_rows: bool,
    /// Cancelling a running job of a group run leaves the lease. Otherwise it is freed with the row.
    pub leases_outlive_cancellations: bool,
    /// A node that checks what it owns also checks leases of groups. Otherwise only rows.
    pub looks_see_leases: bool,
    /// Leases of groups that dead nodes hold are freed. Otherwise never.
    pub leases_of_the_dead_are_freed: bool,
    /// They are freed by every sweep. Otherwise only with the declaration of death.
    pub leases_of_the_dead_are_swept: bool,
    /// A lease of a dead node is freed when no job of its group run is owned any more. Otherwise earlier too.
    pub leases_outlive_dead_group_runs: bool,
    /// While a commit of its group run is in doubt, a node starts no other job of it, and keeps the lease. Otherwise it goes on.
    pub group_runs_wait_for_commits: bool,
    /// A node with a lease and nothing to run under it makes a group claim. Otherwise only a node with an outcome to record does.
    pub idle_leases_are_given_back: bool,
    /// A job claimed while blocked on its key is blocked again when it goes back. Otherwise it waits for a claim, like an admitted job.
    pub group_runs_go_back_to_their_key: bool,
    /// When a dead node's job of a group run is blocked again, an admission pass is due. Otherwise only when a permit is freed.
    pub what_is_released_is_looked_for: bool,
    /// The same when a node gives such a job back itself.
    pub what_is_given_back_is_looked_for: bool,
    /// A check of leases spares those made after the node noted what it knows. Otherwise it frees them.
    pub looks_spare_later_leases: bool,
    /// A group claim takes the next jobs only if the outcome that it records is accepted. Otherwise whenever it names the holder of the permit.
    pub group_claims_are_fenced: bool,
    /// A group claim under a lease checks that the node has it. Otherwise it trusts the process.
    pub leases_are_checked: bool,
    /// A group claim names its lease by the number of the claim that made it. Otherwise any lease of its node will do.
    pub leases_are_numbered: bool,
    /// The commit of a handler's transaction turns its job's permit into a lease. Otherwise it frees the permit.
    pub commits_make_leases: bool,
    /// A lost answer puts a lease in doubt only if the group claim named it, which it does when no other job under it is left. Otherwise always.
    pub unnamed_leases_stay: bool,
    /// A claim that counts takes nothing when a newer one of its node has counted. Otherwise it trusts the number that it was sent with.
    pub late_claims_are_told: bool,
    /// A claim that takes something writes what its node runs, with its own number, even if that is unchanged.
    pub each_start_is_written: bool,
    /// Claims of one node under one limit run one at a time. Otherwise one reports the node's jobs without those that another is about to take.
    pub counted_claims_take_turns: bool,
    /// A dead node's jobs count until its last row is released. Otherwise until the declaration of its death.
    pub usage_outlives_rows: bool,
    /// A dead node's jobs are no longer counted, in the end. Otherwise they are counted forever.
    pub usage_of_the_dead_is_freed: bool,
    /// Each end is followed by a claim, which writes how many jobs run now. Otherwise only if more work remains.
    pub ends_are_told: bool,
    /// The change of a rule drops the counts of claims in the transaction that gives permits in their place. Otherwise in the one before.
    pub counts_are_handed_over_at_once: bool,
    /// Whether a given id exists is decided in one place, under a lock. Otherwise by checking each table.
    pub ids_are_decided_once: bool,
    /// A monitor that saw a node's heartbeat unchanged for a lease declares it dead. Otherwise the server's clock decides.
    pub death_is_observed: bool,
    /// A declaration of death passes over nodes whose row is locked. Otherwise it waits for them.
    pub locked_nodes_are_passed_over: bool,
    /// A lease counts from before its renewal was sent. Otherwise from its answer.
    pub leases_count_from_sending: bool,
    /// A node stops its handlers some time before its lease is over. Otherwise at that time.
    pub nodes_stop_early: bool,
}

impl Rules {
    /// The protocol as it is built.
    pub const BUILT: Self = Self {
        outcomes_are_fenced: true,
        claimers_draw_numbers: true,
        processes_draw_ids: true,
        claims_lock_their_node: true,
        missing_nodes_are_noticed: true,
        looks_twice: true,
        looks_exclude_claims: true,
        numbers_come_with_exclusion: true,
        looks_now_and_then: true,
        looks_compare_claims: true,
        timelines_are_compared: true,
        permits_outlive_rows: true,
        permits_belong_to_claims: true,
        permits_of_the_dead_are_swept: true,
        looks_see_permits: true,
        leases_outlive_rows: true,
        leases_outlive_cancellations: true,
        looks_see_leases: true,
        leases_of_the_dead_are_freed: true,
        leases_of_the_dead_are_swept: true,
        leases_outlive_dead_group_runs: true,
        group_runs_wait_for_commits: true,
        idle_leases_are_given_back: true,
        group_runs_go_back_to_their_key: true,
        what_is_released_is_looked_for: true,
        what_is_given_back_is_looked_for: true,
        looks_spare_later_leases: true,
        group_claims_are_fenced: true,
        leases_are_checked: true,
        leases_are_numbered: true,
        commits_make_leases: true,
        unnamed_leases_stay: true,
        late_claims_are_told: true,
        each_start_is_written: true,
        counted_claims_take_turns: true,
        usage_outlives_rows: true,
        usage_of_the_dead_is_freed: true,
        ends_are_told: true,
        counts_are_handed_over_at_once: true,
        ids_are_decided_once: true,
        death_is_observed: true,
        locked_nodes_are_passed_over: true,
        leases_count_from_sending: true,
        nodes_stop_early: true,
    };
}

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// A committed job is done, cancelled or a dead letter, or it has a row.
    NothingIsLost,
    /// An accepted outcome belongs to the row's current claim, and each send has at most one.
    OutcomesAreTheirOwn,
    /// Only a job that was cancelled, or taken away, ends without an outcome.
    NobodyEndsUnasked,
    /// No claim commits for a node after that node was declared dead.
    TheDeadClaimNothing,
    /// A node gives back exactly those of its jobs that are not in flight.
    WhatIsInHandStays,
    /// No process gives back a job that another live one has claimed.
    NobodyTrespasses,
    /// An attempt is spent for each run that failed or died, and there are no more than allowed.
    AttemptsAreCounted,
    /// Handlers of an exclusive group do not overlap, and no more run than a limit allows.
    LimitsHold,
    /// An id is in at most one table.
    IdsStandOnce,
    /// A node that is declared dead has stopped its handlers before, unless it is frozen or gone.
    TheLivingAreLeftAlone,
    /// Without further faults every job ends, every permit becomes free, and every death is noticed.
    EverythingComesRight,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingIsLost => "a committed job was lost",
            Self::OutcomesAreTheirOwn => "an outcome stood for another claim than its own",
            Self::NobodyEndsUnasked => "an attempt ended without an outcome though its job was not cancelled",
            Self::TheDeadClaimNothing => "a node that had been declared dead claimed a job",
            Self::WhatIsInHandStays => "a node gave back what it was about to run",
            Self::NobodyTrespasses => "a process gave back what another living one runs",
            Self::AttemptsAreCounted => "attempts were miscounted, or more than allowed",
            Self::LimitsHold => "more handlers ran at the same time than allowed",
            Self::IdsStandOnce => "an id stood in two tables",
            Self::TheLivingAreLeftAlone => "a node was declared dead while its handlers ran",
            Self::EverythingComesRight => "nothing more goes wrong from here, and yet not everything comes right",
        })
    }
}

/// A part of the protocol, small enough to be explored completely.
pub trait Subject: Clone + fmt::Debug + Send + Sync + 'static {
    /// The whole state: that of the database, of processes, of messages in flight, and of the model alone (ghosts).
    type State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync + 'static;
    /// The possible steps.
    type Action: Copy + fmt::Debug + fmt::Display + PartialEq + Send + Sync + 'static;

    /// Its name in the table.
    const NAME: &'static str;
    /// Names of situations that a complete exploration must have seen; otherwise the model proves less than it seems to.
    const SIGHTS: &'static [&'static str];

    /// Returns the initial state.
    fn start(&self) -> Self::State;
    /// Returns all actions, in the order in which they are tried.
    fn alphabet(&self) -> Vec<Self::Action>;
    /// Applies an action to a state; `None`: it can't happen there.
    fn step(&self, state: &Self::State, action: Self::Action) -> Option<Self::State>;
    /// Whether an exploration may take this action within the bounds, above all those on faults.
    fn within_bounds(&self, state: &Self::State, action: Self::Action) -> bool;
    /// Whether this promise is checked. A twin can ask for a certain one.
    fn watches(&self, promise: Promise) -> bool;
    /// Returns the promise that is broken in this state.
    fn broken(&self, state: &Self::State) -> Option<Promise>;
    /// Returns the next action of a world without further faults; `None`: nothing is left to do.
    fn repair(&self, state: &Self::State) -> Option<Self::Action>;
    /// Whether nothing is left to do.
    fn at_rest(&self, state: &Self::State) -> bool;
    /// Returns which of the sights this state shows, one bit each.
    fn sights(&self, state: &Self::State) -> u32;
}

/// Converts a small number to an index.
pub fn index(number: u8) -> usize {
    usize::from(number)
}

/// Returns the name of a job in a path: `job A`.
pub fn job_name(job: u8) -> String {
    format!("job {}", char::from(b'A' + job))
}

/// Returns the name of a process in a path: `process 1`.
pub fn process_name(process: u8) -> String {
    format!("process {}", process + 1)
}
