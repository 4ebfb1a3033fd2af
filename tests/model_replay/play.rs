//! Shared by all subjects when they are played.

use jobwright::Store as _;
use jobwright_model::check;
use jobwright_model::vocabulary::{Steps, Subject};

use crate::support::seeded_random::Chance;
use crate::support::{Jobs, TestDb};

/// Steps of a random path.
const STEPS: usize = 80;

/// The most steps of a repair.
const REPAIR: usize = 200;

/// The error describes the difference.
pub(crate) type Result<T> = std::result::Result<T, String>;

type StateOf<P> = <<P as Player>::Subject as Steps>::State;
type ActionOf<P> = <<P as Player>::Subject as Steps>::Action;

/// Applies a model's actions to a store, and compares.
pub(crate) trait Player {
    type Subject: Subject;

    fn subject(&self) -> &Self::Subject;

    /// Returns the model's state.
    fn state(&self) -> &StateOf<Self>;

    /// Whether a test can do this action here. Whether the model allows it is checked separately.
    fn wanted(_: &StateOf<Self>, _: ActionOf<Self>) -> bool {
        true
    }

    async fn play(&mut self, action: ActionOf<Self>) -> Result<()>;

    /// Checks what else must be true of a store after the repair.
    async fn rests(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Plays the path, and then the repair in a world without further faults, until nothing is left to do. Returns how many steps were possible.
pub(crate) async fn play<P: Player>(mut player: P, path: &[ActionOf<P>], what: &str) -> usize {
    let mut gone = Vec::new();
    for action in path {
        step(&mut player, *action, what, &mut gone).await;
    }
    let played = gone.len();
    while let Some(action) = player.subject().repair(player.state()) {
        assert!(gone.len() < played + REPAIR, "{what}: it does not come to rest\nafter\n{}", gone.join("\n"));
        if !step(&mut player, action, what, &mut gone).await {
            // The repair would continue in a way that a test can't.
            return played;
        }
    }
    assert!(player.subject().at_rest(player.state()), "{what}: the model is not at rest");
    if let Err(why) = player.rests().await {
        panic!("{what}: {why}\nat rest after\n{}", gone.join("\n"));
    }
    played
}

/// Plays a step, and returns whether it was possible.
async fn step<P: Player>(player: &mut P, action: ActionOf<P>, what: &str, gone: &mut Vec<String>) -> bool {
    let state = player.state();
    if !P::wanted(state, action) || player.subject().step(state, action).is_none() {
        return false;
    }
    gone.push(action.to_string());
    if let Err(why) = player.play(action).await {
        panic!("{what}: {why}\nafter\n{}", gone.join("\n"));
    }
    true
}

/// Returns random paths through a subject, each with its name, of steps that `orderly` allows.
pub(crate) fn random_paths<P: Player>(
    subject: &P::Subject,
    count: u64,
    orderly: impl Fn(&StateOf<P>, ActionOf<P>) -> bool,
) -> impl Iterator<Item = (String, Vec<ActionOf<P>>)> {
    let paths = std::env::var("JOBWRIGHT_BRIDGE_PATHS").ok().map_or(count, |text| text.parse().unwrap());
    (0..paths).map(move |seed| {
        let mut chance = Chance::new(seed);
        let path = check::walk(
            subject,
            STEPS,
            |state, action| P::wanted(state, action) && orderly(state, action),
            |among| chance.below(among),
        );
        (format!("path {seed}"), path)
    })
}

/// Returns stores with separate connections, as processes have them.
pub(crate) async fn processes<T: TestDb>(db: &T, count: usize) -> Vec<Jobs> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(Jobs(db.reopen().await.engine()));
    }
    stores
}

#[allow(clippy::needless_pass_by_value, reason = "it reads better where it is used")]
pub(crate) fn same<V: PartialEq + std::fmt::Debug>(what: &str, real: V, model: V) -> Result<()> {
    if real == model { Ok(()) } else { Err(format!("{what}: the store says {real:?}, the model {model:?}")) }
}
