//! Conversions that the driver lacks.

use std::error::Error as StdError;

use jiff::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::job::RowLocation;

type BoxError = Box<dyn StdError + Sync + Send>;

/// The version byte before the text of a binary `jsonb`.
const JSONB_VERSION: u8 = 1;

/// A JSON text for a parameter of type `jsonb`, or of type `text` that the statement casts. It is not parsed again.
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

/// The owned form of [`JsonParam`].
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

/// A time as it is shown to people. One that no program can compute with (`infinity`, the year 200,000) is the nearest one that it can:
/// a single row of hand-written SQL must not keep a list from being read.
#[derive(Debug)]
pub(super) struct ShownTime(pub(super) Timestamp);

impl FromSql<'_> for ShownTime {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, BoxError> {
        /// Microseconds from 1970 to 2000, where PostgreSQL begins to count.
        const EPOCH: i64 = 946_684_800_000_000;
        let micros = i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH);
        let limit = if micros > 0 { Timestamp::MAX } else { Timestamp::MIN };
        Ok(Self(Timestamp::from_microsecond(micros).unwrap_or(limit)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

/// The location of a row: its page, and its number there, which is never zero. One number holds both, with the page above the lower 16
/// bits.
#[derive(Debug)]
pub(super) struct Tid(u64);

const TID_BYTES: usize = 6;

impl Tid {
    /// Returns a location before the first row of a page.
    pub(super) fn first_of(page: u64) -> Self {
        Self(page << u16::BITS)
    }
}

impl From<Tid> for RowLocation {
    fn from(tid: Tid) -> Self {
        Self::new(tid.0)
    }
}

/// Reads the `ctid` in a [`RowLocation`] of this store.
pub(super) fn tid(location: RowLocation) -> Option<Tid> {
    location.get().map(Tid)
}

/// Also from the bytes of `tidsend`, which are the same: a driver that does not know `tid` (sqlx) would ask the server for it, in between. A transaction pooler
/// does not take that: 0.8 uses a statement that has a name, and what 0.9 sends ends the unnamed one.
impl FromSql<'_> for Tid {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, BoxError> {
        let bytes: [u8; TID_BYTES] = raw.try_into()?;
        Ok(Self(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::TID | Type::BYTEA)
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
