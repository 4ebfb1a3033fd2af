//! Medians and percentiles of few values.

/// The median, with the smallest and the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// `None` if there are no values.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
    Some(Spread { median, min, max })
}

/// The value that `share` of all values do not exceed (nearest rank); 0 if there are none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let sorted = sorted(values);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]).map(|s| s.median), Some(2.5));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let percentiles = [0.5, 0.99, 1.0].map(|share| percentile(&values, share));
        assert_eq!(percentiles.map(|value| format!("{value}")), ["50", "99", "100"]);
        assert!(percentile(&[], 0.5).abs() < f64::EPSILON);
    }
}
