use std::sync::Mutex;

use super::*;

const WHY: &str = "there is no such program";

fn breaker() -> (Breakers, Arc<Breaker>) {
    let mut breakers = Breakers::default();
    let breaker = breakers.add("kind", None);
    (breakers, breaker)
}

/// Lets jobs through as soon as the pause is over. Returns the pause.
fn resume(breakers: &Breakers, now: &mut Instant) -> Duration {
    let until = breakers.next_due().expect("it is open");
    assert!(breakers.due(until.checked_sub(Duration::from_millis(1)).unwrap()).is_empty());
    let due = breakers.due(until);
    assert_eq!(due.len(), 1);
    due[0].resume(until);
    let pause = until - *now;
    *now = until;
    pause
}

#[test]
fn pauses_grow_to_a_bound_and_begin_again_after_a_job_that_runs() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        assert_eq!(breaker.refuse(JobId::new(), WHY, now), Refused::Back);
        assert!(breaker.is_open() && breakers.any_open());
        pauses.push(resume(&breakers, &mut now).as_secs());
        assert!(!breaker.is_open() && !breakers.any_open());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    // It began before the trouble was over, so it says nothing.
    breaker.ran(JobId::new(), now.checked_sub(Duration::from_millis(1)).unwrap());
    breaker.refuse(JobId::new(), WHY, now);
    assert_eq!(resume(&breakers, &mut now).as_secs(), 60);
    breaker.ran(JobId::new(), now);
    breaker.refuse(JobId::new(), WHY, now);
    assert_eq!(resume(&breakers, &mut now).as_secs(), 1);
}

#[test]
fn jobs_that_are_refused_together_make_one_pause() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    for _ in 0..10 {
        assert_eq!(breaker.refuse(JobId::new(), WHY, now), Refused::Back);
    }
    assert_eq!(resume(&breakers, &mut now), FIRST_PAUSE);
}

#[test]
fn a_job_that_comes_back_in_the_same_trouble_lets_others_go_first() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    let job = JobId::new();
    assert_eq!(breaker.refuse(job, WHY, now), Refused::Back);
    resume(&breakers, &mut now);
    assert_eq!(breaker.refuse(job, WHY, now), Refused::Later(4 * FIRST_PAUSE));
    resume(&breakers, &mut now);
    breaker.ran(JobId::new(), now);
    // Another trouble.
    assert_eq!(breaker.refuse(job, WHY, now + FIRST_PAUSE), Refused::Back);
}

/// What costs no attempt is bounded all the same.
#[test]
fn a_job_that_others_disprove_again_and_again_has_failed() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    let job = JobId::new();
    for _ in 0..=EXCUSED {
        assert_ne!(breaker.refuse(job, WHY, now), Refused::Failed);
        resume(&breakers, &mut now);
        now += Duration::from_millis(1);
        breaker.ran(JobId::new(), now);
        now += Duration::from_millis(1);
    }
    assert_eq!(breaker.refuse(job, WHY, now), Refused::Failed);
    assert!(!breaker.is_open(), "the others go on");
    // Once it has run, it is a job like any other.
    breaker.ran(job, now + Duration::from_millis(1));
    assert_eq!(breaker.refuse(job, WHY, now + Duration::from_millis(2)), Refused::Back);
}

/// As long as nothing runs, no job is to blame.
#[test]
fn a_job_alone_is_never_at_fault() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    let job = JobId::new();
    for _ in 0..100 {
        assert_ne!(breaker.refuse(job, WHY, now), Refused::Failed);
        resume(&breakers, &mut now);
    }
}

#[test]
fn the_attempt_that_was_refused_does_not_count_as_one_that_ran() {
    let (breakers, breaker) = breaker();
    let began = Instant::now();
    let mut now = began;
    let job = JobId::new();
    breaker.refuse(job, WHY, now);
    resume(&breakers, &mut now);
    let again = now;
    now += Duration::from_millis(5);
    breaker.refuse(job, WHY, now);
    breaker.ran(job, again);
    assert_eq!(resume(&breakers, &mut now), 2 * FIRST_PAUSE);
}

#[test]
fn a_check_keeps_the_kind_out_until_it_passes() {
    let answer = Arc::new(Mutex::new(Err(WHY.to_owned())));
    let asked = answer.clone();
    let mut breakers = Breakers::default();
    let ask = Box::new(move || asked.lock().unwrap().clone());
    let breaker = breakers.add("kind", Some(Check { ask, decides: false }));
    assert!(!breaker.passes() && breaker.is_open());
    assert_eq!(breakers.left_alone()["kind"].0, WHY);
    *answer.lock().unwrap() = Ok(());
    assert!(breaker.passes());
    let mut now = Instant::now();
    resume(&breakers, &mut now);
    assert!(breakers.left_alone().is_empty());
    // The check was all that was wrong, so no job has to prove it.
    breaker.cannot_run(WHY, now);
    assert_eq!(resume(&breakers, &mut now), FIRST_PAUSE);
}

#[test]
fn a_check_that_decides_is_asked_often_and_blames_no_job() {
    let answer = Arc::new(Mutex::new(Err(WHY.to_owned())));
    let asked = answer.clone();
    let mut breakers = Breakers::default();
    let ask = Box::new(move || asked.lock().unwrap().clone());
    let breaker = breakers.add("kind", Some(Check { ask, decides: true }));
    let (mut now, job) = (Instant::now(), JobId::new());
    for _ in 0..20 {
        *answer.lock().unwrap() = Err(WHY.to_owned());
        assert_eq!(breaker.refuse(job, "the job's own text", now), Refused::Back);
        assert_eq!(breakers.left_alone()["kind"].0, WHY, "the check's reason");
        now += ASKED_AGAIN;
        assert_eq!(breakers.due(now).len(), 1);
        breaker.cannot_run(WHY, now);
        *answer.lock().unwrap() = Ok(());
        assert_eq!(resume(&breakers, &mut now), ASKED_AGAIN, "its pause does not grow");
        assert!(breakers.left_alone().is_empty(), "no job has to prove it");
        now += ASKED_AGAIN;
        breaker.ran(JobId::new(), now);
    }
    // It came back from a trouble that is over.
    assert_eq!(breaker.refuse(job, WHY, now), Refused::Back);
    assert!(!breaker.is_open());
}

#[test]
fn each_change_is_seen() {
    let (breakers, breaker) = breaker();
    let mut now = Instant::now();
    let before = breakers.revision();
    breaker.refuse(JobId::new(), WHY, now);
    let open = breakers.revision();
    breaker.refuse(JobId::new(), WHY, now);
    assert_eq!(breakers.revision(), open);
    resume(&breakers, &mut now);
    assert!(before < open && open < breakers.revision());
}

#[test]
fn what_is_remembered_is_bounded() {
    let (_breakers, breaker) = breaker();
    let now = Instant::now();
    for n in 0..10_000 {
        breaker.refuse(JobId::new(), WHY, now + Duration::from_micros(n));
        assert!(breaker.lock().refusals.len() <= REMEMBERED + 1);
    }
}
