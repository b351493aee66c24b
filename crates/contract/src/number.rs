//! Numbers of JSON by their exact value, however they are written. Some languages turn a number into a double; numbers are never compared
//! by it. No exponent is written out beyond [`PLAIN_DIGITS_MAX`] digits.

use crate::arguments::Arguments;
use crate::wording::pointer;
use serde_json::{Number, Value};
use std::cmp::Ordering;

/// The longest number that an argument may be, in characters.
pub const CHARACTERS_MAX: usize = 200;
/// The most places between the first digit of an argument and its point, before or behind it.
pub const PLACES_MAX: i64 = 1_000;
/// The most digits for which the canonical form has no exponent.
const PLAIN_DIGITS_MAX: i64 = 40;
/// The most digits of a decimal that its nearest double reproduces.
const DOUBLE_DIGITS: usize = 15;
/// The powers of ten within which this holds.
const DOUBLE_PLACES: i64 = 290;

/// The numbers of a handler's language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Numbers reach the handler as they were written.
    #[default]
    Exact,
    /// Integers are exact, and every other number becomes a double, as in Python.
    Integers,
    /// Every number becomes a double, as in JavaScript.
    Doubles,
}

impl Numbers {
    /// Whether the language would change a number's value.
    pub fn change(self, number: &Number) -> bool {
        match self {
            Self::Exact => false,
            Self::Integers => {
                let is_written_whole = number
                    .as_str()
                    .bytes()
                    .all(|byte| byte != b'.' && byte != b'e' && byte != b'E');
                !is_written_whole && !survives_double(number)
            }
            Self::Doubles => !survives_double(number),
        }
    }
}

/// Whether two numbers have the same exact value.
pub fn same(left: &Number, right: &Number) -> bool {
    left.as_str() == right.as_str() || Decimal::of(left.as_str()) == Decimal::of(right.as_str())
}

/// Orders two numbers, as JSON writes them, by their exact value.
pub(crate) fn order(left: &str, right: &str) -> Ordering {
    Decimal::of(left).order(&Decimal::of(right))
}

/// Whether two values are equal; numbers by their exact value.
pub fn same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => same(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same_value(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((name, left), (other, right))| name == other && same_value(left, right))
        }
        (left, right) => left == right,
    }
}

/// The number as an integer of 64 bits, however it is written; `None` where it is none.
pub fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| whole(number)?.parse().ok())
}

/// Whether a number is whole.
pub fn is_whole(number: &Number) -> bool {
    Decimal::of(number.as_str()).is_whole()
}

/// The plain digits of a whole number that is not written in plain digits; `None` where it is longer than any integer that a program
/// reads.
pub(crate) fn whole(number: &Number) -> Option<String> {
    const DIGITS_MAX: i64 = 40;
    let text = number.as_str();
    if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return None;
    }
    let decimal = Decimal::of(text);
    let fits = decimal.is_whole() && decimal.point <= DIGITS_MAX;
    fits.then(|| decimal.plain())
}

/// Appends the canonical form of a number: the form of RFC 8785 where a double reproduces the number, else its exact digits.
pub(crate) fn write_canonical(number: &Number, bytes: &mut Vec<u8>) {
    let text = number.as_str();
    // Most numbers are short integers, which are canonical as they stand.
    if is_short_integer(text) {
        bytes.extend_from_slice(text.as_bytes());
        return;
    }
    let decimal = Decimal::of(text);
    match decimal.double(text) {
        Some(double) => bytes.extend_from_slice(ryu_js::Buffer::new().format(double).as_bytes()),
        None => bytes.extend_from_slice(decimal.exact().as_bytes()),
    }
}

/// Bits for a hasher that are equal for equal values.
pub(crate) fn near_bits(number: &Number) -> u64 {
    // Minus zero is zero.
    (number.as_f64().unwrap_or(0.0) + 0.0).to_bits()
}

/// The first number that is longer or larger than an argument may be, as a JSON pointer, and its problem.
pub fn unbearable(arguments: &Arguments) -> Option<(String, String)> {
    let at = find(arguments.as_value(), &mut |number| {
        problem_of(number).is_some()
    })?;
    let problem = match arguments.as_value().pointer(&at) {
        Some(Value::Number(number)) => problem_of(number)?,
        _ => return None,
    };
    Some((at, problem))
}

/// The problem with a number that is longer or larger than allowed.
pub(crate) fn problem_of(number: &Number) -> Option<String> {
    let text = number.as_str();
    if text.len() > CHARACTERS_MAX {
        return Some(format!("a number has at most {CHARACTERS_MAX} characters"));
    }
    if is_short_integer(text) {
        return None;
    }
    let places = Decimal::of(text).point.abs();
    (places > PLACES_MAX).then(|| format!("the exponent of a number is at most {PLACES_MAX}"))
}

/// The JSON pointer of the first number of arguments that a handler's language would change.
pub fn changed(arguments: &Arguments, numbers: Numbers) -> Option<String> {
    match numbers {
        Numbers::Exact => None,
        Numbers::Integers | Numbers::Doubles => {
            find(arguments.as_value(), &mut |number| numbers.change(number))
        }
    }
}

