//! `jobwright why`.

use std::fmt::Write as _;

use jobwright::admin::{HeldUp, JobState, Why};

use super::connect_database;
use super::show::unknown;
use super::slow_notice::with_slow_notice;
use crate::args::WhyArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, harmless, json, print};

pub(crate) async fn run(settings: &Settings, args: &WhyArgs) -> Result<(), Failure> {
    let admin = connect_database(settings).await?.admin();
    let format = args.output.output;
    let Some(id) = args.id else {
        let waiting = admin.why_waiting(args.queue.as_deref(), args.kind.as_deref());
        let held = with_slow_notice(settings, waiting).await?;
        return match format {
            Format::Json => json(&held),
            Format::Table => print(classes(&held)),
        };
    };
    let Some(why) = with_slow_notice(settings, admin.why(id)).await? else {
        return Err(unknown(&admin, id));
    };
    match format {
        Format::Json => json(&why),
        Format::Table => print(sheet(&why)),
    }
}

fn sheet(why: &Why) -> String {
    let Why { id, kind, queue, .. } = why;
    let mut text = format!("job {id} of kind {kind:?} in the queue {queue:?} is {}:\n", adjective(why.state));
    write_reasons(&mut text, why);
    harmless(&text)
}

/// The state of a job, as a word behind "is".
fn adjective(state: JobState) -> &'static str {
    match state {
        JobState::External => "at an external worker",
        JobState::Timer => "a timer",
        state => state.as_str(),
    }
}

fn classes(held: &[HeldUp]) -> String {
    if held.is_empty() {
        return "No job waits.\n".to_owned();
    }
    let mut text = String::new();
    for HeldUp { jobs, example, .. } in held {
        let Why { id, kind, queue, state, .. } = example;
        let of_them = if *jobs == 1 {
            format!("1 job is {state}, {id}")
        } else {
            format!("{jobs} jobs are {state}, for instance {id}")
        };
        // Writing to a string can't fail.
        let _ = writeln!(text, "{of_them}, of kind {kind:?} in the queue {queue:?}:");
        write_reasons(&mut text, example);
    }
    harmless(&text)
}

fn write_reasons(text: &mut String, why: &Why) {
    for reason in &why.reasons {
        let _ = writeln!(text, "  {reason}");
        if let Some(remedy) = reason.remedy(why.id) {
            let _ = writeln!(text, "  → {remedy}");
        }
    }
}
