//! Which figures the measurements have, and which of them have limits.

use std::time::Duration;

use super::figures::{Figure, Figures, Unit};
use super::held::Held;
use super::idle::{Idle, Start};
use super::killed::{self, Killed};
use super::load::Load;
use super::restart::Restart;

/// What an idle node may have and cost, and how long a restart may take.
const CONNECTIONS_OF_A_NODE: f64 = 3.0;
const TRANSACTIONS_OF_A_NODE: f64 = 0.3;
/// The same while jobs wait that may not start.
const TRANSACTIONS_BEHIND_A_RULE: f64 = 0.5;
const BACK_WITHIN: f64 = 30.0;

/// A measurement of the fleet and of few nodes, each with its number of nodes.
pub(super) type Both<T> = [(usize, T); 2];

/// Returns the figure of all nodes, with the ratio of what each node has.
fn total<T: Copy>(name: &str, both: &Both<T>, of: impl Fn(T) -> usize) -> Figure {
    let [(nodes, many), (few_nodes, few)] = *both;
    let (many, few) = (of(many) as f64, of(few) as f64);
    Figure::new(name, Unit::Whole, many).beside(few, (many / nodes as f64) / (few / few_nodes as f64))
}

/// Returns the figure of a node or of a job.
fn each<T: Copy>(name: &str, unit: Unit, both: &Both<T>, of: impl Fn(T, f64) -> f64) -> Figure {
    let [(nodes, many), (few_nodes, few)] = *both;
    let (many, few) = (of(many, nodes as f64), of(few, few_nodes as f64));
    Figure::new(name, unit, many).beside(few, many / few)
}

/// The same, unless the server's processor time could not be read.
fn processor<T: Copy>(figures: &mut Figures, name: &str, both: &Both<T>, of: impl Fn(T, f64) -> Option<f64>) {
    let [(nodes, many), (few_nodes, few)] = *both;
    match of(many, nodes as f64).zip(of(few, few_nodes as f64)) {
        Some((many, few)) => figures.add(Figure::new(name, Unit::Milliseconds, many).beside(few, many / few)),
        None => {
            figures
                .note(format!("{name}: not known, because the server is not on this machine or /proc can't be read"));
        }
    }
}

pub(super) fn start(figures: &mut Figures, both: &Both<Start>) {
    figures.add(each("start: until all are ready", Unit::Seconds, both, |start, _| start.seconds));
    figures.add(total("start: most connections", both, |start| start.most));
    figures.add(total("start: connections once settled", both, |start| start.settled));
}

pub(super) fn idle(figures: &mut Figures, both: &Both<Idle>) {
    figures.add(
        each("idle: connections of a node", Unit::Mean, both, |idle, nodes| idle.connections as f64 / nodes)
            .at_most(CONNECTIONS_OF_A_NODE),
    );
    figures.add(each("idle: transactions a second, all nodes", Unit::Mean, both, |idle, _| idle.transactions));
    figures.add(
        each("idle: transactions a second of a node", Unit::Mean, both, |idle, nodes| idle.transactions / nodes)
            .at_most(TRANSACTIONS_OF_A_NODE),
    );
    processor(figures, "idle: PostgreSQL's CPU a second, all nodes", both, |idle, _| idle.cpu);
    processor(figures, "idle: PostgreSQL's CPU a second, for a node", both, |idle, nodes| Some(idle.cpu? / nodes));
}

pub(super) fn held(figures: &mut Figures, both: &Both<Held>) {
    let of_a_node = |name: &str, of: fn(Held) -> Idle| {
        let name = format!("behind {name}: transactions a second of a node");
        each(&name, Unit::Mean, both, |held, nodes| of(held).transactions / nodes).at_most(TRANSACTIONS_BEHIND_A_RULE)
    };
    figures.add(of_a_node("a full limit", |held| held.full));
    figures.add(of_a_node("a paused queue", |held| held.paused));
}

pub(super) fn load(figures: &mut Figures, both: &Both<Load>, rate: usize) {
    figures.add(each("load: jobs", Unit::Whole, both, |load, _| load.jobs as f64));
    figures.add(each(&format!("load: jobs a second, of {rate} asked for"), Unit::Mean, both, |load, _| load.rate));
    figures.add(total("load: most connections", both, |load| load.connections));
    figures.add(total("load: connections once settled", both, |load| load.afterwards));
    figures.add(each("load: transactions a job", Unit::Mean, both, |load, _| load.transactions));
    processor(figures, "load: PostgreSQL's CPU a job", both, |load, _| load.cpu);
}

pub(super) fn restart(figures: &mut Figures, restart: &Restart) {
    figures.add(Figure::new("restart: the server was away", Unit::Seconds, restart.away));
    figures.add(Figure::new("restart: from then until all are back", Unit::Seconds, restart.back).at_most(BACK_WITHIN));
    let mut whole = |name: &str, value: usize| figures.add(Figure::new(name, Unit::Whole, value as f64));
    whole("restart: nodes that were not ready", restart.not_ready);
    whole("restart: connections until all are back", restart.connections);
    whole("restart: connections in the worst second", restart.most_in_a_second);
    whole("restart: jobs before, during and after", restart.jobs);
    whole("restart: sends that failed", restart.failed);
}

pub(super) fn killed(figures: &mut Figures, killed: &Killed, lease: Duration) {
    figures.add(Figure::new("killed half: nodes", Unit::Whole, killed.nodes as f64));
    figures.add(Figure::new("killed half: jobs that it ran", Unit::Whole, killed.jobs as f64));
    figures.add(Figure::new("killed half: until the first runs again", Unit::Seconds, killed.first));
    figures
        .add(Figure::new("killed half: until all run again", Unit::Seconds, killed.all).at_most(killed::limit(lease)));
}
