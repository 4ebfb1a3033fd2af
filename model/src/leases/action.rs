//! The actions that can happen to a group.

actions! {
    Round: "a round finds nothing to admit";
    Arrive: "what was under way is done at last";
    Free: "the permit that a dead node has is freed";
    Send { job }: "{job} is sent";
    Admit { job }: "{job} is admitted";
    Cancel { job }: "{job} is cancelled";
    Release { job }: "{job}, whose owner is dead, is released";
    Claim { process, job, answered }: "{process} claims {job}{answered}";
    ClaimNext { process, most, answered }: "{process} records what ended, and takes {}{answered}",
        if most == 0 { "nothing".to_owned() } else { format!("the next, {most} at most") };
    Commit { process, answered }: "{process}'s handler commits, and its end with it{answered}";
    GiveUp { process, commits }: "{process}{}", if commits {
        "'s handler commits; it gives up waiting, and the commit is still under way"
    } else {
        " records what ended; it gives up waiting, and the statement is still under way"
    };
    Told { process, hand }: "{process} hears that number {hand} in its hand is gone, and drops it";
    Start { process }: "{process} starts the first handler that waits in it";
    Succeed { process }: "{process}'s handler succeeds; that is yet to be recorded";
    Fail { process }: "{process}'s handler fails, which is recorded";
    GiveBack { process }: "{process} gives back what has not started";
    Look { process }: "{process} gives back what it owns and does not know";
    Note { process }: "{process} is going to look at slots, and notes which it knows";
    LookAtPermits { process }: "{process} frees the permit that it has and does not know";
    Fence { process }: "{process} stops its handlers: its node could not report in time";
    Crash { process }: "{process} crashes";
    Register { process }: "{process} registers a new node";
    Declare { node }: "node {node} is declared dead";
}
