//! The effect of each action.

use super::{
    Action, Held, IN_FLIGHT, Leases, MAX_GROUP_CLAIM, Noted, PROCESSES, PermitHolder, Process, Report, Row, RowState,
    SENDS, Stage, State,
};
use crate::kernel::index;
use crate::vocabulary::{Rules, Steps};

impl Process {
    /// Adds a job. The claimer has checked that there is a free place.
    fn take(&mut self, job: u8, claim: u8, in_group_run: bool) {
        if let Some(free) = self.hand.iter_mut().find(|held| held.is_none()) {
            *free = Some(Held { claim, job, in_group_run, stage: Stage::Waits });
        }
    }

    /// Ends its running handler.
    fn stop(&mut self) -> Option<Held> {
        self.hand.iter_mut().find(|held| held.is_some_and(|held| held.stage == Stage::Runs))?.take()
    }

    fn drop_if(&mut self, over: impl Fn(&Held) -> bool) {
        for held in &mut self.hand {
            *held = held.filter(|held| !over(held));
        }
    }

    fn knows(&self, job: u8, claim: u8) -> bool {
        self.held().any(|held| (held.job, held.claim) == (job, claim))
    }

    /// Returns the parameters of a group claim. It names its lease when no other job under it is left.
    fn report(&self, rules: &Rules, most: u8, number: u8) -> Option<Report> {
        let ended =
            self.hand.map(|held| held.filter(|held| held.stage == Stage::Ended).map(|held| (held.job, held.claim)));
        let lease = self.lease.filter(|_| self.line_is_over() && !(self.doubts && rules.group_runs_wait_for_commits));
        let ends = ended.iter().any(Option::is_some);
        let says = ends || (lease.is_some() && rules.idle_leases_are_given_back);
        says.then_some(Report { node: self.node, ended, lease, most, number, commits: false })
    }

    /// Ends its running handler, which commits its own transaction.
    fn commit(&mut self, number: u8) -> Option<Report> {
        let runs = self.stop()?;
        let mut ended = [None; IN_FLIGHT];
        ended[0] = Some((runs.job, runs.claim));
        Some(Report { node: self.node, ended, lease: None, most: 0, number, commits: true })
    }
}

impl Steps for Leases {
    type State = State;
    type Action = Action;

    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Send { job } => {
                if state.rows[index(job)].is_some() || state.sent[index(job)] >= SENDS {
                    return None;
                }
                next.rows[index(job)] = Some(Row { place: RowState::Blocked, attempt: 0, spent: 0 });
                next.sent[index(job)] += 1;
                next.open = true;
            }
            Action::Admit { job } => {
                let row = state.rows[index(job)].filter(|row| row.place == RowState::Blocked)?;
                if !state.open || state.permit != PermitHolder::Nobody {
                    return None;
                }
                next.permit = PermitHolder::Job(job);
                next.rows[index(job)] = Some(Row { place: RowState::Admitted, ..row });
            }
            Action::Round => {
                let waits = state.rows.iter().flatten().any(|row| row.place == RowState::Blocked);
                if !state.open || (waits && state.permit == PermitHolder::Nobody) {
                    return None;
                }
                next.open = false;
            }
            Action::Cancel { job } => self.cancel(&mut next, job)?,
            Action::Arrive => {
                let late = next.late.take()?;
                if late.commits {
                    self.commit(&mut next, &late);
                } else {
                    self.complete_and_claim_next(&mut next, &late);
                }
            }
            Action::Declare { node } => {
                if state.is_lived(node) {
                    return None;
                }
                next.nodes.declare(node)?;
                if !self.rules.leases_of_the_dead_are_swept {
                    self.free_dead(&mut next);
                }
            }
            Action::Free => {
                self.free_dead(&mut next);
                let is_lease = matches!(state.permit, PermitHolder::Lease { .. });
                if next == *state || (is_lease && !self.rules.leases_of_the_dead_are_swept) {
                    return None;
                }
            }
            Action::Release { job } => {
                let row = state.rows[index(job)]?;
                if !matches!(row.place, RowState::Owned { node, .. } if state.nodes.is_dead(node)) {
                    return None;
                }
                self.release(&mut next, job, row);
            }
            Action::Claim { process, .. }
            | Action::Start { process }
            | Action::Succeed { process }
            | Action::ClaimNext { process, .. }
            | Action::Commit { process, .. }
            | Action::GiveUp { process, .. }
            | Action::Fail { process }
            | Action::GiveBack { process }
            | Action::Told { process, .. }
            | Action::Look { process }
            | Action::Note { process }
            | Action::LookAtPermits { process }
            | Action::Fence { process }
            | Action::Crash { process }
            | Action::Register { process } => {
                let mut at = state.processes[index(process)];
                if (at.node == 0) != matches!(action, Action::Register { .. }) {
                    return None;
                }
                self.act(&mut next, &mut at, action)?;
                // Jobs in flight are sorted in the order of claims, so that their positions do not matter.
                at.hand.sort_unstable_by_key(|held| held.map_or((u8::MAX, 0), |held| (held.claim, held.job)));
                next.processes[index(process)] = at;
                if next == *state {
                    return None;
                }
            }
        }
        Some(next)
    }

    /// Deaths, statements in flight, checks of what is owned, handlers, admission, claims.
    fn repair(&self, state: &State) -> Option<Action> {
        let processes = || 0..PROCESSES as u8;
        let jobs = || 0..self.jobs;
        let possible = |action: &Action| self.step(state, *action).is_some();
        let told = |process| (0..IN_FLIGHT as u8).map(move |hand| Action::Told { process, hand });
        let works = |process| {
            [
                Action::Start { process },
                Action::Succeed { process },
                Action::ClaimNext { process, most: MAX_GROUP_CLAIM, answered: true },
            ]
        };
        let looks = |process| [Action::Look { process }, Action::LookAtPermits { process }];
        let registers = processes().map(|process| Action::Register { process });
        let deaths = state.nodes.all().map(|node| Action::Declare { node });
        let released =
            [Action::Arrive].into_iter().chain(jobs().map(|job| Action::Release { job })).chain([Action::Free]);
        let claims =
            jobs().flat_map(|job| processes().map(move |process| Action::Claim { process, job, answered: true }));
        registers
            .chain(deaths)
            .chain(released)
            .chain(processes().flat_map(looks))
            .chain(processes().flat_map(told))
            .chain(processes().flat_map(works))
            .chain(jobs().map(|job| Action::Admit { job }))
            .chain(claims)
            .chain([Action::Round])
            .find(possible)
    }
}

