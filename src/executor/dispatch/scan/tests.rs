use crate::executor::dispatch::scan::*;
use crate::job::NewJob;
use crate::store::testing::{job, message};

const MS: Duration = Duration::from_millis(1);

/// Makes jobs of these ranks and numbers, as a claim returns them.
fn jobs(places: &[(i16, i64)]) -> Vec<Job> {
    let at = |(rank, seq): &(i16, i64)| {
        let message = message(NewJob::json("kind", &1).priority(-rank)).unwrap();
        job(message, *seq, 1, 1, jiff::Timestamp::UNIX_EPOCH)
    };
    places.iter().map(at).collect()
}

/// Returns the cursors that a scan starts from, if any.
fn after(plan: &ScanPlan) -> Option<Vec<(i16, i64)>> {
    match plan.range() {
        ScanRange::After { cursors, .. } => Some(cursors.iter().map(|cursor| (cursor.rank, cursor.seq)).collect()),
        ScanRange::All | ScanRange::UpTo(_) => None,
    }
}

fn is_whole(plan: &ScanPlan) -> bool {
    plan.range() == ScanRange::All
}

/// Returns where a scan for rows that were passed over ends.
fn passed_over(plan: &ScanPlan) -> Option<(i16, i64)> {
    match plan.range() {
        ScanRange::UpTo(last) => Some((last.rank, last.seq)),
        ScanRange::All | ScanRange::After { .. } => None,
    }
}

fn shared_cursor(plan: &ScanPlan) -> Option<SharedCursor> {
    match plan.range() {
        ScanRange::After { shared_cursor, .. } => shared_cursor,
        ScanRange::All | ScanRange::UpTo(_) => None,
    }
}

/// Runs one scan that takes `cost` and finds these jobs, of the given number asked for.
fn look(scan: &mut Scan, now: &mut Instant, cost: Duration, places: &[(i16, i64)], asked: usize) -> (ScanPlan, bool) {
    let plan = scan.next(*now, asked);
    *now += cost;
    let claimed = Claimed { jobs: jobs(places), reserved_from: None, allowed: None };
    let again = scan.found(&plan, &claimed, asked, *now);
    (plan, again)
}

#[test]
fn a_backlog_is_scanned_from_the_newest_cursors_and_ends_with_a_scan_of_everything() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let (first, again) = look(&mut scan, &mut now, MS, &[(-5, 90), (0, 7)], 2);
    assert!(is_whole(&first) && again && scan.has_backlog());
    let (second, again) = look(&mut scan, &mut now, MS, &[(0, 8), (0, 9)], 2);
    assert_eq!((after(&second), again), (Some(vec![(-5, 90), (0, 7)]), true));
    let (third, again) = look(&mut scan, &mut now, MS, &[(0, 12)], 2);
    assert_eq!((after(&third), again), (Some(vec![(-5, 90), (0, 9)]), true), "something may have been passed over");
    let (last, again) = look(&mut scan, &mut now, MS, &[], 2);
    assert!(is_whole(&last) && !again && !scan.has_backlog());
}

#[test]
fn without_a_backlog_a_scan_starts_where_the_last_one_was_a_moment_ago() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let mut seq = 0;
    let mut starts = Vec::new();
    for _ in 0..60 {
        seq += 1;
        let (look, again) = look(&mut scan, &mut now, MS, &[(0, seq)], 10);
        assert!(
            !again || scan.wanted_at().is_some_and(|at| at <= now),
            "again, and not because a scan from the start is due"
        );
        if let Some(cursors) = after(&look) {
            starts.push((seq, cursors.first().map_or(0, |cursor| cursor.1)));
        }
        now += 99 * MS;
    }
    // At ten scans a second, the scan starts behind rows taken 0.5 to 1 s ago.
    assert!(starts.iter().all(|(seq, start)| (5..=11).contains(&(seq - start)) || *start == 0), "{starts:?}");
    assert!(starts.iter().any(|(_, start)| *start > 0), "{starts:?}");
}

#[test]
fn looks_from_the_start_come_when_they_are_owed_and_every_second() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    assert!(is_whole(&look(&mut scan, &mut now, MS, &[(0, 1)], 2).0));
    assert!(!is_whole(&look(&mut scan, &mut now, MS, &[(0, 2)], 2).0));
    scan.owe();
    assert_eq!(scan.wanted_at().map(|at| at <= now), Some(true));
    assert!(is_whole(&look(&mut scan, &mut now, MS, &[(0, 3)], 2).0));
    assert_eq!(scan.wanted_at(), None, "an idle queue is left alone");
    assert!(!is_whole(&look(&mut scan, &mut now, 500 * MS, &[(0, 4)], 2).0));
    now += 800 * MS;
    assert!(is_whole(&look(&mut scan, &mut now, MS, &[(0, 5)], 2).0));
}

