//! Converts between two scales of priority: jobwright's is unbounded with 0 as normal; that of AMQP and JMS goes from 0 to 9 with 4 as
//! normal.

/// The normal priority of JMS.
const NORMAL: i16 = 4;
const HIGHEST: i16 = 9;

/// Converts a priority for the wire: 0 becomes 4, higher ones at most 9, lower ones at least 1.
pub(super) fn to_wire(priority: i16) -> u8 {
    let value = priority.saturating_add(NORMAL).clamp(1, HIGHEST);
    u8::try_from(value).unwrap_or(NORMAL as u8)
}

/// Converts a priority from the wire: 4 less. Spring and other clients send 0 as their default, so it means the same as 4.
pub(super) fn from_wire(priority: Option<u8>) -> i16 {
    match priority {
        None | Some(0) => 0,
        Some(value) => i16::from(value) - NORMAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scales_meet_in_the_middle() {
        for (ours, wire) in [(0, 4), (1, 5), (5, 9), (100, 9), (i16::MAX, 9), (-3, 1), (-100, 1), (i16::MIN, 1)] {
            assert_eq!(to_wire(ours), wire, "{ours}");
        }
        for (wire, ours) in [(None, 0), (Some(0), 0), (Some(4), 0), (Some(9), 5), (Some(1), -3), (Some(255), 251)] {
            assert_eq!(from_wire(wire), ours, "{wire:?}");
        }
        for ours in -3..=5 {
            assert_eq!(from_wire(Some(to_wire(ours))), ours);
        }
    }
}
