//! Which installation the queues of a prefix belong to, by a mark at the broker.
//!
//! Two databases that take from the same queues take from one another: of a restored copy and its original, each gets a part of the submissions
//! and reports. The mark is an exchange whose alternate exchange is named after the installation. The broker compares this argument when
//! the exchange is declared again, and refuses another one (406). A user that may not configure anything finds out by a passive
//! declaration, which needs no right: the alternate exchange exists too. Exchanges are entries of the broker's metadata alone: unlike a queue,
//! they have no node and no leader that may be gone.
//!
//! Nothing is ever published to these exchanges.

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::member::Member;
use super::session::Session;

/// How many digits of an installation's id its mark has. The broker cuts off long errors, and both ids have to fit in.
const MARKED: usize = 12;
/// How many digits people are shown.
const SHOWN: usize = 8;

/// To which installation the queues of a prefix belong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// To nobody yet: the first executor that may configure exchanges marks them.
    Unmarked,
    /// To the installation that asked.
    Own,
    /// To another one. The beginning of its id, if the broker told it.
    Other(Option<String>),
}

/// Returns the beginning of an installation's id, for people.
fn shown(id: &str) -> &str {
    id.get(..SHOWN).unwrap_or(id)
}

/// The exchange that an installation's mark leads to.
pub(super) fn own_name(hub: &Hub, id: &str) -> String {
    let digits: String = id.chars().filter(char::is_ascii_alphanumeric).take(MARKED).collect();
    hub.names.owned_by(&digits)
}

/// Finds out and changes nothing.
pub(super) async fn look(hub: &Hub, session: &Session, id: &str) -> Result<Ownership, Failure> {
    let (mark, own) = (hub.names.owner(), own_name(hub, id));
    match declare(hub, session, &mark, None, true).await {
        Err(Failure::Missing(_)) => return Ok(Ownership::Unmarked),
        other => other?,
    }
    // It existed just now, so declaring it again creates nothing, unless a take-over deletes it in between. Then this is what `mark` does first.
    match declare(hub, session, &mark, Some(&own), false).await {
        Ok(()) => Ok(Ownership::Own),
        Err(Failure::Differs(why)) => Ok(Ownership::Other(told(&why, &hub.names.owned_by(""), &own))),
        Err(Failure::Forbidden(_)) => match declare(hub, session, &own, None, true).await {
            Ok(()) => Ok(Ownership::Own),
            Err(Failure::Missing(_)) => Ok(Ownership::Other(None)),
            Err(failure) => Err(failure),
        },
        Err(failure) => Err(failure),
    }
}

/// Reads the digits of the other installation from the broker's refusal.
fn told(why: &str, begins: &str, own: &str) -> Option<String> {
    let names = why.match_indices(begins).map(|(at, _)| &why[at..]).filter(|rest| !rest.starts_with(own));
    let digits = names.map(|name| name[begins.len()..].chars().take_while(char::is_ascii_alphanumeric).collect());
    digits.into_iter().find(|digits: &String| digits.len() >= SHOWN)
}

/// Returns the exchange that the mark of another installation leads to; `None` if it leads nowhere. `found` is what [`look`] was told.
///
/// It is deleted together with the mark, so its name has to be known to the last digit: executors of the other installation that may not configure
/// anything would find the exchange, and go on.
pub(super) async fn others_name(hub: &Hub, session: &Session, found: Option<&str>) -> Result<Option<String>, Failure> {
    let is_whole = |digits: &&str| digits.len() == MARKED;
    if let Some(digits) = found.filter(is_whole) {
        return Ok(Some(hub.names.owned_by(digits)));
    }
    // Of a declaration without an alternate exchange, the broker has less to say, and cuts less off.
    let why = match declare(hub, session, &hub.names.owner(), None, false).await {
        Ok(()) => return Ok(None),
        Err(Failure::Differs(why)) => why,
        Err(failure) => return Err(failure),
    };
    match told(&why, &hub.names.owned_by(""), "-").as_deref().filter(is_whole) {
        Some(digits) => Ok(Some(hub.names.owned_by(digits))),
        None => Err(Failure::Refused(format!(
            "the names at this broker are so long that its answer does not show the owner of the mark ({why}): stop the executors of the other \
             installation, delete the exchanges {} and {}* by hand, and try again",
            hub.names.owner(),
            hub.names.owned_by("")
        ))),
    }
}

/// Marks the queues of this prefix, which had no mark.
pub(super) async fn mark(hub: &Hub, session: &Session, id: &str) -> Result<(), Failure> {
    let own = own_name(hub, id);
    // In this order: whoever comes second is refused by the first one.
    declare(hub, session, &hub.names.owner(), Some(&own), false).await?;
    declare(hub, session, &own, None, false).await
}