impl Leases {
    fn cancel(&self, next: &mut State, job: u8) -> Option<()> {
        let row = next.rows[index(job)].take()?;
        match row.place {
            RowState::Owned { node, claim, in_group_run: false } if next.permit == PermitHolder::Job(job) => {
                next.permit = PermitHolder::Left { node, claim };
            }
            // The lease stays: its handler may run, and so may others of the group run.
            RowState::Owned { node, in_group_run: true, .. } => {
                let leased = matches!(next.permit, PermitHolder::Lease { node: of, .. } if of == node);
                if leased && !self.rules.leases_outlive_cancellations {
                    next.free();
                }
            }
            RowState::Admitted => next.free_of(job),
            RowState::Blocked | RowState::Owned { .. } => {}
        }
        Some(())
    }

    fn free_dead(&self, next: &mut State) {
        let nodes = next.nodes;
        // A row that can't be released yet is locked by its own handler's commit, which may be in flight.
        let line_is_left =
            next.rows.iter().flatten().any(
                |row| matches!(row.place, RowState::Owned { node, in_group_run: true, .. } if nodes.is_dead(node)),
            );
        if line_is_left
            && self.rules.leases_outlive_dead_group_runs
            && matches!(next.permit, PermitHolder::Lease { .. })
        {
            return;
        }
        match next.permit {
            PermitHolder::Left { node, .. } if next.nodes.is_dead(node) => next.free(),
            PermitHolder::Lease { node, .. } if next.nodes.is_dead(node) && self.rules.leases_of_the_dead_are_freed => {
                next.free();
            }
            _ => {}
        }
    }