fn find(value: &Value, is_meant: &mut impl FnMut(&Number) -> bool) -> Option<String> {
    match value {
        Value::Number(number) => is_meant(number).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find(item, is_meant).map(|inner| format!("/{index}{inner}"))),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, item)| find(item, is_meant).map(|inner| pointer("", name) + &inner)),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

fn survives_double(number: &Number) -> bool {
    let text = number.as_str();
    is_short_integer(text) || Decimal::of(text).double(text).is_some()
}

/// Whether a number is an integer that every language has, in its only spelling.
fn is_short_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() <= DOUBLE_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && text != "-0"
}

/// A decimal: `0.` and the digits, times ten to the power of `point`. Zero has no digits. Equal decimals have equal values.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    /// Without zeros at either end.
    digits: String,
    point: i64,
}

impl Decimal {
    /// Reads a number as JSON writes it.
    fn of(text: &str) -> Self {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = integer.bytes().chain(fraction.bytes());
        let leading = all.clone().take_while(|byte| *byte == b'0').count();
        let digits: String = all.skip(leading).map(char::from).collect();
        let digits = digits.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self {
                is_negative: false,
                digits,
                point: 0,
            };
        }
        let before = i64::try_from(integer.len()).unwrap_or(i64::MAX);
        let leading = i64::try_from(leading).unwrap_or(i64::MAX);
        Self {
            is_negative,
            digits,
            point: (before - leading).saturating_add(exponent_of(exponent)),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let by_sign = |decimal: &Self| match (decimal.digits.is_empty(), decimal.is_negative) {
            (true, _) => 0,
            (false, is_negative) => {
                if is_negative {
                    -1
                } else {
                    1
                }
            }
        };
        let (sign, others) = (by_sign(self), by_sign(other));
        if sign != others || sign == 0 {
            return sign.cmp(&others);
        }
        // Digits without zeros at either end sort like texts.
        let by_size = self.point.cmp(&other.point);
        let by_size = by_size.then_with(|| self.digits.cmp(&other.digits));
        match self.is_negative {
            true => by_size.reverse(),
            false => by_size,
        }
    }

    fn is_whole(&self) -> bool {
        self.length() <= self.point || self.digits.is_empty()
    }

    fn length(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX)
    }

    /// The nearest double, if its shortest form is this number. `text` is the number as it was written.
    fn double(&self, text: &str) -> Option<f64> {
        let double: f64 = text
            .parse()
            .ok()
            .filter(|double: &f64| double.is_finite())?;
        let is_short = self.digits.len() <= DOUBLE_DIGITS && self.point.abs() <= DOUBLE_PLACES;
        let is_kept = is_short || Self::of(ryu_js::Buffer::new().format(double)) == *self;
        is_kept.then_some(double)
    }

    fn exact(&self) -> String {
        let (length, point) = (self.length(), self.point);
        let plain_digits = match point {
            point if point <= 0 => length.saturating_sub(point).saturating_add(1),
            point => point.max(length),
        };
        if plain_digits <= PLAIN_DIGITS_MAX {
            return self.plain();
        }
        let mut text = self.sign().to_owned();
        let (first, rest) = self.digits.split_at(1);
        text.push_str(first);
        if !rest.is_empty() {
            text.push('.');
            text.push_str(rest);
        }
        let exponent = point.saturating_sub(1);
        let sign = if exponent < 0 { "" } else { "+" };
        text.push_str(&format!("e{sign}{exponent}"));
        text
    }

    /// The number without an exponent; for numbers that are known to be short.
    fn plain(&self) -> String {
        if self.digits.is_empty() {
            return "0".to_owned();
        }
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        let (sign, digits) = (self.sign(), &self.digits);
        match usize::try_from(self.point) {
            Ok(point) if point >= digits.len() => {
                format!("{sign}{digits}{}", zeros(self.point - self.length()))
            }
            Ok(point) if point > 0 => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
            _ => format!("{sign}0.{}{digits}", zeros(-self.point)),
        }
    }

    fn sign(&self) -> &'static str {
        if self.is_negative { "-" } else { "" }
    }
}

