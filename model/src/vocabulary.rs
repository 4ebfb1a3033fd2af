//! What all subjects share: the rules that can be broken, the promises that must hold, and what a subject is.

use std::fmt;
use std::hash::Hash;

/// The rules of the protocol, each `true` as it is built. A broken twin has one turned to `false`: then the model must find a path to a
/// broken promise, or the model sees less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// An outcome names the claim it belongs to, and is refused unless that is the row's.
    pub outcomes_are_fenced: bool,
    /// Who claims makes the number of the claim. Otherwise it is counted up from the row's.
    pub claimers_draw_numbers: bool,
    /// A process draws the ids of its nodes. Otherwise a sequence of the database gives them.
    pub processes_draw_ids: bool,
    /// A claim locks its node against being declared dead until it has committed.
    pub claims_lock_their_node: bool,
    /// A claim that finds its own node missing or dead ends the incarnation. Otherwise it takes nothing and says nothing.
    pub missing_nodes_are_noticed: bool,
    /// After a lost answer a node looks at what it owns at once, and again when the statement can no longer run. Otherwise only at once.
    pub looks_twice: bool,
    /// While a node looks at what it owns, none of its claims is under way.
    pub looks_exclude_claims: bool,
    /// Now and then, and after a replaced connection, a node looks at what it owns. Otherwise only after a lost answer.
    pub looks_now_and_then: bool,
    /// What a node owns is compared with what it has in hand claim by claim. Otherwise job by job.
    pub looks_compare_claims: bool,
    /// A heartbeat sees that the server is on another timeline. Otherwise nobody does.
    pub timelines_are_compared: bool,
    /// A slot of a running job that is cancelled is kept until its handler has ended. Otherwise it is freed with the row.
    pub slots_outlive_rows: bool,
    /// A slot is held by a claim. Otherwise by a job's id, which can be sent again.
    pub slots_belong_to_claims: bool,
    /// Slots that dead nodes left are freed whenever somebody looks. Otherwise only with the declaration of death.
    pub slots_of_the_dead_are_swept: bool,
    /// A node that looks at what it owns looks at slots too that its claims left. Otherwise only at rows.
    pub looks_see_slots: bool,
    /// A lease of a group is freed by its node when the line under it is over. Otherwise with the first row of the line that is removed.
    pub leases_outlive_rows: bool,
    /// A running job of a line is cancelled, and the lease stays. Otherwise it is freed with the row.
    pub leases_outlive_cancellations: bool,
    /// A node that looks at what it owns looks at leases of groups too. Otherwise only at rows.
    pub looks_see_leases: bool,
    /// Leases of groups that dead nodes have are freed. Otherwise nobody looks at them.
    pub leases_of_the_dead_are_freed: bool,
    /// They are freed whenever somebody looks. Otherwise only with the declaration of death.
    pub leases_of_the_dead_are_swept: bool,
    /// A lease of a dead node is freed when nothing of its line is owned any more. Otherwise also before.
    pub leases_outlive_dead_lines: bool,
    /// While a commit of its line is in doubt, a node starts no other job of it, and keeps the lease. Otherwise it goes on.
    pub lines_wait_for_commits: bool,
    /// Who has a lease and nothing to do under it hands on. Otherwise only who has an end to record.
    pub idle_leases_are_handed_on: bool,
    /// What was claimed at its gate goes back there. Otherwise it is waiting for a claim, as what was admitted.
    pub lines_go_back_to_their_gate: bool,
    /// What a dead node had of a line lets a round look when it is back at its gate. Otherwise only what frees a slot does.
    pub what_is_released_is_looked_for: bool,
    /// The same of what a node gives back itself.
    pub what_is_given_back_is_looked_for: bool,
    /// A look at leases leaves those alone that were made after what is known was noted. Otherwise it frees them.
    pub looks_spare_later_leases: bool,
    /// A hand-on takes the next ones only where the end that it records is accepted. Otherwise wherever it names who has the slot.
    pub hand_ons_are_fenced: bool,
    /// A hand-on under a lease sees whether the node has it. Otherwise it believes the process.
    pub leases_are_checked: bool,
    /// A hand-on names its lease by the number of the claim that made it. Otherwise any lease of its node will do.
    pub leases_are_numbered: bool,
    /// The commit of a handler's transaction makes a lease of its job's slot. Otherwise it frees it.
    pub commits_make_leases: bool,
    /// A lost answer puts a lease in doubt where the hand-on named it, which it does when nothing else is to be done under it. Otherwise always.
    pub unnamed_leases_stay: bool,
    /// A claim that counts takes nothing when a newer one of its node has counted. Otherwise it believes what it was told when it was sent.
    pub late_claims_are_told: bool,
    /// A claim that takes something writes what its node runs, with its number, even if that is what was written before.
    pub each_start_is_written: bool,
    /// Claims of one node under one limit take turns. Otherwise one says what the node runs without what another is about to take.
    pub counted_claims_take_turns: bool,
    /// What a dead node ran counts until its last row is released. Otherwise until the declaration of its death.
    pub usage_outlives_rows: bool,
    /// What a dead node ran is counted no more, in the end. Otherwise for ever.
    pub usage_of_the_dead_is_freed: bool,
    /// Each end is followed by a claim, which writes how many run now. Otherwise only where there is more to do.
    pub ends_are_told: bool,
    /// Whether a given id is there is decided in one place, under a lock. Otherwise by a look at each table.
    pub ids_are_decided_once: bool,
    /// Nodes are declared dead by who saw their beat unchanged for a lease. Otherwise by the server's clock.
    pub death_is_observed: bool,
    /// Who declares nodes dead passes over those whose row is locked. Otherwise it waits for them.
    pub locked_nodes_are_passed_over: bool,
    /// A lease counts from before its renewal was sent. Otherwise from its answer.
    pub leases_count_from_sending: bool,
    /// A node stops its handlers a while before its lease is over. Otherwise when it is.
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
        looks_now_and_then: true,
        looks_compare_claims: true,
        timelines_are_compared: true,
        slots_outlive_rows: true,
        slots_belong_to_claims: true,
        slots_of_the_dead_are_swept: true,
        looks_see_slots: true,
        leases_outlive_rows: true,
        leases_outlive_cancellations: true,
        looks_see_leases: true,
        leases_of_the_dead_are_freed: true,
        leases_of_the_dead_are_swept: true,
        leases_outlive_dead_lines: true,
        lines_wait_for_commits: true,
        idle_leases_are_handed_on: true,
        lines_go_back_to_their_gate: true,
        what_is_released_is_looked_for: true,
        what_is_given_back_is_looked_for: true,
        looks_spare_later_leases: true,
        hand_ons_are_fenced: true,
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
    /// A committed job is done, cancelled or a dead letter, or there is a row of it.
    NothingIsLost,
    /// An outcome that is accepted is that of the row's present claim, and each send has one at most.
    OutcomesAreTheirOwn,
    /// Only a job that was cancelled, or taken away, ends without an outcome.
    NobodyEndsUnasked,
    /// Nobody commits a claim for a node after that node was declared dead.
    TheDeadClaimNothing,
    /// A node gives back what it does not have in hand, and nothing else.
    WhatIsInHandStays,
    /// No process gives back what another living one has claimed.
    NobodyTrespasses,
    /// An attempt is spent for each that failed or died, and there are no more of them than allowed.
    AttemptsAreCounted,
    /// Handlers of an exclusive group do not overlap, and no more run than a limit allows.
    LimitsHold,
    /// An id stands in one table at most.
    IdsStandOnce,
    /// Who is declared dead has stopped its handlers before, unless it is frozen or gone.
    TheLivingAreLeftAlone,
    /// Without further faults every job ends, every slot becomes free, and everybody's death is noticed.
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
    /// All that is remembered anywhere: by the database, by processes, under way, and by nobody but the model (ghosts).
    type State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync + 'static;
    /// What can happen next.
    type Action: Copy + fmt::Debug + fmt::Display + PartialEq + Send + Sync + 'static;

    /// What it is called in the table.
    const NAME: &'static str;
    /// Names of what must have been seen somewhere in a complete exploration; else the model proves less than it seems to.
    const SIGHTS: &'static [&'static str];

    /// Where everything begins.
    fn start(&self) -> Self::State;
    /// All actions there are, in the order in which they are tried.
    fn alphabet(&self) -> Vec<Self::Action>;
    /// What an action makes of a state; none where it can't happen.
    fn step(&self, state: &Self::State, action: Self::Action) -> Option<Self::State>;
    /// Whether an exploration may take this action: the bounds, above all how many faults there may be.
    fn within_bounds(&self, state: &Self::State, action: Self::Action) -> bool;
    /// Whether this promise is looked at. A twin can be asked for a certain fault.
    fn watches(&self, promise: Promise) -> bool;
    /// The promise that is broken here.
    fn broken(&self, state: &Self::State) -> Option<Promise>;
    /// What a world without further faults does next; none when there is nothing left to do.
    fn repair(&self, state: &Self::State) -> Option<Self::Action>;
    /// Nothing is left to be done.
    fn at_rest(&self, state: &Self::State) -> bool;
    /// Which of the sights are seen here, one bit each.
    fn sights(&self, state: &Self::State) -> u32;
}

/// A small number as an index.
pub fn slot(number: u8) -> usize {
    usize::from(number)
}

/// The name of a job in a path: `job A`.
pub fn job_name(job: u8) -> String {
    format!("job {}", char::from(b'A' + job))
}

/// The name of a process in a path: `process 1`.
pub fn process_name(process: u8) -> String {
    format!("process {}", process + 1)
}
