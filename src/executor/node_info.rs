//! A node's description of itself, for the others and for people.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::executor::ExternalQueue;
use crate::executor::kinds::kind::Kinds;
use crate::store::{NodeInfo, Serves};

/// Describes the node of this process.
pub(crate) fn describe(name: Option<String>, lease: Duration, serves: Serves) -> NodeInfo {
    let (host, pid) = (host_name(), std::process::id());
    NodeInfo::new(name.unwrap_or_else(|| format!("{host}:{pid}")), host, pid, lease).serves(serves)
}

/// Describes the work of an executor.
pub(crate) fn serves(queues: &BTreeMap<String, usize>, kinds: &Kinds, external: &[ExternalQueue]) -> Serves {
    Serves {
        queues: queues.iter().map(|(name, slots)| (name.clone(), *slots as u64)).collect(),
        kinds: kinds.keys().cloned().collect(),
        external: external.iter().map(|queue| queue.name().to_owned()).collect(),
    }
}

/// Returns the host name. It is only shown to people, so a missing name is no error.
fn host_name() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
