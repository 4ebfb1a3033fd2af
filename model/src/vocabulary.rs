//! Shared by all subjects: the rules that can be broken, the promises that must hold, and the trait of a subject.

use std::fmt;
use std::hash::Hash;

use crate::kernel::{Actions, Ranges};

macro_rules! rules {
    ($($(#[$says:meta])* $rule:ident,)*) => {
        /// The rules of the protocol, each `true` as built. A broken twin has one of them `false`: then the model must find a path to a broken
        /// promise, or it sees less than it seems to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct Rules {
            $($(#[$says])* pub $rule: bool,)*
        }

        impl Rules {
            /// The protocol as it is built.
            pub const BUILT: Self = Self { $($rule: true,)* };
        }
    };
}

rules! {
    /// An outcome names its claim, and is refused unless that is the row's current claim.
    outcomes_are_fenced,
    /// The claimer draws the number of a claim. Otherwise it is counted up from the row's.
    claimers_draw_numbers,
    /// A process draws the ids of its nodes. Otherwise a database sequence does.
    processes_draw_ids,
    /// A claim locks its node against being declared dead until it has committed.
    claims_lock_their_node,
    /// A claim that finds its own node missing or dead ends the node session. Otherwise it takes nothing and reports nothing.
    missing_nodes_are_noticed,
    /// After a lost answer a node checks what it owns at once, and again when the statement can no longer run. Otherwise only at once.
    looks_twice,
    /// While a node notes what it knows, to check what it owns, none of its claims is in flight.
    looks_exclude_claims,
    /// A claim gets its number when no check can note what the node knows any more. Otherwise before, while it still waits for that.
    numbers_come_with_exclusion,
    /// A node checks what it owns regularly, and after a replaced connection. Otherwise only after a lost answer.
    looks_now_and_then,
    /// The jobs a node owns are compared with its jobs in flight claim by claim. Otherwise job by job.
    looks_compare_claims,
    /// A heartbeat notices that the server is on another timeline. Otherwise nothing does.
    timelines_are_compared,
    /// The permit of a running job that is cancelled is kept until its handler has ended. Otherwise it is freed with the row.
    permits_outlive_rows,
    /// A permit is held by a claim. Otherwise by a job's id, which can be sent again.
    permits_belong_to_claims,
    /// Permits left by dead nodes are freed by every sweep. Otherwise only with the declaration of death.
    permits_of_the_dead_are_swept,
    /// A node that checks what it owns also checks permits that its claims left. Otherwise only rows.
    looks_see_permits,
    /// A node frees its lease of a group when its group run is over. Otherwise the lease is freed with the first row of the run that is removed.
    leases_outlive_rows,
    /// Cancelling a running job of a group run leaves the lease. Otherwise it is freed with the row.
    leases_outlive_cancellations,
    /// A node that checks what it owns also checks leases of groups. Otherwise only rows.
    looks_see_leases,
    /// Leases of groups that dead nodes hold are freed. Otherwise never.
    leases_of_the_dead_are_freed,
    /// They are freed by every sweep. Otherwise only with the declaration of death.
    leases_of_the_dead_are_swept,
    /// A lease of a dead node is freed when no job of its group run is owned any more. Otherwise earlier too.
    leases_outlive_dead_group_runs,
    /// While a commit of its group run is in doubt, a node starts no other job of it, and keeps the lease. Otherwise it goes on.
    group_runs_wait_for_commits,
    /// A node with a lease and nothing to run under it makes a group claim. Otherwise only a node with an outcome to record does.
    idle_leases_are_given_back,
    /// A job claimed while blocked on its key is blocked again when it goes back. Otherwise it waits for a claim, like an admitted job.
    group_runs_go_back_to_their_key,
    /// When a dead node's job of a group run is blocked again, an admission pass is due. Otherwise only when a permit is freed.
    what_is_released_is_looked_for,
    /// The same when a node gives such a job back itself.
    what_is_given_back_is_looked_for,
    /// A check of leases spares those made after the node noted what it knows. Otherwise it frees them.
    looks_spare_later_leases,
    /// A group claim takes the next jobs only if the outcome that it records is accepted. Otherwise whenever it names the holder of the permit.
    group_claims_are_fenced,
    /// A group claim under a lease checks that the node has it. Otherwise it trusts the process.
    leases_are_checked,
    /// A group claim names its lease by the number of the claim that made it. Otherwise any lease of its node will do.
    leases_are_numbered,
    /// The commit of a handler's transaction turns its job's permit into a lease. Otherwise it frees the permit.
    commits_make_leases,
    /// A lost answer puts a lease in doubt only if the group claim named it, which it does when no other job under it is left. Otherwise always.
    unnamed_leases_stay,
    /// A claim that counts takes nothing when a newer one of its node has counted. Otherwise it trusts the number that it was sent with.
    late_claims_are_told,
    /// A claim that takes something writes what its node runs, with its own number, even if that is unchanged.
    each_start_is_written,
    /// Claims of one node under one limit run one at a time. Otherwise one reports the node's jobs without those that another is about to take.
    counted_claims_take_turns,
    /// A dead node's jobs count until its last row is released. Otherwise until the declaration of its death.
    usage_outlives_rows,
    /// A dead node's jobs are no longer counted, in the end. Otherwise they are counted forever.
    usage_of_the_dead_is_freed,
    /// Each end is followed by a claim, which writes how many jobs run now. Otherwise only if more work remains.
    ends_are_told,
    /// The change of a rule drops the counts of claims in the transaction that gives permits in their place. Otherwise in the one before.
    counts_are_handed_over_at_once,
    /// An end by SQL locks the row until its transaction is over. Otherwise it only looks at the row.
    ends_lock_their_row,
    /// A lease that runs out leaves a row alone that its worker's transaction has locked. Otherwise it releases it.
    locked_hand_outs_are_passed_over,
    /// An end by SQL that is refused makes its transaction fail. Otherwise it answers, and the work can be committed.
    late_ends_are_errors,
    /// Whether a given id exists is decided in one place, under a lock. Otherwise by checking each table.
    ids_are_decided_once,
    /// A monitor that saw a node's heartbeat unchanged for a lease declares it dead. Otherwise the server's clock decides.
    death_is_observed,
    /// A declaration of death passes over nodes whose row is locked. Otherwise it waits for them.
    locked_nodes_are_passed_over,
    /// A lease counts from before its renewal was sent. Otherwise from its answer.
    leases_count_from_sending,
    /// A node stops its handlers some time before its lease is over. Otherwise at that time.
    nodes_stop_early,
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
    /// Work that a program does by SQL is committed with the accepted end of its job, and otherwise not.
    WorkEndsWithItsJob,
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
            Self::WorkEndsWithItsJob => "work was committed without the end of its job",
            Self::IdsStandOnce => "an id stood in two tables",
            Self::TheLivingAreLeftAlone => "a node was declared dead while its handlers ran",
            Self::EverythingComesRight => "nothing more goes wrong from here, and yet not everything comes right",
        })
    }
}

