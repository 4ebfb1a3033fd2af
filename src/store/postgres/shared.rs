//! The state that all handles of one database share. The modules above it add what they do with it.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Target;
use super::depth_cache::DepthCache;
use super::lock_holder::{HeldCandidates, LockHolders};
use super::passed_over::PassedOver;
use super::pool::Pool;
use super::server::ServerLabel;
use super::statements::Statements;
use super::walk::WalkPosition;
use crate::config::DatabaseConfig;

/// The state that all modules of the store share.
pub(super) struct Shared {
    pub(super) target: Target,
    /// For contexts, unless the application has a pool for them.
    pub(super) user: Pool,
    /// The application's pool for contexts.
    pub(super) application: Option<deadpool_postgres::Pool>,
    /// For the engine.
    pub(super) engine: Pool,
    pub(super) sql: Arc<Statements>,
    pub(super) config: DatabaseConfig,
    pub(super) call_timeout: Duration,
    pub(super) pgbouncer: bool,
    pub(super) depths: DepthCache,
    /// Where the next search for jobs of dead nodes starts.
    pub(super) walked: WalkPosition,
    pub(super) lock_holders: LockHolders,
    pub(super) held_candidates: HeldCandidates,
    pub(super) passed_over: PassedOver,
    /// Names the database and server in errors and logs.
    pub(super) label: ServerLabel,
}
