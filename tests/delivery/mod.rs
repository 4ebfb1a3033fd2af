//! Deliveries through RabbitMQ: which jobs a commit publishes, which executor runs them, what external programs see, and everything that can go
//! wrong. After each fault the ledger is checked: every committed job took effect, and none twice.
//!
//! The order of jobs is not checked: groups, which promise one, are claimed from the table (`blocked_jobs`).
//!
//! # Known failures of other systems
//!
//! Systems that send from an outbox through a broker have failed in known ways. Each is a test here:
//!
//! | failure | test |
//! |---|---|
//! | messages kept during an outage are not sent until a restart | `faults_broker`, all three; `relay::events_wait_for_the_broker` |
//! | one kind of message is not kept, and is dropped after some tries | `faults_broker::absent_…`: jobs, events, external jobs and reports |
//! | the database fails briefly, and a delivery is neither acked nor given back | `faults_network::the_database_fails_while_deliveries_come`, `submissions_wait_for_the_database` |
//! | after a crash nothing sends the messages that are left | `faults_process::a_producer_is_killed_between_commit_and_publish`, `publishing::a_held_row_…` |
//! | recovery and the live handler run the same message | `faults_queues::deliveries_come_again_and_again`, `busy_executors::long_handlers_hold_no_deliveries` |
//! | a wrong or missing broker is contacted again and again | `busy_executors::without_a_broker`, `faults_queues::returned_as_unroutable` |
//! | one ack for several messages acks unfinished ones | `faults_process::deliveries_of_a_killed_executor_run_elsewhere` |
//! | no confirms, no handling of returned messages | `faults_network::confirms_are_lost_…`, `faults_queues::returned_as_unroutable`, `relay::a_reply_…` |
//! | two relays publish the same message, or block each other | `relay::two_relays_publish_each_event_once` |
//! | rows are locked while a delivery waits | `busy_executors::kinds_that_are_…`, `long_handlers_hold_no_deliveries` |
//! | a message is sent again, or removed, while it is processed | `faults_queues::deliveries_come_again_and_again`, `publishing::deliveries_that_are_stale_run_nothing` |
//! | messages that could not be sent are not visible | `relay::a_reply_reaches_its_queue_or_becomes_a_dead_letter`, `publishing::rubbish_…` |
//! | the broker loses what it has confirmed | `faults_broker::killed_and_restarted_then_wiped_under_load`, `faults_queues::purged_under_load` |
//! | confirms are dropped when a channel ends; a publish waits forever | `faults_network::channels_are_closed_…`, `half_open_connections_under_load` |

pub(crate) mod amqp_client;
mod blocked_jobs;
mod busy_executors;
mod direct_reply;
mod expensive_submissions;
mod external;
mod faults_broker;
mod faults_network;
mod faults_process;
mod faults_queues;
mod frames;
mod intake;
mod intake_limits;
mod large_messages;
mod load;
mod multi_row_deliveries;
mod nested_headers;
mod poison_messages;
mod publishing;
pub(crate) mod raw_frames;
mod redelivered;
mod relay;
mod report_tokens;
pub(crate) mod site;
mod soak;
mod stopped;
mod submit_rules;
mod taken_over;
mod unanswered;
mod undecided;
mod undelivered_jobs;
mod worker_process;
