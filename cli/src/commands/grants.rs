//! `jobwright grants`.

use jobwright::internal::Backend;
use jobwright::{AnyTransaction, MessageServices};

use crate::args::GrantsArgs;
use crate::commands::connect_database;
use crate::config::Settings;
use crate::failure::Failure;
use crate::grants::Purpose;
use crate::output::{print, say};

pub(crate) async fn run(settings: &Settings, args: &GrantsArgs) -> Result<(), Failure> {
    if !matches!(settings.database.backend()?, Backend::Postgres(_)) {
        return Err(Failure::Failed(
            "only PostgreSQL has roles: a user who may open the file of an embedded database may do everything"
                .to_owned(),
        ));
    }
    if !args.queue.is_empty() && args.purpose != Purpose::Worker {
        return Err(Failure::Usage(format!(
            "a {} has no queues of its own: --queue is for the purpose worker",
            args.purpose.name()
        )));
    }
    let statements = args.purpose.statements(&args.with, &args.queue, &settings.database.schema, &args.role);
    if !args.apply {
        return print(statements);
    }
    let messages: MessageServices<_> = connect_database(settings).await?;
    let mut context = messages.begin();
    if let AnyTransaction::Postgres(transaction) = context.transaction().await? {
        transaction.batch_execute(&statements).await.map_err(|error| {
            let why = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
            Failure::Failed(format!(
                "the rights of a {} could not be granted to {}: {why}; nothing was changed. Run it as the owner of the schema, \
                 after `jobwright migrate`",
                args.purpose.name(),
                args.role
            ))
        })?;
    }
    context.commit().await?;
    say(format!("{} has the rights of a {} on {}", args.role, args.purpose.name(), messages.admin().describe()));
    Ok(())
}
