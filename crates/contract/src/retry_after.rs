//! `Retry-After`: the pause that a server asks for (RFC 9110, section 10.2.3). Knows no request and no clock.

use std::time::{Duration, UNIX_EPOCH};

/// The pause in milliseconds of the header's text: seconds, which some servers write with a fraction, or a date, which is compared with
/// `now_unix_seconds`. 0 for a past date. `None` for any other text.
pub fn wait_ms(text: &str, now_unix_seconds: Option<u64>) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        let wait = Duration::try_from_secs_f64(seconds).ok()?;
        return Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    }
    let seconds = unix_seconds(text)?.saturating_sub(now_unix_seconds?);
    Some(seconds.saturating_mul(1_000))
}

/// The same by the server's own clock, from the header `Date` of its answer.
pub fn by_its_own_clock(retry_after: Option<&str>, date: Option<&str>) -> Option<u64> {
    wait_ms(
        retry_after?,
        date.and_then(|date| unix_seconds(date.trim())),
    )
}

fn unix_seconds(date: &str) -> Option<u64> {
    let at = httpdate::parse_http_date(date).ok()?;
    Some(at.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        const NOW: Option<&str> = Some("Tue, 24 Nov 2026 10:00:00 GMT");
        for (retry_after, date, expected) in [
            ("7", None, Some(7_000)),
            (" 7 ", NOW, Some(7_000)),
            ("1.5", None, Some(1_500)),
            ("0", None, Some(0)),
            ("Tue, 24 Nov 2026 10:02:00 GMT", NOW, Some(120_000)),
            ("Tuesday, 24-Nov-26 10:02:00 GMT", NOW, Some(120_000)),
            ("Tue Nov 24 10:02:00 2026", NOW, Some(120_000)),
            ("Tue, 24 Nov 2026 09:00:00 GMT", NOW, Some(0)),
            ("Tue, 24 Nov 2026 25:00:00 GMT", NOW, None),
            ("Tue, 24 Nov 2026 10:02:00 GMT", None, None),
            ("Tue, 24 Nov 2026 10:02:00 GMT", Some("today"), None),
            ("soon", NOW, None),
            ("-1", NOW, None),
            ("1e300", NOW, None),
            ("NaN", NOW, None),
            ("99999999999999999999", NOW, None),
            ("", NOW, None),
        ] {
            let found = by_its_own_clock(Some(retry_after), date);
            assert_eq!(found, expected, "{retry_after:?} {date:?}");
        }
        assert_eq!(by_its_own_clock(None, NOW), None);
        let later = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(wait_ms(later, Some(784_111_770)), Some(7_000));
    }
}