/// Makes sure that an executor of this installation may use the queues. Marks them if that may be done and was not.
///
/// An executor that was refused once does not mark them later: when the broker loses its definitions, the right installation has to be the one that
/// marks them again.
async fn check(hub: &Hub, session: &Session, id: &str, member: &mut Member) -> Result<(), Failure> {
    let found = look(hub, session, id).await?;
    let mut why_unmarked = (!hub.config.declare).then(|| "`broker.declare` is off".to_owned());
    let found = match found {
        Ownership::Unmarked if hub.config.declare && !member.was_refused => match mark(hub, session, id).await {
            // Another one was faster.
            Err(Failure::Differs(_)) => look(hub, session, id).await?,
            // It uses them as executors without that right do.
            Err(Failure::Forbidden(why)) => {
                why_unmarked = Some(why);
                Ownership::Unmarked
            }
            marked => {
                marked?;
                tracing::info!(
                    installation = shown(id),
                    "the queues {}.* at this broker are marked as those of this installation",
                    hub.config.prefix
                );
                Ownership::Own
            }
        },
        found => found,
    };
    match found {
        Ownership::Own => {
            member.was_refused = false;
            if hub.config.declare {
                // The connection of the one who marked the queues may have broken in between. Executors without the right to configure look for this
                // exchange alone.
                match declare(hub, session, &own_name(hub, id), None, false).await {
                    Ok(()) | Err(Failure::Forbidden(_)) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok(())
        }
        Ownership::Unmarked if !member.was_refused => {
            if let Some(why) = why_unmarked
                && !std::mem::replace(&mut member.was_warned, true)
            {
                tracing::warn!(
                    "the queues {}.* have no mark of an installation, and this executor can't mark them ({why}): an executor of a restored \
                     copy could take from them. Run `jobwright broker claim`, as a user of the broker who may configure, write and read them",
                    hub.config.prefix
                );
            }
            Ok(())
        }
        found => {
            member.was_refused = true;
            Err(Failure::Foreign(refusal(hub, id, &found)))
        }
    }
}

pub(super) fn refusal(hub: &Hub, id: &str, found: &Ownership) -> String {
    let whose = match found {
        Ownership::Other(Some(other)) => format!("the installation {}", shown(other)),
        _ => "another installation".to_owned(),
    };
    format!(
        "the queues {}.* belong to {whose}, and this database is the installation {}: give this one another `broker.prefix` or vhost; or, if it \
         takes the other's place, stop the executors of the other and run `jobwright broker claim --take-over` here",
        hub.config.prefix,
        shown(id)
    )
}

/// Declares an exchange on a channel of its own, because a refusal ends the channel.
async fn declare(
    hub: &Hub,
    session: &Session,
    name: &str,
    alternate: Option<&str>,
    passive: bool,
) -> Result<(), Failure> {
    let channel = session.channel().await?;
    let mut arguments = FieldTable::default();
    if let Some(alternate) = alternate {
        arguments.insert("alternate-exchange".into(), AMQPValue::LongString(LongString::from(alternate)));
    }
    let options = ExchangeDeclareOptions { passive, durable: true, ..ExchangeDeclareOptions::default() };
    let call = channel.exchange_declare(short(name)?, ExchangeKind::Fanout, options, arguments);
    within(hub.rpc(), call).await?;
    let _ = within(CLOSING, channel.close(200, "OK".into())).await;
    Ok(())
}

pub(super) async fn delete(hub: &Hub, session: &Session, name: &str) -> Result<(), Failure> {
    let channel = session.channel().await?;
    let call = channel.exchange_delete(short(name)?, ExchangeDeleteOptions::default());
    match within(hub.rpc(), call).await {
        Err(Failure::Missing(_)) => return Ok(()),
        deleted => deleted?,
    }
    let _ = within(CLOSING, channel.close(200, "OK".into())).await;
    Ok(())
}

/// Asks on a new connection, before anything arrives on it. A handle of senders alone asks for nothing.
pub(super) async fn ask(hub: &Hub, session: &Session, member: &mut Member) -> Result<(), Failure> {
    let Some(id) = member.id.clone() else { return Ok(()) };
    let asked = check(hub, session, &id, member).await;
    if let Err(Failure::Foreign(why)) = &asked {
        member.why.clone_from(why);
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_installation_is_read_from_the_refusal() {
        let refused = |current: &str| {
            format!(
                "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'p.owner' in vhost '/': received the value \
                 'p.owner.0123456789ab' of type 'longstr' but current is {current}"
            )
        };
        let read = |why: &str| told(why, "p.owner.", "p.owner.0123456789ab");
        let whole = refused("the value 'p.owner.ba9876543210' of type 'longstr'");
        assert_eq!(read(&whole).as_deref(), Some("ba9876543210"));
        assert_eq!(read(&refused("the value 'p.owner.ba987654...")).as_deref(), Some("ba987654"));
        for cut in ["the value 'p.owner.ba...", "the value 'p.ow...", "...", "none"] {
            assert_eq!(read(&refused(cut)), None, "{cut}");
        }
    }
}