/// Runs scans of 10 ms for a given time, each taking a row of a backlog. Returns where those from the start ended, with the last row taken
/// then.
fn drain(scan: &mut Scan, now: &mut Instant, seq: &mut i64, for_ms: u32) -> Vec<((i16, i64), i64)> {
    let until = *now + for_ms * MS;
    let mut ends = Vec::new();
    while *now < until {
        let taken = [(0, *seq + 1)];
        let next = scan.next(*now, 1);
        *now += 10 * MS;
        assert!(!is_whole(&next), "a backlog has no look at everything");
        let found = if let Some(end) = passed_over(&next) {
            ends.push((end, *seq));
            &[][..]
        } else {
            *seq += 1;
            &taken[..]
        };
        let again = scan.found(&next, &Claimed { jobs: jobs(found), reserved_from: None, allowed: None }, 1, *now);
        assert!(again && scan.has_backlog(), "the backlog goes on, whatever was passed over");
    }
    ends
}

#[test]
fn in_a_backlog_passed_over_rows_are_looked_for_and_no_more() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let mut seq = 0;
    look(&mut scan, &mut now, MS, &[(0, 0)], 1);
    let ends = drain(&mut scan, &mut now, &mut seq, 5000);
    assert!((3..=5).contains(&ends.len()), "once a second, when there is something old enough: {ends:?}");
    // These rows were taken 0.5 to 1 s before, at a row each 10 ms.
    assert!(ends.iter().all(|((rank, end), last)| *rank == 0 && (45..=105).contains(&(last - end))), "{ends:?}");
    // When asked for, it comes at once.
    scan.owe();
    let next = scan.next(now, 1);
    assert!(passed_over(&next).is_some());
    assert!(
        scan.found(&next, &Claimed { jobs: jobs(&[(0, 3)]), reserved_from: None, allowed: None }, 1, now),
        "it was filled"
    );
    assert!(after(&scan.next(now, 1)).is_some(), "it is not repeated at once");
}

#[test]
fn what_was_passed_over_of_better_ranks_is_looked_for_too() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    look(&mut scan, &mut now, MS, &[(-3, 900), (0, 1)], 2);
    for _ in 0..2 {
        now += 600 * MS;
        scan.turn(now);
    }
    scan.owe();
    let (next, _) = look(&mut scan, &mut now, MS, &[], 1);
    assert_eq!(passed_over(&next), Some((0, 1)), "all of rank -3 is before that");
    // A backlog of a better rank came. Rows behind its end wait until it is over.
    look(&mut scan, &mut now, MS, &[(-2, 5)], 1);
    scan.owe();
    assert_eq!(passed_over(&scan.next(now, 1)), Some((-3, 900)));
}

#[test]
fn what_a_look_from_the_marks_passed_over_waits_for_a_second_at_most() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    look(&mut scan, &mut now, MS, &[(0, 1)], 10);
    let full = now;
    now += 300 * MS;
    assert!(!is_whole(&look(&mut scan, &mut now, MS, &[], 10).0));
    let at = scan.wanted_at().unwrap();
    assert!(at > now && at <= full + 1200 * MS);
    now = at;
    assert!(is_whole(&look(&mut scan, &mut now, MS, &[], 10).0));
    assert_eq!(scan.wanted_at(), None);
}

#[test]
fn marks_are_kept_for_few_ranks() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    for rank in 0..200 {
        look(&mut scan, &mut now, MS, &[(rank, 7), (-1, i64::from(rank))], 2);
    }
    assert!((1..=RANKS).contains(&scan.newest.len()) && scan.newest.contains_key(&-1), "{:?}", scan.newest);
    let many: Vec<_> = (0..200).map(|rank| (rank, 9)).collect();
    look(&mut scan, &mut now, MS, &many, 200);
    assert_eq!(scan.newest.len(), RANKS);
}

