//! The model of claims and the real stores, side by side: paths through the model are played to a database, and after each step its rows
//! must be those of the model. So neither can be changed alone (docs/model.md).
//!
//! A store answers when its statement is over, so a statement that the server has begun commits before anything else happens. What
//! lies between, the model alone explores, and `claims_meet_the_death_of_their_node` and its like try.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod player;

use jobwright_model::check;
use jobwright_model::claims::{Action, Bounds, Claims, Faults, Progress, State};
use jobwright_model::vocabulary::{Promise, Rules};

use self::player::Player;
use self::support::TestDb;
use self::support::chance::Chance;

/// Steps of a random path.
const STEPS: usize = 80;

fn claims(rules: Rules, claims: u8, faults: u8, only: Option<Promise>) -> Claims {
    let faults = Faults { crashes: faults, deaths: faults, lost: faults };
    Claims { rules, bounds: Bounds { jobs: 2, sends: 2, processes: 2, claims, faults }, only }
}

/// What was begun is committed first.
fn at_once(state: &State, action: Action) -> bool {
    let open =
        |process: usize| state.processes[process].request.is_some_and(|request| request.progress == Progress::Open);
    let begun = (0..state.processes.len()).find(|process| open(*process));
    begun.is_none_or(|process| action == Action::Commit { process: process as u8 })
}

async fn random_paths<T: TestDb>(db: &T) {
    let subject = claims(Rules::BUILT, 12, 2, None);
    let paths = std::env::var("JOBWRIGHT_BRIDGE_PATHS").ok().map_or(20, |text| text.parse().unwrap());
    for seed in 0..paths {
        let mut chance = Chance::new(seed);
        let path = check::walk(&subject, STEPS, at_once, |among| chance.below(among));
        play(db, subject, &path, &format!("path {seed}")).await;
    }
}

/// What breaks a twin must not break what is built: its shortest path, as far as it can be gone.
async fn ways_to_break_the_twins<T: TestDb>(db: &T) {
    let twins = [
        (Rules { outcomes_are_fenced: false, ..Rules::BUILT }, Promise::OutcomesAreTheirOwn),
        (Rules { claimers_draw_numbers: false, ..Rules::BUILT }, Promise::OutcomesAreTheirOwn),
        (Rules { claimers_draw_numbers: false, ..Rules::BUILT }, Promise::NobodyEndsUnasked),
        (
            Rules { looks_compare_claims: false, looks_now_and_then: false, ..Rules::BUILT },
            Promise::EverythingComesRight,
        ),
    ];
    for (rules, promise) in twins {
        let mut twin = claims(rules, 3, 1, Some(promise));
        twin.bounds = Bounds { jobs: 1, processes: 1, ..twin.bounds };
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let built = Claims { rules: Rules::BUILT, only: None, ..twin };
        // Where the harm shows only in what a world without further faults makes of it, that is gone too.
        let path = [refuted.path.as_slice(), &refuted.repair].concat();
        let played = play(db, built, &path, &refuted.to_string()).await;
        assert!(played + 1 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

/// Says how many of the steps could be gone.
async fn play<T: TestDb>(db: &T, subject: Claims, path: &[Action], what: &str) -> usize {
    db.clear().await;
    let mut player = Player::new(db, subject).await;
    let mut gone = Vec::new();
    for action in path {
        if !player.can(*action) {
            continue;
        }
        gone.push(action.to_string());
        if let Err(why) = player.play(*action).await {
            panic!("{what}: {why}\nafter\n{}", gone.join("\n"));
        }
    }
    gone.len()
}

macro_rules! bridge {
    ($($place:ident: $db:ty,)*) => {
        $(mod $place {
            use crate::support::TestDb;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn random_paths() {
                if let Some(db) = <$db>::create().await {
                    crate::random_paths(&db).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn ways_to_break_the_twins() {
                if let Some(db) = <$db>::create().await {
                    crate::ways_to_break_the_twins(&db).await;
                }
            }
        })*
    };
}

bridge! {
    oracle: crate::support::oracle::Oracle,
    postgres: crate::support::postgres::Pg<false>,
}

#[cfg(feature = "sqlite")]
bridge! {
    sqlite: crate::support::sqlite::SqliteDb,
}
