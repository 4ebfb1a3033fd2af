use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Returns the next occurrences, by the clock of the zone.
fn following(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::in_zone(text, zone).unwrap();
    let mut last = at(after);
    let next = std::iter::from_fn(|| {
        last = schedule.next_after(last)?;
        Some(last.to_zoned(schedule.zone.clone()).strftime("%m-%d %H:%M:%S%:z").to_string())
    });
    next.take(count).collect()
}

#[track_caller]
fn utc(text: &str, after: &str, expected: &[&str]) {
    let schedule = Schedule::new(text).unwrap().counted_from(at("2026-01-01T00:00:00Z"));
    let mut last = at(after);
    for expected in expected {
        last = schedule.next_after(last).unwrap_or_else(|| panic!("{text} ends before {expected}"));
        assert_eq!(last, at(expected), "{text} after {after}");
    }
}

#[test]
fn fields_lists_ranges_steps_and_names() {
    let start = "2026-01-01T00:00:00Z"; // A Thursday.
    utc("* * * * *", start, &["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]);
    utc("*/20 * * * * *", start, &["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"]);
    utc("30 9 * * MON-FRI", start, &["2026-01-01T09:30:00Z", "2026-01-02T09:30:00Z", "2026-01-05T09:30:00Z"]);
    utc("0 0 1,15 * *", start, &["2026-01-15T00:00:00Z", "2026-02-01T00:00:00Z"]);
    utc("0 8-10/2 * * *", start, &["2026-01-01T08:00:00Z", "2026-01-01T10:00:00Z", "2026-01-02T08:00:00Z"]);
    utc("5/20 0 * * *", start, &["2026-01-01T00:05:00Z", "2026-01-01T00:25:00Z", "2026-01-01T00:45:00Z"]);
    utc("0 0 1 JAN,jul *", start, &["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"]);
    utc(
        "0 0 ? * sat-mon",
        start,
        &["2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-10T00:00:00Z"],
    );
    utc("0 0 * * 7", start, &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]);
    utc("0 0 * * 0", start, &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]);
    utc(
        "0 0 * * 5-7",
        start,
        &["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"],
    );
    utc("0 0 L * *", start, &["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"]);
    // The 13th, and Fridays.
    utc(
        "0 0 13 * FRI",
        start,
        &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"],
    );
}

#[test]
fn words() {
    let start = "2026-01-01T00:00:00Z";
    utc("@hourly", start, &["2026-01-01T01:00:00Z"]);
    utc("@daily", start, &["2026-01-02T00:00:00Z"]);
    utc("@midnight", start, &["2026-01-02T00:00:00Z"]);
    utc("@weekly", start, &["2026-01-04T00:00:00Z"]);
    utc("@monthly", start, &["2026-02-01T00:00:00Z"]);
    utc("@yearly", start, &["2027-01-01T00:00:00Z"]);
    utc("@annually", start, &["2027-01-01T00:00:00Z"]);
}

#[test]
fn ends_of_years_and_leap_days() {
    utc("59 59 23 31 12 *", "2026-12-31T23:59:59Z", &["2027-12-31T23:59:59Z"]);
    utc("0 0 1 1 *", "2026-12-31T23:59:59.999999Z", &["2027-01-01T00:00:00Z"]);
    utc("0 0 29 2 *", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    // 2100 is no leap year.
    utc("0 0 29 2 *", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]);
    utc("0 0 31 * *", "2026-01-31T00:00:00Z", &["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"]);
}

#[test]
fn berlin_in_spring_and_autumn() {
    // 29 March 2026, 02:00 to 03:00 is skipped.
    let before = "2026-03-28T12:00:00Z";
    assert_eq!(following("30 2 * * *", "Europe/Berlin", before, 2), ["03-29 03:00:00+02:00", "03-30 02:30:00+02:00"]);
    let often = following("*/15 2 * * *", "Europe/Berlin", before, 3);
    assert_eq!(often, ["03-29 03:00:00+02:00", "03-30 02:00:00+02:00", "03-30 02:15:00+02:00"], "once");
    let both = following("0,30 2,3 * * *", "Europe/Berlin", before, 3);
    assert_eq!(both, ["03-29 03:00:00+02:00", "03-29 03:30:00+02:00", "03-30 02:00:00+02:00"]);
    // 25 October 2026, 02:00 to 03:00 comes twice.
    let before = "2026-10-24T12:00:00Z";
    assert_eq!(following("30 2 * * *", "Europe/Berlin", before, 2), ["10-25 02:30:00+02:00", "10-26 02:30:00+01:00"]);
    let between = "2026-10-25T01:15:00Z"; // 02:15 for the second time
    assert_eq!(following("30 2 * * *", "Europe/Berlin", between, 1), ["10-26 02:30:00+01:00"]);
    assert_eq!(following("0 3 * * *", "Europe/Berlin", between, 1), ["10-25 03:00:00+01:00"]);
}

