//! The wait that a server asks for, in the three notations that servers use. Knows no clock.

use super::ResponseHead;
use std::time::Duration;
use windlass_contract::retry_after;

/// Longest wait that is accepted; only a broken server asks for more.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The wait in the headers: `retry-after-ms` first, as both official OpenAI clients do.
pub(super) fn of_headers(head: &ResponseHead<'_>) -> Option<Duration> {
    let milliseconds = head
        .retry_after_ms
        .and_then(|text| text.trim().parse::<f64>().ok())
        .and_then(|milliseconds| seconds(milliseconds / 1_000.0));
    milliseconds.or_else(|| {
        let wait_ms = retry_after::wait_ms(head.retry_after?, Some(head.now_unix_seconds))?;
        Some(Duration::from_millis(wait_ms)).filter(|wait| *wait <= LONGEST)
    })
}

/// A protobuf JSON duration: `7s`, `9.5s`.
pub(crate) fn protobuf_duration(text: &str) -> Option<Duration> {
    seconds(text.strip_suffix('s')?.parse().ok()?)
}

fn seconds(number: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(number).ok();
    wait.filter(|wait| *wait <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

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
