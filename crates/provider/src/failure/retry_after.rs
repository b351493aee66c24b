//! How long a server asks to be left alone, in the three notations in which servers say it. Knows no clock.

use super::ResponseHead;
use std::time::Duration;

/// Nobody waits longer for an answer; a longer wait is asked for by a broken server.
const LONGEST_SECONDS: f64 = 86_400.0;

/// What the headers say: `retry-after-ms` first, as both official OpenAI clients do.
pub(super) fn of_headers(head: &ResponseHead<'_>) -> Option<Duration> {
    let milliseconds = head
        .retry_after_ms
        .and_then(|text| text.trim().parse::<f64>().ok())
        .and_then(|milliseconds| seconds(milliseconds / 1_000.0));
    milliseconds.or_else(|| {
        let text = head.retry_after?.trim();
        match text.parse::<f64>() {
            Ok(number) => seconds(number),
            Err(_) => until(http_date(text)?, head.now_unix_seconds),
        }
    })
}

/// A protobuf JSON duration: `7s`, `9.5s`.
pub(crate) fn protobuf_duration(text: &str) -> Option<Duration> {
    seconds(text.strip_suffix('s')?.parse().ok()?)
}

fn seconds(number: f64) -> Option<Duration> {
    (0.0..=LONGEST_SECONDS)
        .contains(&number)
        .then(|| Duration::from_secs_f64(number))
}

fn until(date: u64, now: u64) -> Option<Duration> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a difference that matters is under a day"
    )]
    let difference = date.saturating_sub(now) as f64;
    seconds(difference)
}

/// Seconds since the Unix epoch of `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that RFC 9110 section 5.6.7 lets a
/// server send.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.split_once(", ")?;
    let mut fields = date.strip_suffix(" GMT")?.split(' ');
    let day: u64 = fields.next()?.parse().ok()?;
    let month = fields.next()?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let year: u64 = fields.next()?.parse().ok()?;
    let mut time = fields.next()?.splitn(3, ':');
    let mut next = |below: u64| -> Option<u64> {
        let number: u64 = time.next()?.parse().ok()?;
        (number < below).then_some(number)
    };
    let (hour, minute, second) = (next(24)?, next(60)?, next(61)?);
    if !(1..=31).contains(&day) || !(1970..10_000).contains(&year) {
        return None;
    }
    // Counted in years that begin in March, so that the leap day is the last.
    let month = u64::try_from(month).ok()?;
    let (year, month) = if month >= 2 {
        (year, month - 2)
    } else {
        (year - 1, month + 10)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    const DAYS_TO_1970: u64 = 719_469;
    Some((days.checked_sub(DAYS_TO_1970)?) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_the_epoch() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400)),
            ("Fri, 31 Dec 2099 23:59:59 GMT", Some(4_102_444_799)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(http_date(text), seconds, "{text}");
        }
    }

    #[test]
    fn the_finest_header_counts_and_nonsense_does_not() {
        let head = |retry_after_ms, retry_after| ResponseHead {
            retry_after_ms,
            retry_after,
            now_unix_seconds: 784_111_770,
            ..ResponseHead::default()
        };
        for (head, wait_ms) in [
            (head(Some("50"), Some("7")), Some(50)),
            (head(None, Some("7")), Some(7_000)),
            (head(None, Some(" 1.5 ")), Some(1_500)),
            (
                head(None, Some("Sun, 06 Nov 1994 08:49:37 GMT")),
                Some(7_000),
            ),
            (head(None, Some("Sun, 06 Nov 1994 08:49:00 GMT")), Some(0)),
            (head(Some("soon"), Some("-3")), None),
            (head(None, Some("1e300")), None),
            (head(None, Some("NaN")), None),
            (head(None, None), None),
        ] {
            assert_eq!(
                of_headers(&head),
                wait_ms.map(Duration::from_millis),
                "{head:?}"
            );
        }
        assert_eq!(protobuf_duration("7s"), Some(Duration::from_secs(7)));
        assert_eq!(protobuf_duration("7"), None);
        assert_eq!(protobuf_duration("-7s"), None);
    }
}
