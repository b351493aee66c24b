//! Reads dates as records and filters write them, into numbers that compare. Knows no current time.

/// Microseconds since the Unix epoch, in UTC.
pub(crate) type Microseconds = i64;

/// The end of the day that a date without a time stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayEdge {
    First,
    Last,
}

const SECONDS_A_DAY: i64 = 86_400;

/// Reads a full date (`2024-05-31`) or a date-time (`2024-05-31T18:00:00.5+02:00`), the two forms of RFC 3339 section
/// 5.6 that name a day. `None` where the text is neither.
pub(crate) fn parse(text: &str, edge: DayEdge) -> Option<Microseconds> {
    let bytes = text.as_bytes();
    let midnight = days(bytes.get(..10)?)? * SECONDS_A_DAY;
    let Some((separator, time)) = bytes[10..].split_first() else {
        return Some(match edge {
            DayEdge::First => midnight * 1_000_000,
            DayEdge::Last => (midnight + SECONDS_A_DAY) * 1_000_000 - 1,
        });
    };
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let (clock, rest) = time.split_at_checked(8)?;
    let second_of_day = second_of_day(clock)?;
    let (fraction, rest) = fraction_microseconds(rest)?;
    let offset = offset_seconds(rest)?;
    Some((midnight + second_of_day - offset) * 1_000_000 + fraction)
}

/// Days since the epoch of `YYYY-MM-DD`, by Howard Hinnant's days-from-civil arithmetic,
/// <https://howardhinnant.github.io/date_algorithms.html>.
fn days(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let year = number(&[y1, y2, y3, y4])?;
    let month = number(&[m1, m2])?;
    let day = number(&[d1, d2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn second_of_day(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *text else {
        return None;
    };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    // RFC 3339 lets a leap second be written as :60.
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3_600 + minute * 60 + second)
}

/// The fraction of a second, cut to microseconds, and what follows it.
fn fraction_microseconds(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', digits)) = text.split_first() else {
        return Some((0, text));
    };
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if length == 0 {
        return None;
    }
    let (digits, rest) = digits.split_at(length);
    let microseconds = digits
        .iter()
        .chain(b"000000")
        .take(6)
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((microseconds, rest))
}

fn offset_seconds(text: &[u8]) -> Option<i64> {
    let (sign, h1, h2, m1, m2) = match *text {
        [b'Z' | b'z'] => return Some(0),
        [b'+', h1, h2, b':', m1, m2] => (1, h1, h2, m1, m2),
        [b'-', h1, h2, b':', m1, m2] => (-1, h1, h2, m1, m2),
        _ => return None,
    };
    let (hour, minute) = (number(&[h1, h2])?, number(&[m1, m2])?);
    (hour < 24 && minute < 60).then_some(sign * (hour * 3_600 + minute * 60))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_date_times_become_microseconds_in_utc() {
        for (text, first) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(951_782_400_000_000)),
            ("1969-12-31T23:59:59Z", Some(-1_000_000)),
            ("1911-12-14", Some(-1_831_939_200_000_000)),
            ("2026-11-20T18:25:43.511Z", Some(1_795_199_143_511_000)),
            (
                "2026-11-20t19:25:43.5119999999+01:00",
                Some(1_795_199_143_511_999),
            ),
            ("2026-11-20 12:55:43-05:30", Some(1_795_199_143_000_000)),
            ("2016-12-31T23:59:60Z", Some(1_483_228_800_000_000)),
            ("1900-02-29", None),
            ("2024-13-01", None),
            ("2024-00-01", None),
            ("2024-04-31", None),
            ("2024-5-1", None),
            ("2024", None),
            ("", None),
            ("2024-05-01T10:00", None),
            ("2024-05-01T10:00:00", None),
            ("2024-05-01T10:00:00.Z", None),
            ("2024-05-01T24:00:00Z", None),
            ("2024-05-01T10:00:00+0100", None),
            ("2024-05-01X", None),
            ("２０２４-05-01", None),
            ("yesterday, maybe", None),
        ] {
            assert_eq!(parse(text, DayEdge::First), first, "{text:?}");
        }
    }

    #[test]
    fn a_date_without_a_time_ends_with_its_day() {
        assert_eq!(
            parse("2024-05-01", DayEdge::Last).map(|last| last + 1),
            parse("2024-05-02", DayEdge::First)
        );
    }
}