#[test]
fn an_expensive_look_from_the_start_is_followed_by_a_rest() {
    // Under a backlog, and without one.
    for asked in [1, 2] {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let begun = now;
        let mut from_start = 0;
        for seq in 2..40_000 {
            // A scan from the start is asked for again and again.
            scan.owe();
            let next = scan.next(now, asked);
            from_start += u32::from(next.is_from_start());
            now += if next.is_from_start() { 3000 * MS } else { 10 * MS };
            scan.found(&next, &Claimed { jobs: jobs(&[(0, seq)]), reserved_from: None, allowed: None }, asked, now);
        }
        let share = f64::from(from_start * 3000) / (now - begun).as_millis() as f64;
        assert!(from_start > 1 && share < 0.07, "{from_start} scans from the start, {share}");
    }
}

/// Time that a scan spends on taking many rows, or on a busy server, does not count as time spent on dead rows.
#[test]
fn a_look_from_the_start_that_costs_what_others_cost_needs_no_rest() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    look(&mut scan, &mut now, MS, &[(0, 1)], 1);
    look(&mut scan, &mut now, 80 * MS, &[(0, 2)], 1);
    look(&mut scan, &mut now, 80 * MS, &[], 1);
    let (last, _) = look(&mut scan, &mut now, 90 * MS, &[(0, 3)], 2);
    assert!(is_whole(&last));
    scan.owe();
    assert_eq!(scan.wanted_at().map(|at| at <= now), Some(true));
}

#[test]
fn looks_go_on_from_the_marks_when_one_from_the_start_takes_too_long() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    look(&mut scan, &mut now, MS, &[(0, 1)], 2);
    for _ in 0..2 {
        now += 600 * MS;
        scan.turn(now);
    }
    let whole = scan.next(now, 1);
    assert!(is_whole(&whole));
    now += 30_000 * MS;
    scan.failed(&whole, now);
    let next = scan.next(now, 1);
    assert_eq!(after(&next), Some(vec![(0, 1)]));
    assert!(scan.wanted_at() > Some(now + 20_000 * MS), "it is still owed");
}

/// A server that went silent costs a scan its deadline, and says nothing about the cost of the next one.
#[test]
fn looks_from_the_start_that_fail_one_after_the_other_rest_longer_each_time() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let rest = |scan: &mut Scan, now: &mut Instant| {
        let plan = scan.next(*now, 1);
        assert!(is_whole(&plan));
        *now += 5000 * MS;
        scan.failed(&plan, *now);
        let rest = scan.wanted_at().unwrap() - *now;
        *now += rest;
        rest.as_secs()
    };
    let rests: Vec<u64> = (0..7).map(|_| rest(&mut scan, &mut now)).collect();
    assert_eq!(rests, [5, 10, 20, 40, 80, 80, 80]);
    look(&mut scan, &mut now, MS, &[], 1);
    scan.owe();
    assert_eq!(rest(&mut scan, &mut now), 5, "one that was answered begins from the start");
}

#[test]
fn a_backlog_is_shared_but_by_scans_from_the_start() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let backlog = |from: i64| (from..from + 100).map(|seq| (0, seq)).collect::<Vec<_>>();
    assert_eq!(shared_cursor(&look(&mut scan, &mut now, MS, &backlog(0), 100).0), None);
    let shared = Some(SharedCursor { rank: 0, span: 100, reserved_until: None });
    assert_eq!(
        shared_cursor(&look(&mut scan, &mut now, MS, &backlog(100), 100).0),
        shared,
        "the first look told how dense it is"
    );
    look(&mut scan, &mut now, MS, &backlog(200), 100);
    for _ in 0..2 {
        now += 600 * MS;
        scan.turn(now);
    }
    let (passed, _) = look(&mut scan, &mut now, MS, &backlog(0), 100);
    assert_eq!((passed_over(&passed), shared_cursor(&passed)), (Some((0, 299)), None));
    assert_eq!(shared_cursor(&look(&mut scan, &mut now, MS, &backlog(300), 100).0), shared, "it is still known");
    look(&mut scan, &mut now, MS, &[(0, 400)], 100);
    look(&mut scan, &mut now, MS, &[], 100);
    let next = scan.next(now, 100);
    assert!(after(&next).is_some() && shared_cursor(&next).is_none(), "it is over");
}

#[test]
fn what_was_set_aside_for_a_look_that_failed_is_looked_for() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    let backlog: Vec<_> = (0..100).map(|seq| (0, seq)).collect();
    look(&mut scan, &mut now, MS, &backlog, 100);
    let failed = scan.next(now, 100);
    assert!(shared_cursor(&failed).is_some());
    scan.failed(&failed, now);
    assert!(is_whole(&scan.next(now, 100)));
}

