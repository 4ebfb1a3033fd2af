//! The effect of each action on claims.

use super::next_send;
use super::{ATTEMPTS, Action, Claims, Fate, Held, Phase, Process, Progress, Request, Row, State};
use crate::kernel::index;
use crate::vocabulary::{Promise, Steps, Subject as _};

impl Steps for Claims {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.broken = None;
        match action {
            Action::Send { job } => {
                // The unique index makes it wait for another sender of the same id.
                if state.rows[index(job)].is_some() || state.is_locked(job) {
                    return None;
                }
                let send = next_send(&state.fates[index(job)])?;
                next.rows[index(job)] = Some(Row { owner: 0, version: 0, attempt: 0, send, claim: 0, spent: 0 });
                next.fates[index(job)][index(send)] = Fate::Live;
            }
            Action::Cancel { job } => {
                let row = state.rows[index(job)].filter(|_| !state.is_locked(job))?;
                next.rows[index(job)] = None;
                next.fates[index(job)][index(row.send)] = Fate::Cancelled;
            }
            Action::Draw { process } => {
                let asker = &mut next.processes[index(process)];
                if self.rules.numbers_come_with_exclusion || asker.node == 0 || asker.drawn != 0 {
                    return None;
                }
                next.claims += 1;
                asker.drawn = next.claims;
            }
            Action::Ask { process, job, born } => {
                let asker = &mut next.processes[index(process)];
                let numbered = born || self.rules.numbers_come_with_exclusion;
                if !numbered && asker.drawn == 0 {
                    return None;
                }
                let room = asker.node != 0 && asker.request.is_none() && asker.hand.contains(&None);
                let sense =
                    if born { next_send(&state.fates[index(job)]).is_some() } else { state.rows[index(job)].is_some() };
                if !room || !sense || born && state.rows[index(job)].is_some() {
                    return None;
                }
                let claim = if numbered {
                    next.claims += 1;
                    next.claims
                } else {
                    std::mem::take(&mut asker.drawn)
                };
                asker.request = Some(Request {
                    job,
                    born,
                    node: asker.node,
                    claim,
                    version: 0,
                    send: 0,
                    progress: Progress::Sent,
                    awaited: true,
                });
            }
            Action::Execute { process } => {
                let request = self.execute(state, &mut next, process)?;
                next.processes[index(process)].request = kept(request);
            }
            Action::Commit { process } => {
                let request = self.commit(state, &mut next, process)?;
                next.processes[index(process)].request = kept(request);
            }
            Action::Abort { process } => {
                // The sender or its connection is gone, so its transaction ends. A claim is a single statement and ends anyway.
                let request = state.processes[index(process)].request?;
                if !request.born || request.awaited {
                    return None;
                }
                next.processes[index(process)].request = None;
            }
            Action::Answer { process } => self.answer(&mut next.processes[index(process)])?,
            Action::GiveUp { process } => {
                let asker = &mut next.processes[index(process)];
                let request = asker.request.filter(|request| request.awaited)?;
                asker.request = kept(Request { awaited: false, ..request });
                asker.looks = if self.rules.looks_twice { 2 } else { 1 };
                next.faults.lost += 1;
            }
            Action::Report { process, hand, success, answered } => {
                let held = state.processes[index(process)].hand[index(hand)]?;
                let meant = match held.phase {
                    Phase::Running | Phase::Told => true,
                    Phase::Succeeded => success,
                    Phase::Failed => !success,
                };
                if !meant {
                    return None;
                }
                self.report(&mut next, held, success);
                let phase = if success { Phase::Succeeded } else { Phase::Failed };
                next.processes[index(process)].hand[index(hand)] = (!answered).then_some(Held { phase, ..held });
                next.faults.lost += u8::from(!answered);
            }
            Action::Listen { process } => listen(state, &mut next.processes[index(process)])?,
            Action::EndTold { process, hand } => {
                let held =
                    state.processes[index(process)].hand[index(hand)].filter(|held| held.phase == Phase::Told)?;
                next.processes[index(process)].hand[index(hand)] = None;
                // While its node lives, no process will ever give such a row back.
                let stands = state.rows[index(held.job)].is_some_and(|row| row.owner != 0 && row.claim == held.claim);
                if stands && state.processes[index(process)].node == held.node {
                    self.note(&mut next, Promise::NobodyEndsUnasked);
                }
            }
            Action::Look { process } => self.look(state, &mut next, process)?,
            Action::Walk { process } => self.walk(&mut next, process)?,
            Action::Heartbeat { process } => {
                let node = state.processes[index(process)].node;
                if node == 0 || !state.nodes.is_dead(node) {
                    return None;
                }
                next.processes[index(process)].end_node_session();
            }
            Action::Fence { process } => {
                if state.processes[index(process)].node == 0 {
                    return None;
                }
                next.processes[index(process)].end_node_session();
                next.faults.deaths += 1;
            }
            Action::Retire { process } => {
                let former = state.processes[index(process)].former;
                // It waits for claims that have locked the node.
                if former == 0 || self.rules.claims_lock_their_node && state.holds_node(former) {
                    return None;
                }
                next.nodes.bury(former);
                next.processes[index(process)].former = 0;
                for row in next.rows.iter_mut().flatten().filter(|row| row.owner == former) {
                    self.give_back(row);
                }
            }
            Action::Register { process } => {
                if state.processes[index(process)].node != 0 {
                    return None;
                }
                next.processes[index(process)].node = next.nodes.register();
            }
            Action::Crash { process } => {
                let request = state.processes[index(process)].request;
                if state.processes[index(process)].node == 0 {
                    return None;
                }
                let request = request.and_then(|request| kept(Request { awaited: false, ..request }));
                next.processes[index(process)] = Process { request, ..Process::default() };
                next.faults.crashes += 1;
            }
            Action::Declare { node } => {
                if self.rules.claims_lock_their_node && state.holds_node(node) {
                    return None;
                }
                next.nodes.declare(node)?;
                next.faults.deaths += u8::from(state.is_lived(node));
            }
            Action::Release { job } => {
                let mut row = state.rows[index(job)].filter(|row| row.owner != 0 && state.nodes.is_dead(row.owner))?;
                row.spent += 1;
                self.back_or_buried(&mut next, job, row);
            }
        }
        Some(next)
    }

    /// The first possible action in this order: the network, nodes, checks of what is owned, handlers, claims.
    fn repair(&self, state: &State) -> Option<Action> {
        let all = || (0..self.bounds.processes).map(|process| (process, &state.processes[index(process)]));
        let jobs = || (0..self.bounds.jobs).filter_map(|job| Some((job, state.rows[index(job)]?)));
        let possible = |action: &Action| self.step(state, *action).is_some();
        let network = all().filter(|(_, process)| process.request.is_some()).flat_map(|(process, _)| {
            [Action::Execute { process }, Action::Commit { process }, Action::Answer { process }]
        });
        let lives = all().flat_map(|(process, _)| {
            [Action::Heartbeat { process }, Action::Retire { process }, Action::Register { process }]
        });
        let deaths = state.nodes.all().filter(|node| !state.is_lived(*node)).map(|node| Action::Declare { node });
        let released = jobs().map(|(job, _)| Action::Release { job });
        let walks = all().map(|(process, _)| Action::Walk { process });
        let looks = all()
            .filter(|(_, process)| process.looks > 0 || self.has_lost(state, process))
            .map(|(process, _)| Action::Look { process });
        let looks = walks.chain(looks);
        let handlers = all().flat_map(|(process, at)| {
            (0..).zip(at.hand).filter_map(move |(hand, held)| {
                Some(match held?.phase {
                    Phase::Told => Action::EndTold { process, hand },
                    phase => Action::Report { process, hand, success: phase != Phase::Failed, answered: true },
                })
            })
        });
        let waiting = jobs().filter(|(_, row)| row.owner == 0);
        let claims =
            waiting.flat_map(|(job, _)| all().map(move |(process, _)| Action::Ask { process, job, born: false }));
        network.chain(lives).chain(deaths).chain(released).chain(looks).chain(handlers).chain(claims).find(possible)
    }
}

