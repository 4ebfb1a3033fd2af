//! The actions that can happen to a database that loses commits, and to its clients.

actions! {
    Send: "the next job is sent";
    Replicate: "the standby is as the primary is (or: a backup is made)";
    Failover { old_serves }: "{}", if old_serves {
        "the standby is promoted; the old primary goes on serving those who are connected to it"
    } else {
        "the primary is gone, and the standby takes its place"
    };
    Restore: "the backup is restored, with the same timeline";
    OldEnds: "the old primary stops serving";
    Claim { process, job }: "{process} claims {job}";
    Finish { process, hand }: "{process}'s handler {hand} reports that it succeeded";
    Drop { process, hand }: "{process}'s handler {hand} ends without an outcome";
    Look { process }: "{process} gives back what it owns and does not know";
    Heartbeat { process }: "{process} sends a heartbeat, hears the answer and ends its node";
    Retire { process }: "{process} retires its former node";
    Crash { process }: "{process} crashes";
    Register { process, heartbeat_old, work_old }: "{process} registers a new node on {}; its work is connected to {}",
        server(heartbeat_old), server(work_old);
    Connect { process, heartbeat, old }: "the connections of {process}{} are replaced and lead to {}",
        if heartbeat { ", for its heartbeat," } else { "" }, server(old);
    Declare { node }: "node {node} is declared dead";
    Release { job }: "{job}, whose owner is dead or unknown, is released";
}

fn server(old: bool) -> &'static str {
    if old { "the old primary" } else { "the primary" }
}
