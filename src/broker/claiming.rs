//! What executors, operators and tests ask about the mark of an installation.

use super::Broker;
use super::failure::Failure;
use super::mode_tracker::Side;
use super::ownership::{Ownership, ask, delete, look, mark, others_name, own_name, refusal};
use crate::error::{Error, ErrorKind, Result};

const USE: &str = "use the queues of the broker";

fn foreign(why: &str) -> Error {
    Failure::Foreign(why.to_owned()).into_error(USE)
}

impl Broker {
    /// Returns to which installation the queues of the prefix belong, as seen from the installation `id`. Changes nothing.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    #[doc(hidden)]
    pub async fn ownership(&self, id: &str) -> Result<Ownership> {
        let looked = async { look(&self.hub, &*self.hub.session(Side::Consume)?, id).await };
        looked.await.map_err(|failure| failure.into_error("find out to which installation the queues belong"))
    }

    /// Marks the queues of the prefix as those of the installation `id`, with `take_over` also if they are marked as those of another one.
    /// Returns how they were marked before.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses; and without `take_over`, when they belong to another installation.
    #[doc(hidden)]
    pub async fn claim(&self, id: &str, take_over: bool) -> Result<Ownership> {
        const TRIED: &str = "mark the queues as those of this installation";
        let hub = &*self.hub;
        let claimed = async {
            let session = hub.session(Side::Consume)?;
            let found = look(hub, &session, id).await?;
            if let Ownership::Other(other) = &found {
                if !take_over {
                    return Err(Failure::Foreign(refusal(hub, id, &found)));
                }
                let others = others_name(hub, &session, other.as_deref()).await?;
                // In this order: until the mark is gone, the other one is to be found.
                for mark in others.into_iter().chain([hub.names.owner()]) {
                    delete(hub, &session, &mark).await?;
                }
            }
            match mark(hub, &session, id).await {
                // Another claim was faster.
                Err(Failure::Differs(why)) => match look(hub, &session, id).await? {
                    Ownership::Own => {}
                    Ownership::Unmarked => return Err(Failure::Differs(why)),
                    others @ Ownership::Other(_) => return Err(Failure::Foreign(refusal(hub, id, &others))),
                },
                marked => marked?,
            }
            Ok(found)
        };
        claimed.await.map_err(|failure| match failure {
            Failure::Forbidden(why) => Error::new(
                ErrorKind::Broker,
                format!(
                    "can't {TRIED}: {why}; run `jobwright broker claim` as a user who may configure, write and read {}.*",
                    hub.config.prefix
                ),
            ),
            failure => failure.into_error(TRIED),
        })
    }

    /// Makes this handle one of an executor of the installation `id`: from now on, messages arrive only while the queues are not marked as
    /// those of another installation.
    ///
    /// # Errors
    /// When they are. While the broker can't be asked there is no error: each new connection asks first.
    pub(crate) async fn belong_to(&self, id: &str) -> Result<()> {
        let hub = &*self.hub;
        let mut member = hub.member.lock().await;
        if member.id.as_deref() == Some(id) && !member.was_refused && hub.session(Side::Consume).is_ok() {
            return Ok(());
        }
        member.id = Some(id.to_owned());
        let Ok(session) = hub.session(Side::Consume) else {
            return if member.was_refused { Err(foreign(&member.why)) } else { Ok(()) };
        };
        match ask(hub, &session, &mut member).await {
            Err(failure @ Failure::Foreign(_)) => {
                session.close().await;
                Err(failure.into_error(USE))
            }
            Err(failure) => {
                tracing::debug!("it is not known yet to which installation the queues belong: {}", failure.text());
                // The next connection asks again before anything arrives on it.
                session.close().await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns the exchanges that mark the queues as those of the installation whose executors use this handle.
    pub(super) async fn marks(&self) -> Vec<String> {
        let member = self.hub.member.lock().await;
        member.id.iter().flat_map(|id| [self.hub.names.owner(), own_name(&self.hub, id)]).collect()
    }

    /// Takes the mark of the queues away, of whichever installation it is.
    pub(super) async fn unmark(&self) -> Result<(), Failure> {
        let session = self.hub.session(Side::Consume)?;
        let mut marks = self.marks().await;
        // Nobody has this id.
        if let Ownership::Other(other) = look(&self.hub, &session, "nobody").await? {
            marks.extend(others_name(&self.hub, &session, other.as_deref()).await?);
        }
        marks.push(self.hub.names.owner());
        for mark in marks {
            delete(&self.hub, &session, &mark).await?;
        }
        Ok(())
    }
}