/// A scan for kinds that have no jobs would walk over all rows that the other kinds left dead.
#[test]
fn who_found_nothing_starts_where_the_others_are() {
    let mut now = Instant::now();
    let (mut busy, mut idle) = (Scan::new(now), Scan::new(now));
    let mut walked = Vec::new();
    for seq in (2..4000).step_by(2) {
        look(&mut busy, &mut now, MS, &[(0, seq), (0, seq + 1)], 2);
        let (looked, _) = look(&mut idle, &mut now, MS, &[], 2);
        assert!(idle.saw_all());
        idle.start_with(&busy);
        if let Some(cursors) = after(&looked) {
            walked.push(seq - cursors.first().map_or(0, |cursor| cursor.1));
        }
    }
    // One to two times the slack, at two rows in 2 ms, once it has begun.
    assert!(walked[1000..].iter().all(|rows| (500..=1100).contains(rows)), "{:?}", walked[1000..].iter().max());
}

/// A transaction of many jobs commits behind rows of other kinds that were taken meanwhile: its jobs are drained one scan after the other, without
/// any from the start.
#[test]
fn a_backlog_before_the_cursors_of_other_kinds_is_drained_from_its_own() {
    let mut now = Instant::now();
    let (mut busy, mut limited) = (Scan::new(now), Scan::new(now));
    for seq in [1000, 1001, 1002] {
        look(&mut busy, &mut now, 600 * MS, &[(0, seq)], 10);
    }
    look(&mut limited, &mut now, MS, &[], 2);
    assert!(limited.saw_all());
    limited.start_with(&busy);
    assert!(limited.floor[&0] >= 1000);
    look(&mut limited, &mut now, MS, &[(0, 900), (0, 901)], 2);
    for seq in (902..1000).step_by(2) {
        let (scan, _) = look(&mut limited, &mut now, MS, &[(0, seq), (0, seq + 1)], 2);
        assert_eq!(after(&scan), Some(vec![(0, seq - 1)]));
    }
}

/// A kind with a backlog in one rank does not walk over what others left behind in another.
#[test]
fn a_backlog_starts_from_the_floor_in_other_ranks() {
    let mut now = Instant::now();
    let (mut busy, mut limited) = (Scan::new(now), Scan::new(now));
    for seq in [1000, 1001, 1002] {
        look(&mut busy, &mut now, 600 * MS, &[(-5, seq)], 10);
    }
    look(&mut limited, &mut now, MS, &[(0, 7)], 2);
    limited.start_with(&busy);
    look(&mut limited, &mut now, MS, &[(0, 8), (0, 9)], 2);
    let (scan, _) = look(&mut limited, &mut now, MS, &[(0, 10), (0, 11)], 2);
    let start = after(&scan).unwrap();
    assert!(start[0].0 == -5 && start[0].1 >= 1000 && start[1] == (0, 9), "{start:?}");
}

/// While its limit refuses it, others go on. Its first scan after that does not start where it was long before.
#[test]
fn who_was_refused_for_long_starts_from_the_floor() {
    let mut now = Instant::now();
    let (mut busy, mut limited) = (Scan::new(now), Scan::new(now));
    look(&mut limited, &mut now, MS, &[(0, 7)], 2);
    for seq in 1000..1010 {
        look(&mut busy, &mut now, 600 * MS, &[(0, seq)], 10);
    }
    limited.start_with(&busy);
    let floor = busy.earliest[&0];
    for _ in 0..3 {
        let plan = limited.next(now, 2);
        limited.saw_nothing(&plan);
        now += 600 * MS;
    }
    let starts: Vec<_> = (0..3).filter_map(|_| after(&look(&mut limited, &mut now, MS, &[], 2).0)).collect();
    assert!(!starts.is_empty() && starts.iter().all(|start| start[0].1 >= floor), "{starts:?} {floor}");
}

#[test]
fn who_did_not_see_the_end_starts_where_it_was() {
    let mut now = Instant::now();
    let mut scan = Scan::new(now);
    look(&mut scan, &mut now, MS, &[(0, 7), (0, 8)], 2);
    assert!(!scan.saw_all(), "there may be more of its kinds");
    look(&mut scan, &mut now, MS, &[(0, 9)], 2);
    assert!(scan.saw_all() && !scan.saw_all());
}
