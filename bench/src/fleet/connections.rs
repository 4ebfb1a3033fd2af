//! The connections that clients have asked for, from the server's log.

/// Returns when each connection arrived, in seconds since 1970. The lines begin with that time (`log_line_prefix = '%n '`).
pub(super) fn arrivals(log: &str) -> Vec<f64> {
    let lines = log.lines().filter(|line| line.contains("connection received: "));
    let mut times: Vec<f64> = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Returns how many arrived from this time until that.
pub(super) fn between(arrivals: &[f64], from: f64, until: f64) -> usize {
    arrivals.iter().filter(|&&time| from <= time && time <= until).count()
}

/// Returns the most that arrived in any second, from this time until that.
pub(super) fn most_in_a_second(arrivals: &[f64], from: f64, until: f64) -> usize {
    let times: Vec<f64> = arrivals.iter().copied().filter(|time| (from..=until).contains(time)).collect();
    let mut first = 0;
    let mut most = 0;
    for (last, time) in times.iter().enumerate() {
        while time - times[first] >= 1.0 {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_the_second() {
        let log = "10.500 LOG:  connection received: host=127.0.0.1 port=1\n\
                   10.501 LOG:  connection authorized: user=postgres\n\
                   10.100 LOG:  connection received: host=127.0.0.1 port=2\n\
                   no time\n\
                   11.099 LOG:  connection received: host=127.0.0.1 port=3\n\
                   11.500 LOG:  connection received: host=127.0.0.1 port=4\n";
        let arrivals = arrivals(log);
        assert_eq!(arrivals, [10.1, 10.5, 11.099, 11.5]);
        assert_eq!(most_in_a_second(&arrivals, 0.0, 20.0), 3);
        assert_eq!(most_in_a_second(&arrivals, 10.2, 20.0), 2);
        assert_eq!(most_in_a_second(&[], 0.0, 1.0), 0);
        assert_eq!(between(&arrivals, 10.2, 11.2), 2);
    }
}
