//! The installation that the database belongs to, and its place.

use std::sync::Arc;

use super::audit::Audit;
use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::rows;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::store::job_operations::check_name;
use crate::store::{Adoption, AffectedJobs, Installation, Place};

pub(super) async fn installation(shared: &Arc<Shared>) -> Result<Installation> {
    const TRIED: &str = "find out to which installation the database belongs";
    let schema = &shared.config.schema;
    let answer = shared.engine(TRIED, &shared.sql.installation, &[schema]).await?;
    let row = rows::single(&answer)?;
    let oid = |number: i64| u32::try_from(number).unwrap_or_default();
    let text = |number: i64| number.to_string();
    let id: Option<String> = rows::get(row, "id")?;
    let recorded = match &id {
        Some(_) => Some(Place {
            server: rows::get::<Option<i64>>(row, "server")?.map(text),
            database_oid: oid(rows::get(row, "recorded_oid")?),
            database: rows::get(row, "recorded_name")?,
            schema: rows::get(row, "recorded_schema")?,
        }),
        None => None,
    };
    let found = Place {
        server: server(shared).await?.map(text),
        database_oid: oid(rows::get(row, "found_oid")?),
        database: rows::get(row, "found_name")?,
        schema: rows::get(row, "found_schema")?,
    };
    Ok(Installation { id, recorded, found: Some(found) })
}

/// Returns the identifier of the server; `None` if this role may not read it.
async fn server(shared: &Arc<Shared>) -> Result<Option<i64>> {
    match shared.engine("read the identifier of the server", &shared.sql.system_identifier, &[]).await {
        Ok(answer) => rows::get(rows::single(&answer)?, 0).map(Some),
        // Only what the server itself answers means that it does not tell.
        Err(error) if error.kind() == ErrorKind::Database => {
            tracing::debug!(%error, "the identifier of the server can't be read: a copy on another server may pass for the original");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn adopt(shared: &Arc<Shared>, adoption: Adoption, by: Option<&str>) -> Result<Installation> {
    const TRIED: &str = "adopt the database";
    check_name(by)?;
    let before = installation(shared).await?;
    let kept = match adoption {
        Adoption::Moved => {
            let gone =
                || Error::new(ErrorKind::Installation, "the database has no id that it could keep: adopt it as a copy");
            Some(before.id.clone().ok_or_else(gone)?)
        }
        Adoption::Copy => None,
    };
    let server: Option<i64> = before.found.as_ref().and_then(|place| place.server.as_ref()?.parse().ok());
    let batch = EngineTransaction::begin(shared, TRIED).await?;
    let params: Params<'_> = &[&kept, &server, &shared.config.schema];
    let answer = batch.query(&shared.sql.adopt, params).await?;
    let id: String = rows::get(rows::single(&answer)?, "id")?;
    if adoption == Adoption::Copy {
        batch.query(&shared.sql.new_report_key, &[]).await?;
    }
    let what = serde_json::json!({ "installation": id, "before": before });
    Audit { by, action: "adopt", what, entry: None }.write(&batch, shared, &AffectedJobs::default()).await?;
    batch.commit().await?;
    installation(shared).await
}
