//! Many executors on one database, as separate programs would be: how they start, what they cost while they are idle and under load, and how they come
//! through a restart of the database and the death of half of them.

mod args;
mod connections;
mod figures;
mod held;
mod idle;
mod killed;
mod ledger;
mod lines;
mod load;
mod member;
mod nodes;
mod observer;
mod private_server;
mod processes;
mod restart;
mod site;

#[cfg(test)]
pub(crate) use args::CASES;
pub(crate) use args::{FleetArgs, MemberArgs, parse, parse_member};
use figures::Figures;
use held::Held;
use idle::{Idle, Start};
use ledger::Sent;
use load::Load;
pub(crate) use member::run as run_member;
use restart::Restart;
use site::Site;

use crate::Result;

/// Nodes that the fleet is compared with.
const FEW: usize = 10;

/// What was measured with executors of this process.
struct Measured {
    start: Start,
    idle: Option<Idle>,
    held: Option<Held>,
    load: Option<Load>,
    restart: Option<Restart>,
}

/// Measures what is asked for and prints it. Fails if a job was lost or started twice.
pub(crate) async fn run(args: &FleetArgs) -> Result<()> {
    let site = unless_interrupted(Site::open(args.nodes.max(FEW))).await?;
    let measured = unless_interrupted(async {
        let mut figures = Figures::new(args.nodes, FEW, site.describe().await?);
        let cases = Box::pin(cases(&site, args, &mut figures)).await;
        figures.finish();
        print!("{}", figures.markdown());
        if let Some(file) = &args.json {
            std::fs::write(file, figures.json()).map_err(|e| format!("{} can't be written: {e}", file.display()))?;
        }
        cases.and(Ok(figures))
    })
    .await;
    // Also after a failure: nothing stays on the server.
    let closed = site.close().await;
    let figures = measured?;
    closed?;
    if !figures.problems.is_empty() {
        return Err(figures.problems.join("; ").into());
    }
    match figures.missed() {
        missed if args.check && !missed.is_empty() => Err(format!("above the limit: {}", missed.join(", ")).into()),
        _ => Ok(()),
    }
}

async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into).and(Err("interrupted".into())),
    }
}

async fn cases(site: &Site, args: &FleetArgs, figures: &mut Figures) -> Result<()> {
    if ["start", "idle", "held", "load", "restart"].iter().any(|case| args.demand(case)) {
        let many = measure(site, args, (args.nodes, true), figures).await?;
        if ["start", "idle", "held", "load"].iter().any(|case| args.demand(case)) {
            let few = measure(site, args, (FEW, false), figures).await?;
            if args.demand("start") {
                lines::start(figures, &[(args.nodes, many.start), (FEW, few.start)]);
            }
            if let Some((many, few)) = many.idle.zip(few.idle) {
                lines::idle(figures, &[(args.nodes, many), (FEW, few)]);
            }
            if let Some((many, few)) = many.held.zip(few.held) {
                lines::held(figures, &[(args.nodes, many), (FEW, few)]);
            }
            if let Some((many, few)) = many.load.zip(few.load) {
                lines::load(figures, &[(args.nodes, many), (FEW, few)], args.rate);
            }
        }
        if let Some(restart) = &many.restart {
            lines::restart(figures, restart);
        }
    }
    if args.demand("killed") {
        eprintln!("killed, {} nodes …", args.nodes);
        let tables = site.tables().await?;
        let killed = killed::run(site, &tables, args.nodes, args.lease, &mut figures.problems).await?;
        lines::killed(figures, &killed, args.lease);
    }
    Ok(())
}

/// Measures this many nodes from their start to their end. The database is restarted under the whole fleet only.
async fn measure(
    site: &Site,
    args: &FleetArgs,
    (nodes, is_whole): (usize, bool),
    figures: &mut Figures,
) -> Result<Measured> {
    eprintln!("start, {nodes} nodes …");
    let tables = site.tables().await?;
    let (fleet, start) = idle::start(site, &tables, nodes, args.lease).await?;
    let mut measured = Measured { start, idle: None, held: None, load: None, restart: None };
    let mut sent = Sent::default();
    if args.demand("idle") {
        eprintln!("idle, {nodes} nodes …");
        measured.idle = Some(idle::run(site, args.window).await?);
    }
    if args.demand("held") {
        eprintln!("held, {nodes} nodes …");
        measured.held = Some(Box::pin(held::run(site, &tables, &fleet, args.window, &mut sent)).await?);
    }
    if args.demand("load") {
        eprintln!("load, {nodes} nodes …");
        let asked = (args.rate, args.window);
        measured.load = Some(load::run(site, &tables, &fleet, asked, (&mut sent, &mut figures.problems)).await?);
    }
    if args.demand("restart") && is_whole {
        if let Some(server) = &site.private {
            eprintln!("restart, {nodes} nodes …");
            let more = (args.lease, &mut figures.problems);
            measured.restart = Some(restart::run((site, server), &tables, &fleet, &mut sent, more).await?);
        } else {
            figures.note("restart: left out, because the server of DATABASE_URL is not the benchmark's to restart");
        }
    }
    fleet.stop().await?;
    Ok(measured)
}
