//! The model and the real stores, side by side: paths through the model are played against a database, and after each step its rows must be those of
//! the model. So neither can be changed alone (docs/model.md).
//!
//! Each process of the model has a store with separate connections. A store returns when its statement is over, so a statement that the server has
//! begun commits before anything else happens. Only the model explores the steps in between; tests like `claims_meet_the_death_of_their_node` try
//! them on real stores.

mod claims;
mod external;
mod groups;
mod identity;
mod play;
mod taken;

/// Defines each way to play each subject, against one kind of database.
macro_rules! bridge {
    ($($place:ident: $db:ty { $($subject:ident)* })*) => {
        $(mod $place {
            $(mod $subject {
                use crate::support::TestDb;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn random_paths() {
                    if let Some(db) = <$db>::create().await {
                        crate::model_replay::$subject::random_paths(&db).await;
                    }
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn ways_to_break_the_twins() {
                    if let Some(db) = <$db>::create().await {
                        crate::model_replay::$subject::ways_to_break_the_twins(&db).await;
                    }
                }
            })*
        })*
    };
}

// The oracle blocks nothing, so it has no groups.
bridge! {
    oracle: crate::support::oracle::Oracle { claims external identity }
    postgres: crate::support::postgres::Pg<false> { claims external groups identity taken }
}

#[cfg(feature = "sqlite")]
bridge! {
    sqlite: crate::support::sqlite::SqliteDb { claims external groups identity }
}
