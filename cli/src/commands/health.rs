//! `jobwright health`: asks a worker how it is.

use std::time::Duration;

use ureq::Agent;

use super::http;
use crate::args::{HealthArgs, Probe};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::print;

/// An answer is a few lines: a longer one is not that of a worker.
const LONGEST: u64 = 64 * 1024;

pub(crate) async fn run(settings: &Settings, args: &HealthArgs) -> Result<(), Failure> {
    let Some(address) = http::configured(settings, args.address.as_ref()) else {
        return Err(Failure::Usage(
            "where does the worker listen? Give the port of its `--listen`, as in `jobwright health 9469`, or set \
             `listen` in the section `[http]`"
                .to_owned(),
        ));
    };
    let path = match args.probe {
        Probe::Ready => "readyz",
        Probe::Live => "livez",
        Probe::Startup => "startupz",
    };
    let (place, timeout) = (address.reached(), args.timeout);
    let url = format!("http://{place}/{path}?verbose");
    let answer = tokio::task::spawn_blocking(move || ask(&url, timeout)).await;
    let (status, text) = answer
        .map_err(|error| Failure::Failed(format!("the request could not be sent: {error}")))?
        .map_err(|error| {
            Failure::Unreachable(format!("no worker answers at {place}: {error}; does it run, with `--listen`?"))
        })?;
    print(text)?;
    match status {
        200 => Ok(()),
        503 => Err(Failure::Failed(format!("the worker at {place} is not healthy"))),
        other => {
            Err(Failure::Failed(format!("no worker answers at {place}, but something else, with HTTP status {other}")))
        }
    }
}

fn ask(url: &str, timeout: Duration) -> Result<(u16, String), ureq::Error> {
    let config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).proxy(None).build();
    let mut response = Agent::new_with_config(config).get(url).call()?;
    let text = response.body_mut().with_config().limit(LONGEST).lossy_utf8(true).read_to_string()?;
    Ok((response.status().as_u16(), text))
}
