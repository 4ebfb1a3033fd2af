//! Counts that may be less than exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Serialize, Serializer};

/// How many there are of something, and how well that is known. What is small is counted; of what is large, as much is counted as takes little time,
/// and the rest is estimated where the database can do that.
///
/// As JSON it is a number. What it belongs to says whether that is exact, such as [`QueueStatus`](super::QueueStatus) in its field `inexact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// All were counted.
    Exact(u64),
    /// So many were counted; there may be more.
    AtLeast(u64),
    /// Estimated from a sample.
    About(u64),
}

impl Count {
    /// Returns the number, whatever it is worth.
    pub const fn get(self) -> u64 {
        let (Self::Exact(n) | Self::AtLeast(n) | Self::About(n)) = self;
        n
    }

    /// Returns whether all were counted.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// Returns the word for a count that is not exact, as in JSON: `at_least`, `about`.
    pub const fn inexact(self) -> Option<&'static str> {
        match self {
            Self::Exact(_) => None,
            Self::AtLeast(_) => Some("at_least"),
            Self::About(_) => Some("about"),
        }
    }
}

impl Default for Count {
    fn default() -> Self {
        Self::Exact(0)
    }
}

impl From<u64> for Count {
    fn from(n: u64) -> Self {
        Self::Exact(n)
    }
}

/// An exact count is equal to its number; another one is equal to none.
impl PartialEq<u64> for Count {
    fn eq(&self, n: &u64) -> bool {
        *self == Self::Exact(*n)
    }
}

/// A sum is as good as the worst of its parts.
impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let n = self.get().saturating_add(other.get());
        match (self, other) {
            (Self::Exact(_), Self::Exact(_)) => Self::Exact(n),
            (Self::About(_), _) | (_, Self::About(_)) => Self::About(n),
            _ => Self::AtLeast(n),
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl AddAssign<u64> for Count {
    fn add_assign(&mut self, n: u64) {
        *self = *self + Self::Exact(n);
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// An estimate is rounded to two digits, because it is worth no more.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(n) => write!(f, "{n}"),
            Self::AtLeast(n) => write!(f, "at least {n}"),
            Self::About(n) => write!(f, "about {}", rounded(*n)),
        }
    }
}

fn rounded(n: u64) -> u64 {
    let mut unit = 1;
    while n / unit >= 100 {
        unit *= 10;
    }
    (n / unit + n % unit * 2 / unit) * unit
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

/// What a check found that reads large tables in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sampled<T> {
    /// What it found.
    pub found: T,
    /// Whether it looked at everything.
    pub complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_says_how_well_it_is_known() {
        let texts = [Count::Exact(0), Count::Exact(123_456), Count::AtLeast(100_000), Count::About(9_870_000)];
        assert_eq!(texts.map(|count| count.to_string()), ["0", "123456", "at least 100000", "about 9900000"]);
        let rounded = [7, 99, 104, 105, 995, 9_949_999, u64::MAX].map(rounded);
        assert_eq!(rounded, [7, 99, 100, 110, 1_000, 9_900_000, 18_000_000_000_000_000_000]);
    }

    #[test]
    fn a_sum_is_as_good_as_the_worst_of_its_parts() {
        let exact = || [Count::Exact(1), Count::Exact(2)].into_iter();
        assert_eq!(exact().sum::<Count>(), 3);
        assert_eq!(exact().chain([Count::AtLeast(10)]).sum::<Count>(), Count::AtLeast(13));
        assert_eq!(exact().chain([Count::AtLeast(10), Count::About(20)]).sum::<Count>(), Count::About(33));
        assert_ne!(Count::About(3), 3);
    }
}
