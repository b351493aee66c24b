//! `extract_contacts`: finds addresses and telephone numbers in a text. Knows their forms and nothing of their owners.

use crate::arguments::read;
use crate::outcome::{Outcome, ready, report};
use phonenumber::{Mode, country};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};

pub(crate) struct Extractor;

/// The most contacts of each kind that are returned.
const FOUND_MAX: usize = 100;

/// The most groups of digits that are examined, so that a text of digits alone takes no longer.
const CANDIDATES_MAX: usize = 500;

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)[\p{L}\p{N}._%+'-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.)+\p{L}{2,63}",
    )
});

static LINK: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?i)\bhttps?://[^\s<>"'`{}|\\^\[\]]+"#));

/// Digits with the usual separators between them, and an extension.
static PHONE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)\+?[(]?\d(?:[ \t\u{a0}().\-/\u{2010}-\u{2015}]{0,3}\d){5,18}(?:[ ,;]{0,2}(?:ext\.?|extension|x|durchwahl|poste)[ .:]{0,2}(?P<extension>\d{1,6}))?",
    )
});

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns above are tested")
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    region: Option<Cow<'a, str>>,
}

impl Handler for Extractor {
    fn execute(&self, invocation: Invocation) -> Execution {
        ready(extract(&invocation))
    }

    fn placement(&self) -> Placement {
        Placement::Apart
    }

    fn preparation(&self) -> Option<fn()> {
        Some(|| {
            for pattern in [&EMAIL, &LINK, &PHONE] {
                LazyLock::force(pattern);
            }
            // The first number loads all data about the world's numbers.
            telephone("+47 22 12 34 56", None);
        })
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["text"],
            "properties": {"text": {"type": "string"}, "region": {"type": "string"}},
        }))
    }
}

fn extract(invocation: &Invocation) -> Outcome {
    let arguments: Arguments<'_> = read(&invocation.arguments)?;
    let text = &*arguments.text;
    let region = match arguments.region.as_deref() {
        None => None,
        Some(region) => Some(region.parse::<country::Id>().map_err(|_| {
            report(
                FailureKind::Validation,
                format!("there is no country `{region}`; write two letters such as US or DE"),
            )
        })?),
    };
    let mut more = false;
    // Digits within an address are no telephone number.
    let mut taken = Vec::new();
    let mut links = Found::default();
    for link in LINK.find_iter(text) {
        taken.push(link.range());
        let link = without_end(link.as_str());
        more |= !links.add(link.to_owned(), || json!(link));
    }
    let links_end = taken.len();
    let mut emails = Found::default();
    for email in EMAIL.find_iter(text) {
        let before = taken[..links_end].partition_point(|range| range.start <= email.start());
        if before > 0 && taken[before - 1].end > email.start() {
            continue;
        }
        taken.push(email.range());
        let email = email
            .as_str()
            .trim_start_matches(['.', '\'', '-', '%', '+']);
        // Case may matter in the name, and does not in the domain.
        let Some((name, domain)) = email.rsplit_once('@').filter(|(name, _)| !name.is_empty())
        else {
            continue;
        };
        let email = format!("{name}@{}", domain.to_lowercase());
        more |= !emails.add(email.to_lowercase(), || json!(email));
    }
    taken.sort_by_key(|range| range.start);
    let mut phones = Found::default();
    for (count, found) in PHONE.captures_iter(text).enumerate() {
        if count == CANDIDATES_MAX {
            more = true;
            break;
        }
        let whole = found.get_match();
        let before = taken.partition_point(|range| range.start <= whole.start());
        let is_within = before > 0 && taken[before - 1].end > whole.start();
        if is_within || !stands_alone(text, whole.start(), whole.end()) {
            continue;
        }
        let extension = found.name("extension").map(|found| found.as_str());
        let digits_end = match found.name("extension") {
            Some(_) => whole
                .as_str()
                .find(|sign: char| sign.is_alphabetic())
                .unwrap_or(whole.len()),
            None => whole.len(),
        };
        let written = whole.as_str()[..digits_end].trim_end_matches([' ', ',', ';']);
        let Some((number, country)) = telephone(written, region) else {
            continue;
        };
        let has_room = phones.add(
            format!("{number};{}", extension.unwrap_or_default()),
            || {
                let mut phone = json!({"number": number, "written": whole.as_str().trim()});
                if let Some(extension) = extension {
                    phone["extension"] = json!(extension);
                }
                if let Some(country) = country {
                    phone["region"] = json!(country);
                }
                phone
            },
        );
        // Further finds are not returned.
        if !has_room {
            more = true;
            break;
        }
    }
    Ok(Success::new(json!({
        "emails": emails.values,
        "phones": phones.values,
        "links": links.values,
        "more": more,
    })))
}

