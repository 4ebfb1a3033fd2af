//! The actions that can happen to claims.

actions! {
    Send { job }: "{job} is sent";
    Cancel { job }: "{job} is cancelled";
    Release { job }: "{job}, whose owner is dead, is released";
    Ask { process, job, born }: "{process} sends {}", if born {
        format!("{job}, to be born owned by its own node")
    } else {
        format!("a claim, which may take {job}")
    };
    Draw { process }: "{process} draws the number of its next claim";
    Execute { process }: "the server runs {process}'s statement";
    Commit { process }: "the server commits {process}'s statement";
    Abort { process }: "the server ends {process}'s transaction";
    Answer { process }: "{process} hears the answer";
    GiveUp { process }: "{process} waits for the answer no longer";
    Listen { process }: "{process} asks which of its claims are gone";
    Look { process }: "{process} notes what it knows, to check what it owns";
    Walk { process }: "{process} gives back what it owns and did not know";
    Heartbeat { process }: "{process} sends a heartbeat and hears the answer";
    Fence { process }: "{process} could not renew its lease and stops its node";
    Retire { process }: "{process} retires its former node";
    Register { process }: "{process} registers a new node";
    Crash { process }: "{process} crashes";
    Report { process, hand, success, answered }: "{process}'s handler {hand} reports that it {}{answered}",
        if success { "succeeded" } else { "failed" };
    EndTold { process, hand }: "{process}'s handler {hand}, which was told to stop, ends without an outcome";
    Declare { node }: "node {node} is declared dead";
}