impl Claims {
    /// `claim`, `insert_owned`: checks the node, locks it, and picks a row that no other transaction has locked.
    fn execute(&self, state: &State, next: &mut State, process: u8) -> Option<Request> {
        let request = state.processes[index(process)].request.filter(|request| request.progress == Progress::Sent)?;
        let row = state.rows[index(request.job)];
        let dead = state.nodes.is_dead(request.node);
        if request.born {
            // It waits for another sender of the same id.
            if state.is_locked(request.job) {
                return None;
            }
            let send = row.is_none().then(|| next_send(&state.fates[index(request.job)])).flatten();
            return Some(match send {
                None => Request { progress: Progress::Nothing, ..request },
                // The job waits like any other; a send is never refused.
                Some(send) if dead => {
                    let row = Row { owner: 0, version: 0, attempt: 0, send, claim: 0, spent: 0 };
                    next.rows[index(request.job)] = Some(row);
                    next.fates[index(request.job)][index(send)] = Fate::Live;
                    Request { progress: Progress::Nothing, ..request }
                }
                Some(send) => {
                    let version = if self.rules.claimers_draw_numbers { request.claim } else { 1 };
                    Request { progress: Progress::Open, version, send, ..request }
                }
            });
        }
        if dead {
            return Some(Request { progress: Progress::Refused, ..request });
        }
        let free = row.filter(|row| row.owner == 0 && !state.is_locked(request.job));
        Some(match free {
            None => Request { progress: Progress::Nothing, ..request },
            Some(row) => {
                let version = if self.rules.claimers_draw_numbers { request.claim } else { row.version + 1 };
                Request { progress: Progress::Open, version, send: row.send, ..request }
            }
        })
    }

