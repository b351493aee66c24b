//! Instants of RFC 3339 in one spelling. Knows no clock.

const DAY_SECONDS: i64 = 86_400;

/// The instant in UTC; `None` for a text that is no date with a time and an offset.
pub(super) fn utc(text: &str) -> Option<String> {
    let date = text.get(..10)?;
    let [year, month, day] = numbers(date, '-')?;
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let (separator, time) = (text.get(10..11)?, text.get(11..)?);
    if !is_date || !matches!(separator, "T" | "t" | " ") {
        return None;
    }
    let [hour, minute, second] = numbers(time.get(..8)?, ':')?;
    // A leap second is the first one of the next minute.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = time.get(8..)?;
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|character: char| !character.is_ascii_digit())?;
            let (digits, offset) = rest.split_at(end);
            (
                Some(digits)
                    .filter(|digits| !digits.is_empty())?
                    .trim_end_matches('0'),
                offset,
            )
        }
        None => ("", rest),
    };
    let local = days(year, month, day) * DAY_SECONDS + hour * 3_600 + minute * 60 + second;
    let instant = local - offset_seconds(offset)?;
    let (day, second) = (
        instant.div_euclid(DAY_SECONDS),
        instant.rem_euclid(DAY_SECONDS),
    );
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!(
        "{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}{point}{fraction}Z"
    ))
}

fn offset_seconds(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let sign = match offset.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(offset.get(1..)?, ':')?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// The numbers between separators, of two digits each; a year, as the first number, has four.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut found = [0; N];
    for place in &mut found {
        let part = parts.next()?;
        let has_length = part.len() == 2 || (part.len() == 4 && separator == '-');
        if !has_length || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *place = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Days since 1970-01-01 of a date in the Gregorian calendar
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
