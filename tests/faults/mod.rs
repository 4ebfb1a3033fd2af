//! Processes die, networks break and servers go away: nothing is lost, nothing takes effect twice, and nothing has to be restarted by hand.

mod faults_claims;
mod faults_clock;
mod faults_clock_set;
mod faults_database;
mod faults_leases;
mod faults_lost_answers;
mod faults_outage;
mod faults_process;
mod faults_server;
mod faults_suspects;
mod faults_unrecorded;
mod faults_zombie;
mod killed;
mod ledger_worker;