    fn commit(&self, state: &State, next: &mut State, process: u8) -> Option<Request> {
        let request = state.processes[index(process)].request.filter(|request| request.progress == Progress::Open)?;
        let Request { job, node, version, send, claim, .. } = request;
        if request.born {
            next.rows[index(job)] = Some(Row { owner: node, version, attempt: 1, send, claim, spent: 0 });
            next.fates[index(job)][index(send)] = Fate::Live;
        } else {
            let row = state.rows[index(job)]?;
            next.rows[index(job)] = Some(Row { owner: node, version, attempt: row.attempt + 1, claim, ..row });
        }
        if state.nodes.is_dead(node) {
            self.note(next, Promise::TheDeadClaimNothing);
        }
        Some(Request { progress: Progress::Took, ..request })
    }

    fn answer(&self, asker: &mut Process) -> Option<()> {
        let request = asker.request.filter(|request| request.awaited)?;
        match request.progress {
            Progress::Sent | Progress::Open => return None,
            Progress::Took => {
                let Request { job, node, version, send, claim, .. } = request;
                // A cancellation is remembered by job and number, and affects any claim with the same.
                let phase = if asker.gone == Some((job, version)) { Phase::Told } else { Phase::Running };
                let hand = asker.hand.iter_mut().find(|hand| hand.is_none())?;
                *hand = Some(Held { job, node, version, phase, send, claim });
            }
            Progress::Refused if self.rules.missing_nodes_are_noticed => {
                asker.request = None;
                asker.end_node_session();
            }
            Progress::Nothing | Progress::Refused => {}
        }
        asker.request = None;
        Some(())
    }

    /// `complete`, `settle`.
    fn report(&self, next: &mut State, held: Held, success: bool) {
        let Some(row) = next.rows[index(held.job)] else { return };
        let fits = row.owner == held.node && row.version == held.version;
        if self.rules.outcomes_are_fenced && !fits {
            return;
        }
        if row.owner == 0 || row.claim != held.claim || next.fates[index(held.job)][index(held.send)] == Fate::Done {
            self.note(next, Promise::OutcomesAreTheirOwn);
        }
        if success {
            next.rows[index(held.job)] = None;
            next.fates[index(held.job)][index(held.send)] = Fate::Done;
        } else {
            self.back_or_buried(next, held.job, Row { spent: row.spent + 1, ..row });
        }
    }

    /// An attempt is over and counts: the job waits again, or becomes a dead letter.
    fn back_or_buried(&self, next: &mut State, job: u8, row: Row) {
        if row.attempt >= ATTEMPTS {
            next.rows[index(job)] = None;
            next.fates[index(job)][index(row.send)] = Fate::Dead;
        } else {
            next.rows[index(job)] = Some(self.freed(row));
        }
    }

    /// `release_unknown`, `retire_node`: no handler ran to its end, so it costs no attempt.
    fn give_back(&self, row: &mut Row) {
        *row = self.freed(Row { attempt: row.attempt.saturating_sub(1), ..*row });
    }

