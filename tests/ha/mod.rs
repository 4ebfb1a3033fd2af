//! A whole server is lost and another takes over: clusters of PostgreSQL and of RabbitMQ, broken under load, with exact accounting afterwards. `cargo
//! xtask ha` runs the scenarios one by one and prints a table; the ordinary suite skips them.

mod accounting;
mod cluster;
mod handler_barriers;
mod load;
mod lost_tail;
mod patroni;
mod postgres;
mod rabbit;
mod scenario;
mod server_processes;
