//! A bank, as the web services of the examples see it.

/// A service elsewhere.
pub struct Bank {
    /// The most that it takes at once.
    pub limit: i64,
}

/// Why the bank does not charge.
#[derive(Debug)]
pub enum BankError {
    /// It declines these cents, now and later.
    Declined(i64),
    /// It is closed for the moment.
    Closed,
}

impl std::fmt::Display for BankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Declined(cents) => write!(f, "the bank declined {cents} cents"),
            Self::Closed => f.write_str("the bank is closed"),
        }
    }
}

impl std::error::Error for BankError {}

impl Bank {
    /// Charges once for each key.
    pub(crate) async fn charge(&self, cents: i64, _key: &str) -> Result<(), BankError> {
        // A request.
        tokio::task::yield_now().await;
        match cents {
            0 => Err(BankError::Closed),
            cents if cents > self.limit => Err(BankError::Declined(cents)),
            _ => Ok(()),
        }
    }
}
