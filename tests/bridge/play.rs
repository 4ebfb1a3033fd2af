//! What all subjects have in common when they are played.

use jobwright::store::Store as _;
use jobwright_model::check;
use jobwright_model::vocabulary::Subject;

use crate::support::chance::Chance;
use crate::support::{Jobs, TestDb};

/// Steps of a random path.
const STEPS: usize = 80;

/// Steps until everything has come right, at most.
const REPAIR: usize = 200;

/// Why the two differ.
pub(crate) type Result<T> = std::result::Result<T, String>;

type StateOf<P> = <<P as Player>::Subject as Subject>::State;
type ActionOf<P> = <<P as Player>::Subject as Subject>::Action;

/// Does to a store what actions of a model say, and compares.
pub(crate) trait Player {
    type Subject: Subject;

    fn subject(&self) -> &Self::Subject;

    /// Where the model is.
    fn state(&self) -> &StateOf<Self>;

    /// Whether a test can do it here. That the model allows it is asked besides.
    fn wanted(_: &StateOf<Self>, _: ActionOf<Self>) -> bool {
        true
    }

    async fn play(&mut self, action: ActionOf<Self>) -> Result<()>;

    /// What else must be true of a store when everything has come right.
    async fn rests(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Goes the path, and then on as a world without further faults does, until everything has come right. Says how many of the steps could be gone.
pub(crate) async fn play<P: Player>(mut player: P, path: &[ActionOf<P>], what: &str) -> usize {
    let mut gone = Vec::new();
    for action in path {
        step(&mut player, *action, what, &mut gone).await;
    }
    let played = gone.len();
    while let Some(action) = player.subject().repair(player.state()) {
        assert!(gone.len() < played + REPAIR, "{what}: it does not come to rest\nafter\n{}", gone.join("\n"));
        if !step(&mut player, action, what, &mut gone).await {
            // The world would go on in a way that a test can't.
            return played;
        }
    }
    assert!(player.subject().at_rest(player.state()), "{what}: the model is not at rest");
    if let Err(why) = player.rests().await {
        panic!("{what}: {why}\nat rest after\n{}", gone.join("\n"));
    }
    played
}

/// Whether it could be gone.
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

/// Random ways through a subject, each with its name, of steps in an order as `orderly` asks for.
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

/// Stores with connections of their own, as processes have them.
pub(crate) async fn processes<T: TestDb>(db: &T, count: usize) -> Vec<Jobs> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(Jobs(db.reopen().await.jobs()));
    }
    stores
}

#[allow(clippy::needless_pass_by_value, reason = "it reads better where it is used")]
pub(crate) fn same<V: PartialEq + std::fmt::Debug>(what: &str, real: V, model: V) -> Result<()> {
    if real == model { Ok(()) } else { Err(format!("{what}: the store says {real:?}, the model {model:?}")) }
}
