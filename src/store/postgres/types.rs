//! Conversions that the driver does not bring.

use std::error::Error as StdError;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::job::RowPlace;

type BoxError = Box<dyn StdError + Sync + Send>;

/// The version byte in front of the text of a binary `jsonb`.
const JSONB_VERSION: u8 = 1;

/// A JSON text on its way to a parameter of type `jsonb`, or `text` that the statement casts, without parsing it again.
#[derive(Debug)]
pub(super) struct JsonParam<'a>(pub(super) &'a str);

impl ToSql for JsonParam<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        if *ty == Type::JSONB {
            out.extend_from_slice(&[JSONB_VERSION]);
        }
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::JSONB | Type::TEXT)
    }

    to_sql_checked!();
}

/// The same, owned.
#[derive(Debug)]
pub(super) struct JsonString(pub(super) String);

impl ToSql for JsonString {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        JsonParam(&self.0).to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

/// The JSON text of a `jsonb` column, borrowed from the row.
pub(super) struct JsonText<'a>(pub(super) &'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => Ok(Self(std::str::from_utf8(text)?)),
            _ => Err("unknown version of binary jsonb".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }
}

/// Where a row lies: its page, and its number there, which is never zero. Both in one number, the page above 16 bits.
#[derive(Debug)]
pub(super) struct Tid(u64);

const TID_BYTES: usize = 6;

impl Tid {
    /// Before the first row of a page.
    pub(super) fn first_of(page: u64) -> Self {
        Self(page << u16::BITS)
    }
}

impl From<Tid> for RowPlace {
    fn from(tid: Tid) -> Self {
        Self::new(tid.0)
    }
}

/// What a [`RowPlace`] of this store means.
pub(super) fn tid(place: RowPlace) -> Option<Tid> {
    place.get().map(|place| Tid(place & !(HOLDING | KEYED)))
}

/// Above the place: the job in it was claimed with what it holds, which is freed with that of others ([`holds`]).
const HOLDING: u64 = 1 << (u64::BITS - 1);
/// Also above it: the job asked for a unique key, which is given back with those of others ([`has_key`]).
const KEYED: u64 = 1 << (u64::BITS - 2);

/// The place of a job that holds something by its id alone.
pub(super) fn holding(place: RowPlace) -> RowPlace {
    place.get().map_or(place, |place| RowPlace::new(place | HOLDING))
}

/// Whether it was marked so.
pub(super) fn holds(place: RowPlace) -> bool {
    place.get().is_some_and(|place| place & HOLDING != 0)
}

/// The place of a job with a unique key.
pub(super) fn keyed(place: RowPlace) -> RowPlace {
    place.get().map_or(place, |place| RowPlace::new(place | KEYED))
}

/// Whether it was marked so.
pub(super) fn has_key(place: RowPlace) -> bool {
    place.get().is_some_and(|place| place & KEYED != 0)
}

impl FromSql<'_> for Tid {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, BoxError> {
        let bytes: [u8; TID_BYTES] = raw.try_into()?;
        Ok(Self(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }
}

impl ToSql for Tid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.extend_from_slice(&self.0.to_be_bytes()[size_of::<u64>() - TID_BYTES..]);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }

    to_sql_checked!();
}