    fn freed(&self, row: Row) -> Row {
        // The number stays with the row, but is read only when claims count up from it.
        let version = if self.rules.claimers_draw_numbers { 0 } else { row.version };
        Row { owner: 0, version, claim: 0, ..row }
    }

    /// `InFlight::release_unknown`, up to the release of the lock: notes what is known, and the number from which on claims are later.
    fn look(&self, state: &State, next: &mut State, process: u8) -> Option<()> {
        let looker = state.processes[index(process)];
        let claiming = looker.request.is_some_and(|request| request.awaited);
        if looker.node == 0 || looker.noted.is_some() || self.rules.looks_exclude_claims && claiming {
            return None;
        }
        let due = looker.looks > 0;
        // The last check after a lost answer waits until that statement can no longer run.
        let straggler = looker.request.is_some_and(|request| !request.awaited);
        if due && self.rules.looks_twice && looker.looks == 1 && straggler || !due && !self.rules.looks_now_and_then {
            return None;
        }
        // Other checks find nothing, whatever happens before they read the rows.
        if !(due || self.has_lost(state, &looker) || looker.request.is_some() || looker.drawn != 0) {
            return None;
        }
        let note = Some(looker.note(state.claims + 1));
        next.processes[index(process)].looks = looker.looks.saturating_sub(1);
        next.processes[index(process)].noted = note;
        Some(())
    }

    /// Whether a process owns a row without knowing it.
    fn has_lost(&self, state: &State, process: &Process) -> bool {
        let note = process.note(state.claims + 1);
        (0..).zip(state.rows).any(|(job, row): (u8, _)| {
            row.is_some_and(|row| row.owner == process.node && !note.spares(row, job, self.rules.looks_compare_claims))
        })
    }

    /// `release_unknown`: gives back rows by what was noted before.
    fn walk(&self, next: &mut State, process: u8) -> Option<()> {
        let looker = next.processes[index(process)];
        let note = looker.noted?;
        for (job, row) in (0..).zip(next.rows.iter_mut()) {
            let Some(row) = row else { continue };
            if row.owner != looker.node || note.spares(*row, job, self.rules.looks_compare_claims) {
                continue;
            }
            let coming = looker.request.is_some_and(|request| request.awaited && request.claim == row.claim);
            let here = looker.hand.iter().flatten().any(|held| held.claim == row.claim);
            if (coming || here) && self.watches(Promise::WhatIsInHandStays) {
                next.broken = Some(Promise::WhatIsInHandStays);
            }
            self.give_back(row);
        }
        next.processes[index(process)].noted = None;
        Some(())
    }

    fn note(&self, state: &mut State, promise: Promise) {
        if self.watches(promise) {
            state.broken = Some(promise);
        }
    }
}

/// `stale_claims`: notifies handlers whose claims are no longer current to stop. Cancellations of jobs no longer in flight are forgotten.
fn listen(state: &State, process: &mut Process) -> Option<()> {
    let before = *process;
    let in_hand = |gone: &(u8, u8)| before.hand.iter().flatten().any(|held| (held.job, held.version) == *gone);
    process.gone = process.gone.filter(in_hand);
    for held in process.hand.iter_mut().flatten().filter(|held| held.phase == Phase::Running) {
        let current = |row: super::Row| row.owner == held.node && row.version == held.version;
        if held.node == before.node && !state.rows[index(held.job)].is_some_and(current) {
            held.phase = Phase::Told;
            process.gone = Some((held.job, held.version));
        }
    }
    (*process != before).then_some(())
}

/// Forgets a statement that has ended and is not awaited.
fn kept(request: Request) -> Option<Request> {
    let over = !matches!(request.progress, Progress::Sent | Progress::Open);
    (request.awaited || !over).then_some(request)
}

impl Process {
    /// Notifies the handlers to stop, and leaves the node to be retired.
    fn end_node_session(&mut self) {
        // A former node that could not be retired in time is left to the others.
        self.former = std::mem::take(&mut self.node);
        self.request = self.request.and_then(|request| kept(Request { awaited: false, ..request }));
        self.looks = 0;
        self.drawn = 0;
        self.noted = None;
        self.gone = None;
        for held in self.hand.iter_mut().flatten().filter(|held| held.phase == Phase::Running) {
            held.phase = Phase::Told;
        }
    }
}