/// Each thing once, in the order of the text.
#[derive(Default)]
struct Found {
    known: BTreeSet<String>,
    values: Vec<Value>,
}

impl Found {
    /// `false` where there is no room for it.
    fn add(&mut self, key: String, value: impl FnOnce() -> Value) -> bool {
        if self.known.contains(&key) {
            return true;
        }
        if self.values.len() == FOUND_MAX {
            return false;
        }
        self.known.insert(key);
        self.values.push(value());
        true
    }
}

/// A link without the punctuation of its sentence.
fn without_end(link: &str) -> &str {
    let mut link = link.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    while let Some(shorter) = link.strip_suffix(')') {
        if link.matches('(').count() >= link.matches(')').count() {
            break;
        }
        link = shorter.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    }
    link
}

/// Whether digits are no part of a word, an amount or a longer number.
fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    let joins = |sign: char| {
        sign.is_alphanumeric()
            || matches!(sign, '_' | '#' | '$' | '€' | '£' | '%' | '@' | '=' | '&')
    };
    !before.is_some_and(|sign| joins(sign) || matches!(sign, '.' | '-' | '/' | '+'))
        && !after.is_some_and(joins)
}

/// The number as `+` and digits, and its country.
fn telephone(written: &str, region: Option<country::Id>) -> Option<(String, Option<String>)> {
    let has_code = written.starts_with('+') || written.starts_with("(+");
    if !has_code && (region.is_none() || is_date(written) || is_amount(written)) {
        return None;
    }
    let plain: String = written
        .chars()
        .map(|sign| match sign {
            '\u{2010}'..='\u{2015}' => '-',
            '\u{a0}' | '\t' => ' ',
            sign => sign,
        })
        .collect();
    let number = phonenumber::parse(region.filter(|_| !has_code), &plain).ok()?;
    if !phonenumber::is_valid(&number) {
        return None;
    }
    let country = number.country().id();
    let is_international = plain.starts_with("00");
    // In countries that dial a leading 0, a number without it is no telephone number, unless its form is one that only telephone numbers
    // have.
    let needs_zero = !has_code
        && !is_international
        && !plain.starts_with('(')
        && number
            .metadata(&phonenumber::metadata::DATABASE)
            .and_then(|metadata| metadata.national_prefix().map(|prefix| prefix == "0"))
            .unwrap_or(false);
    let first = plain.chars().find(char::is_ascii_digit);
    if needs_zero && first != Some('0') {
        return None;
    }
    let number = number.format().mode(Mode::E164).to_string();
    Some((number, country.map(|country| country.as_ref().to_owned())))
}

/// Digits with a point and nothing else between them.
fn is_amount(written: &str) -> bool {
    let between = written.chars().filter(|sign| !sign.is_ascii_digit());
    between.eq(['.'])
}

/// Whether digits with signs between them are a date or a time.
fn is_date(written: &str) -> bool {
    let groups: Vec<&str> = written
        .split(|sign: char| !sign.is_ascii_digit())
        .filter(|group| !group.is_empty())
        .collect();
    let number = |group: &str| group.parse().unwrap_or(u32::MAX);
    let is_day = |group: &str| group.len() <= 2 && (1..=31).contains(&number(group));
    let is_year = |group: &str| group.len() == 4 && (1900..=2100).contains(&number(group));
    match groups.as_slice() {
        [year, month, day, ..] if is_year(year) && is_day(month) && is_day(day) => true,
        [day, month, year, ..] if is_day(day) && is_day(month) && is_year(year) => true,
        _ => false,
    }
}