    /// Applies an action of a process.
    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn act(&self, next: &mut State, at: &mut Process, action: Action) -> Option<()> {
        let node = at.node;
        match action {
            Action::Claim { job, answered, .. } => {
                let row = next.rows[index(job)].filter(|row| row.place == RowState::Admitted)?;
                if at.hand.iter().all(Option::is_some) || next.nodes.is_dead(node) {
                    return None;
                }
                let claim = next.draw();
                next.own(job, row, node, claim, false);
                if answered {
                    at.take(job, claim, false);
                }
                next.faults.lost += u8::from(!answered);
            }
            Action::Start { .. } => {
                let line_waits = at.held().any(|held| held.in_group_run && held.stage == Stage::Runs)
                    || (at.doubts && self.rules.group_runs_wait_for_commits);
                let may = |held: &&mut Held| held.stage == Stage::Waits && !(held.in_group_run && line_waits);
                at.hand.iter_mut().flatten().find(may)?.stage = Stage::Runs;
            }
            Action::Succeed { .. } => {
                at.hand.iter_mut().flatten().find(|held| held.stage == Stage::Runs)?.stage = Stage::Ended;
            }
            Action::ClaimNext { most, answered, .. } => {
                let report = at.report(&self.rules, most, next.claims + 1)?;
                let kept = at.held().filter(|held| held.stage != Stage::Ended).count();
                if most > 0 && (!at.line_is_over() || kept + usize::from(most) > IN_FLIGHT) {
                    return None;
                }
                let taken = self.complete_and_claim_next(next, &report);
                next.claims += u8::from(taken.jobs > 0);
                if answered {
                    at.drop_if(|held| held.stage == Stage::Ended);
                    (0..self.jobs)
                        .filter(|job| taken.jobs >> job & 1 == 1)
                        .for_each(|job| at.take(job, report.number, true));
                    if report.lease.is_some() || taken.lease.is_some() {
                        at.lease = taken.lease;
                    }
                } else {
                    self.doubt_lease(at, &report);
                    next.faults.lost += 1;
                }
            }
            Action::Commit { answered, .. } => {
                let report = at.commit(next.claims + 1)?;
                if self.commit(next, &report) {
                    next.claims += 1;
                    at.lease = answered.then_some(report.number);
                }
                at.doubts |= !answered;
                next.faults.lost += u8::from(!answered);
            }
            Action::GiveUp { commits, .. } => {
                if next.late.is_some() {
                    return None;
                }
                let number = next.draw();
                at.doubts |= commits;
                next.late = Some(if commits {
                    at.commit(number)?
                } else {
                    let report = at.report(&self.rules, if at.line_is_over() { MAX_GROUP_CLAIM } else { 0 }, number)?;
                    self.doubt_lease(at, &report);
                    report
                });
                next.faults.late += 1;
            }
            Action::Fail { .. } => {
                let runs = at.stop()?;
                if let Some(row) = self.accepts(next, node, runs.job, runs.claim) {
                    // It is due again later, and then is blocked on its key again.
                    next.rows[index(runs.job)] = Self::spend(row).map(|row| Row { place: RowState::Blocked, ..row });
                    next.free_of(runs.job);
                    next.open = true;
                } else {
                    next.handler_ended(node, runs.claim);
                }
            }
            Action::GiveBack { .. } => {
                for held in at.hand.into_iter().flatten().filter(|held| held.stage == Stage::Waits) {
                    if let Some(row) = self.accepts(next, node, held.job, held.claim) {
                        self.give_back(next, held.job, row);
                    } else {
                        next.handler_ended(node, held.claim);
                    }
                }
                at.drop_if(|held| held.stage == Stage::Waits);
            }
            Action::Told { hand, .. } => {
                let held = at.hand[index(hand)]?;
                if held.stage == Stage::Ended || next.row_of(node, held.job, held.claim).is_some() {
                    return None;
                }
                at.drop_if(|other| *other == held);
                next.handler_ended(node, held.claim);
            }
            Action::Look { .. } => {
                at.doubts = false;
                for job in 0..self.jobs {
                    let Some(row) = next.rows[index(job)] else { continue };
                    if matches!(row.place, RowState::Owned { node: owner, claim, .. } if owner == node && !at.knows(job, claim))
                    {
                        self.give_back(next, job, row);
                    }
                }
            }
            Action::Note { .. } => {
                if at.noted.is_some() {
                    return None;
                }
                at.noted = Some(Noted { lease: at.lease, newest: next.claims });
                next.faults.stale += 1;
            }
            Action::LookAtPermits { .. } => {
                let noted = at.noted.take();
                let known = noted.map_or(at.lease, |noted| noted.lease);
                let is_later =
                    |number| self.rules.looks_spare_later_leases && noted.is_some_and(|noted| number > noted.newest);
                match next.permit {
                    PermitHolder::Left { node: of, claim }
                        if of == node && at.held().all(|held| held.claim != claim) =>
                    {
                        next.free();
                    }
                    PermitHolder::Lease { node: of, number }
                        if of == node && known != Some(number) && !is_later(number) && self.rules.looks_see_leases =>
                    {
                        next.free();
                    }
                    _ => {}
                }
            }
            Action::Fence { .. } | Action::Crash { .. } => {
                *at = Process::default();
                next.faults.deaths += 1;
            }
            Action::Register { .. } => {
                at.node = next.nodes.register();
            }
            _ => return None,
        }
        Some(())
    }

    /// The answer to a group claim got lost, so the state of the lease that it named is unknown. If it named none, nothing can have happened to the
    /// lease.
    fn doubt_lease(&self, at: &mut Process, report: &Report) {
        if report.lease.is_some() || !self.rules.unnamed_leases_stay {
            at.lease = None;
        }
    }
}
