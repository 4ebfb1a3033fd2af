//! Deliveries through RabbitMQ: what a commit gives to the broker, who runs it, what foreign programs see; and everything that
//! can go wrong with it. After each fault the ledger is checked: every job that was committed took effect, and none twice.
//!
//! The order of jobs is not looked at: groups, which promise one, go by the table (`gates`).
//!
//! # What others got wrong
//!
//! Systems that send from an outbox through a broker have failed in ways that are known. Each is a test here:
//!
//! | failure | test |
//! |---|---|
//! | what was kept during an outage is not sent until a restart | `faults_broker`, all three; `relay::events_wait_for_the_broker` |
//! | one kind of message is not kept, and dropped after some tries | `faults_broker::absent_…`: jobs, events, external jobs and reports |
//! | the database fails for a moment, and a delivery is neither acked nor given back | `faults_network::the_database_fails_while_deliveries_come`, `submissions_wait_for_the_database` |
//! | after a crash nobody sends what is left | `faults_process::a_producer_is_killed_between_commit_and_publish`, `sending::a_held_row_…` |
//! | recovery and the live handler run the same message | `faults_queues::deliveries_come_again_and_again`, `running::long_handlers_hold_no_deliveries` |
//! | a wrong or missing broker is asked again and again | `running::without_a_broker`, `faults_queues::returned_as_unroutable` |
//! | one ack for several confirms what is not done | `faults_process::an_executor_is_killed_with_deliveries_in_hand` |
//! | no confirms, no handling of returned messages | `faults_network::confirms_are_lost_…`, `faults_queues::returned_as_unroutable`, `relay::a_reply_…` |
//! | two relays publish the same, or get in each other's way | `relay::two_relays_publish_each_event_once` |
//! | rows are locked while a delivery waits | `running::kinds_that_are_…`, `long_handlers_hold_no_deliveries` |
//! | sent again while it is in progress, or removed while it is | `faults_queues::deliveries_come_again_and_again`, `sending::deliveries_that_are_stale_run_nothing` |
//! | nobody sees what could not be sent | `relay::a_reply_reaches_who_asked_and_one_that_cannot_is_a_dead_letter`, `sending::rubbish_…` |
//! | the broker loses what it has confirmed | `faults_broker::killed_and_restarted_then_wiped_under_load`, `faults_queues::purged_under_load` |
//! | confirms are dropped when a channel ends; a publish waits for ever | `faults_network::channels_are_closed_…`, `half_open_connections_under_load` |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod again;
mod client;
mod depth;
mod direct;
mod external;
mod faults_broker;
mod faults_network;
mod faults_process;
mod faults_queues;
mod frames;
mod gates;
mod handing_back;
mod heavy;
mod heavy_out;
mod intake;
mod keeper;
mod limits;
mod load;
mod parcels;
mod poison;
mod raw;
mod relay;
mod running;
mod senders;
mod sending;
mod site;
mod soak;
mod tokens;
mod unanswered;