#[test]
fn a_line_that_is_bound_to_no_hour_goes_on() {
    let spring = following("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 4);
    assert_eq!(
        spring,
        ["03-29 01:30:00+01:00", "03-29 03:00:00+02:00", "03-29 03:30:00+02:00", "03-29 04:00:00+02:00"]
    );
    let autumn = following("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 5);
    assert_eq!(
        autumn,
        [
            "10-25 02:00:00+02:00",
            "10-25 02:30:00+02:00",
            "10-25 02:00:00+01:00",
            "10-25 02:30:00+01:00",
            "10-25 03:00:00+01:00"
        ]
    );
}

#[test]
fn new_york_in_spring_and_autumn() {
    let spring = following("15 2 * * *", "America/New_York", "2026-03-08T05:00:00Z", 2);
    assert_eq!(spring, ["03-08 03:00:00-04:00", "03-09 02:15:00-04:00"]);
    let autumn = following("15 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", 2);
    assert_eq!(autumn, ["11-01 01:15:00-04:00", "11-02 01:15:00-05:00"]);
}

/// The clock changes by half an hour only.
#[test]
fn lord_howe_in_spring_and_autumn() {
    let spring = following("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 2);
    assert_eq!(spring, ["10-04 02:30:00+11:00", "10-05 02:15:00+11:00"]);
    let beyond = following("45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 1);
    assert_eq!(beyond, ["10-04 02:45:00+11:00"], "this time there is");
    let autumn = following("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", 2);
    assert_eq!(autumn, ["04-05 01:45:00+11:00", "04-06 01:45:00+10:30"]);
    let goes_on = following("0,30 * * * *", "Australia/Lord_Howe", "2026-04-04T14:15:00Z", 3);
    assert_eq!(goes_on, ["04-05 01:30:00+11:00", "04-05 01:30:00+10:30", "04-05 02:00:00+10:30"]);
}

/// Samoa crossed the date line and had no 30 December 2011.
#[test]
fn a_day_that_is_left_out() {
    let days = following("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
    assert_eq!(days, ["12-29 12:00:00-10:00", "12-31 00:00:00+14:00", "12-31 12:00:00+14:00"]);
}

#[test]
fn intervals_and_repetitions() {
    let put = "2026-01-01T00:00:00Z";
    utc("30s", put, &["2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"]);
    utc("30s", "2026-01-01T00:10:01.5Z", &["2026-01-01T00:10:30Z"]);
    utc("PT5M", "2025-01-01T00:00:00Z", &["2026-01-01T00:05:00Z"]);
    utc("R/PT1H", put, &["2026-01-01T01:00:00Z"]);
    utc("R3/2026-02-01T00:00:00Z/P1D", put, &["2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z", "2026-02-03T00:00:00Z"]);
    let ends = |text: &str, last: &str| {
        let schedule = Schedule::new(text).unwrap().counted_from(at(put));
        let almost = at(last).checked_sub(SignedDuration::from_micros(1)).unwrap();
        assert_eq!(schedule.next_after(almost), Some(at(last)), "{text}");
        assert_eq!(schedule.next_after(at(last)), None, "{text}");
    };
    ends("R3/2026-02-01T00:00:00Z/P1D", "2026-02-03T00:00:00Z");
    ends("R5/PT10S", "2026-01-01T00:00:50Z");
    let local = Schedule::in_zone("R/2026-07-01T08:00:00/P1D", "Europe/Berlin").unwrap();
    assert_eq!(local.next_after(at(put)), Some(at("2026-07-01T06:00:00Z")));
    // Without an anchor.
    assert_eq!(Schedule::new("1h").unwrap().next_after(at(put)), Some(at("2026-01-01T01:00:00Z")));
    // A day is 24 hours, whatever the wall clock does.
    let days = Schedule::in_zone("P1D", "Europe/Berlin").unwrap().counted_from(at("2026-03-28T12:00:00Z"));
    assert_eq!(days.next_after(at("2026-03-29T00:00:00Z")), Some(at("2026-03-29T12:00:00Z")));
}

#[test]
fn bad_ones_are_refused_with_the_reason() {
    for (text, why) in [
        ("", "empty"),
        ("soon", "not a duration"),
        ("* * * *", "not 4"),
        ("0 0 0 * * * 2026", "not 7"),
        ("60 * * * *", "0 to 59"),
        ("* 24 * * *", "no hour"),
        ("* * 0 * *", "1 to 31"),
        ("* * 32 * *", "no day of month"),
        ("* * * 13 *", "a name such as JAN"),
        ("* * * * 8", "no day of week"),
        ("* * * * MOM", "a name such as SUN"),
        ("*/0 * * * *", "a step is"),
        ("*/x * * * *", "a step is"),
        ("+5 * * * *", "0 to 59"),
        ("5- * * * *", "0 to 59"),
        (", * * * *", "0 to 59"),
        ("0 22-6 * * *", "22-23,0-6"),
        ("0 0 30 2 *", "30 February"),
        ("0 0 31 4,6,9,11 *", "never happen"),
        ("@reboot", "@reboot"),
        ("0s", "100ms"),
        ("P1M", "months"),
        ("R/2026-01-01T00:00:00Z", "the interval comes last"),
        ("R0/PT1S", "number of repetitions"),
        ("Rx/PT1S", "number of repetitions"),
        ("R/never/PT1S", "not a point in time"),
        ("R/PT1S/2026-01-01T00:00:00Z", "the interval comes last"),
        ("R/a/b/c", "not 4"),
    ] {
        let error = Schedule::new(text).expect_err(text).to_string();
        assert!(error.contains(why) && error.contains("JW-INVALID"), "{text:?}: {error} does not say {why:?}");
    }
    let error = Schedule::in_zone("@daily", "Europe/Bärlin").unwrap_err().to_string();
    assert!(error.contains("Bärlin") && error.contains("tzdata"), "{error}");
    // A day of the week makes it possible.
    Schedule::new("0 0 30 2 MON").unwrap();
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let text = prop_oneof![
        (0..60u32, 0..24u32).prop_map(|(minute, hour)| format!("{minute} {hour} * * *")),
        (1..60u32, 0..24u32).prop_map(|(step, hour)| format!("*/{step} {hour} * * *")),
        (1..60u32, 1..24u32).prop_map(|(minutes, hours)| format!("*/{minutes} */{hours} * * *")),
        (0..60u32, 1..32u32, 0..8u32).prop_map(|(second, day, weekday)| format!("{second} 30 1-3 {day} * {weekday}")),
        (1..29u32, 1..13u32).prop_map(|(day, month)| format!("0 2 {day} {month} *")),
        (100..100_000_000u32).prop_map(|ms| format!("{ms}ms")),
        (1..50u32, 1..100_000u32).prop_map(|(n, s)| format!("R{n}/2026-05-05T05:05:05Z/PT{s}S")),
    ];
    let zone =
        prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]);
    (text, zone)
        .prop_map(|(text, zone)| Schedule::in_zone(&text, zone).unwrap().counted_from(at("2026-01-01T00:00:00Z")))
}

/// Generates times, as often around clock changes as elsewhere.
fn moments() -> impl Strategy<Value = Timestamp> {
    let changes = ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"];
    let more = ["2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z", "2011-12-30T10:00:00Z"];
    let around = prop::sample::select([&changes[..], &more[..]].concat());
    prop_oneof![
        (around, -7_200_000_000i64..7_200_000_000)
            .prop_map(|(change, micros)| { at(change).checked_add(SignedDuration::from_micros(micros)).unwrap() }),
        (0..4_000_000_000_000_000i64).prop_map(|micros| Timestamp::from_microsecond(micros).unwrap()),
    ]
}

proptest! {
    #[test]
    fn the_next_is_after_and_nothing_lies_between(schedule in schedules(), after in moments(), share in 0.0..1.0f64) {
        if let Some(next) = schedule.next_after(after) {
            prop_assert!(next > after);
            let gap = next.duration_since(after).as_micros() as f64;
            let between = after.checked_add(SignedDuration::from_micros((gap * share) as i64)).unwrap();
            if between < next {
                prop_assert_eq!(schedule.next_after(between), Some(next), "asked at {}", between);
            }
        }
    }

    #[test]
    fn a_later_moment_has_no_earlier_next(schedule in schedules(), one in moments(), other in moments()) {
        let (early, late) = (one.min(other), one.max(other));
        let never = Timestamp::MAX;
        let next = |after| schedule.next_after(after).unwrap_or(never);
        prop_assert!(next(early) <= next(late));
    }

    #[test]
    fn the_latest_is_the_last_that_was_due(schedule in schedules(), after in moments(), steps in 0..50usize, late in 0..100i64) {
        let mut due = vec![];
        let mut last = after;
        while let Some(next) = schedule.next_after(last).filter(|_| due.len() <= steps) {
            due.push(next);
            last = next;
        }
        if let (Some(first), Some(last)) = (due.first(), due.last()) {
            let now = last.checked_add(SignedDuration::from_millis(late)).unwrap();
            let expected = std::iter::successors(Some(*last), |at| schedule.next_after(*at).filter(|next| *next <= now)).last();
            prop_assert_eq!(Some(schedule.latest(*first, now)), expected);
        }
    }
}
