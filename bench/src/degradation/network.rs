//! The database a millisecond further away.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::config::Host;

use super::plain;
use crate::Result;
use crate::cases::send::{alone, waited};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, with_address};

/// The delay of answers.
const LATER: Duration = Duration::from_millis(1);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let config: tokio_postgres::Config = bench.url().parse()?;
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        report.note("a database further away: not run, because the server is not reached over TCP");
        return Ok(());
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let far = with_address(bench.url(), distant(host.clone(), port)?);

    let drain = plain(bench);
    let sends = bench.args.count(1000, 100);
    let (mut drained, mut near) = (Vec::new(), Vec::new());
    let (mut sent, mut sent_near) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        near.push(drain.run(bench).await?);
        drained.push(drain.run_by(bench, &far).await?);
        for (url, times) in [(bench.url(), &mut sent_near), (&*far, &mut sent)] {
            let schema = bench.schema().await?;
            let services = schema.services_by(url).await?;
            times.push(waited(&alone(&services, sends, crate::load::plain).await?, 0.5));
            drop(services);
            bench.drop(schema).await?;
        }
    }
    eprintln!("  {LATER:?} later: {drained:.0?} beside {near:.0?}");
    let label = format!("drain of {} jobs, each answer of the database {LATER:?} later", drain.jobs);
    report.add(Line::new(label, Unit::PerSecond, drained).limit(format!("drain of {} plain jobs", drain.jobs), near));
    let label = format!("send alone and commit, {LATER:?} later, p50");
    report.add(Line::new(label, Unit::Milliseconds, sent).limit("the same without delay", sent_near));
    Ok(())
}

/// Listens for connections to a server whose answers come [`LATER`]. It uses threads and blocking sockets, because timers of the runtime are no finer
/// than the delay. They end with their connections.
fn distant(host: String, port: u16) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let connected = TcpStream::connect((&*host, port)).and_then(|upstream| connect(client, upstream));
            if let Err(error) = connected {
                eprintln!("a connection to {host}, port {port}, failed: {error}");
            }
        }
    });
    Ok(address)
}

fn connect(client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asks, mut asked) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut asks, &mut asked);
        let _ = asked.shutdown(std::net::Shutdown::Write);
    });
    let (on_its_way, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    let mut answers = server;
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read) = answers.read(&mut buffer)
            && read > 0
            && on_its_way.send((Instant::now() + LATER, buffer[..read].to_vec())).is_ok()
        {}
    });
    let mut answered = client;
    thread::spawn(move || {
        for (due, bytes) in arriving {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if answered.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = answered.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}