/// Reads an exponent. An exponent beyond every integer becomes larger than any in use.
fn exponent_of(text: &str) -> i64 {
    const LARGEST: i64 = 1 << 60;
    let is_negative = text.starts_with('-');
    match text.strip_prefix('+').unwrap_or(text).parse::<i64>() {
        Ok(exponent) => exponent.clamp(-LARGEST, LARGEST),
        Err(_) if is_negative => -LARGEST,
        Err(_) => LARGEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    fn canonical(text: &str) -> String {
        let mut bytes = Vec::new();
        write_canonical(&number(text), &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn numbers_of_one_value_have_one_form_and_no_others_share_it() {
        let million = format!("1{}", "0".repeat(1_000_000));
        for (texts, form) in [
            (&["1000", "1e3", "1000.0", "1E+3", "0.1e4"][..], "1000"),
            (&["0", "-0", "0.0", "-0e9", "0e-999999999999999999999"], "0"),
            (&["2512292042121000001"], "2512292042121000001"),
            (
                &["2512292042121000000", "2512292042121e6"],
                "2512292042121000000",
            ),
            (&["9007199254740992"], "9007199254740992"),
            (
                &["9007199254740993", "9007199254740993.0"],
                "9007199254740993",
            ),
            (&["18446744073709551616"], "18446744073709551616"),
            (&["18446744073709552000"], "18446744073709552000"),
            (&["0.1", "1e-1", "0.10"], "0.1"),
            (
                &["0.1000000000000000055511151231257827"],
                "0.1000000000000000055511151231257827",
            ),
            (&["-12.50"], "-12.5"),
            (&["1e21", "1000000000000000000000"], "1e+21"),
            (&["1e400", "10e399"], "1e+400"),
            (&["1e-400"], "1e-400"),
            (&["1.25e-400"], "1.25e-400"),
            (
                &["12345678901234567890123456789012345678901"],
                "1.2345678901234567890123456789012345678901e+40",
            ),
            (
                &["1234567890123456789012345678901234567890"],
                "1234567890123456789012345678901234567890",
            ),
            (&["5e-324"], "5e-324"),
            (&["1.7976931348623157e308"], "1.7976931348623157e+308"),
            (&[&million], "1e+1000000"),
        ] {
            for text in texts {
                let shown = &text[..text.len().min(60)];
                assert_eq!(canonical(text), form, "{shown}");
                assert_eq!(canonical(form), form, "{shown}");
                assert!(same(&number(text), &number(form)), "{shown}");
            }
        }
        for (left, right) in [
            ("2512292042121000001", "2512292042121000000"),
            ("9007199254740992", "9007199254740993"),
            ("18446744073709551616", "18446744073709552000"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("1", "-1"),
            ("1e999999999999999999999", "1e400"),
        ] {
            assert!(!same(&number(left), &number(right)), "{left} {right}");
            assert_ne!(canonical(left), canonical(right));
        }
    }

    #[test]
    fn numbers_stand_in_the_order_of_their_exact_values() {
        let ascending = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992.5",
            "-2.5",
            "-0.1",
            "0",
            "1e-400",
            "0.1",
            "0.1000000000000000055511151231257827",
            "0.11",
            "2",
            "10",
            "12",
            "123",
            "124",
            "9007199254740992",
            "9007199254740992.5",
            "9007199254740993",
            "1e400",
        ];
        for (place, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(order(left, right), place.cmp(&other), "{left} {right}");
            }
        }
        for (left, right) in [("1e3", "1000.0"), ("-0", "0e9"), ("12.50", "125e-1")] {
            assert!(order(left, right).is_eq(), "{left} {right}");
        }
    }

    #[test]
    fn a_language_keeps_a_number_or_changes_it() {
        for (text, by_integers, by_doubles) in [
            ("2512292042121000001", false, true),
            ("9007199254740993", false, true),
            ("9007199254740993.0", true, true),
            ("18446744073709551616", false, true),
            ("0.1", false, false),
            ("-0", false, false),
            ("1e3", false, false),
            ("1e400", true, true),
            ("1e-400", true, true),
            ("0.1000000000000000055511151231257827", true, true),
            ("123456789012345680000", false, false),
        ] {
            let number = number(text);
            assert_eq!(Numbers::Integers.change(&number), by_integers, "{text}");
            assert_eq!(Numbers::Doubles.change(&number), by_doubles, "{text}");
            assert!(!Numbers::Exact.change(&number));
        }
    }

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        for (text, expected) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("-2e3", Some(-2_000)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775807.0", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("7.5", None),
            ("1e999999999", None),
        ] {
            assert_eq!(integer(&number(text)), expected, "{text}");
        }
        assert_eq!(whole(&number("1e400")), None);
        assert!(is_whole(&number("1e400")) && !is_whole(&number("1e-400")));
    }

    #[test]
    fn a_number_has_a_bounded_length_and_exponent() {
        let long = "9".repeat(CHARACTERS_MAX + 1);
        for (text, is_bearable) in [
            ("1e400", true),
            ("1e-400", true),
            ("1e1001", false),
            ("1e999999999999999999999", false),
            ("1e-999999999", false),
            (long.as_str(), false),
            (&long[1..], true),
        ] {
            let inner: Value = serde_json::from_str(&format!("[1,{{\"a/b\":{text}}}]")).unwrap();
            let arguments = Arguments::from(Map::from_iter([("list".to_owned(), inner)]));
            let found = unbearable(&arguments).map(|(pointer, _)| pointer);
            assert_eq!(
                found.as_deref(),
                (!is_bearable).then_some("/list/1/a~1b"),
                "{text}"
            );
        }
        assert!(same_value(&json!([1]), &json!([1.0])));
    }
}