/// The steps of a subject.
pub trait Steps: Clone + fmt::Debug + Send + Sync + 'static {
    /// The whole state: that of the database, of processes, of messages in flight, and of the model alone (ghosts).
    type State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync + 'static;
    /// The possible steps.
    type Action: Actions;

    /// Applies an action to a state; `None`: it can't happen there.
    fn step(&self, state: &Self::State, action: Self::Action) -> Option<Self::State>;
    /// Returns the next action of a world without further faults; `None`: nothing is left to do.
    fn repair(&self, state: &Self::State) -> Option<Self::Action>;
}

/// A part of the protocol, small enough to be explored completely.
pub trait Subject: Steps {
    /// Its name in the table.
    const NAME: &'static str;
    /// Names of situations that a complete exploration must have seen; otherwise the model proves less than it seems to.
    const SIGHTS: &'static [&'static str];

    /// Returns the initial state.
    fn start(&self) -> Self::State;
    /// Returns the values of which all actions are made.
    fn ranges(&self) -> Ranges;
    /// Whether an exploration may take this action within the bounds, above all those on faults.
    fn within_bounds(&self, state: &Self::State, action: Self::Action) -> bool;
    /// Returns the only promise that is checked, which a twin names; `None`: all.
    fn only(&self) -> Option<Promise>;
    /// Returns the promise that is broken in this state.
    fn broken(&self, state: &Self::State) -> Option<Promise>;
    /// Whether nothing is left to do.
    fn at_rest(&self, state: &Self::State) -> bool;
    /// Returns which of the sights this state shows, one bit each.
    fn sights(&self, state: &Self::State) -> u32;

    /// Whether this promise is checked.
    fn watches(&self, promise: Promise) -> bool {
        self.only().is_none_or(|only| only == promise)
    }
    /// Returns the first of these promises that is broken and checked.
    fn first_broken<const N: usize>(&self, promises: [(Promise, bool); N]) -> Option<Promise> {
        promises.into_iter().find_map(|(promise, broken)| (broken && self.watches(promise)).then_some(promise))
    }
}
