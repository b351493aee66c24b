//! `rank_results`: sorts items by weighted criteria. Knows nothing of the items' meaning.

use crate::arguments::read;
use crate::outcome::{Outcome, ready, report};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use std::borrow::Cow;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};

pub(crate) struct Ranker;

#[derive(Deserialize)]
struct Arguments<'a> {
    items: Vec<Map<String, Value>>,
    #[serde(borrow)]
    criteria: Vec<Criterion<'a>>,
    top: usize,
}

#[derive(Deserialize)]
struct Criterion<'a> {
    #[serde(borrow)]
    field: Cow<'a, str>,
    best: Best,
    weight: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Best {
    Highest,
    Lowest,
}

impl Handler for Ranker {
    fn execute(&self, invocation: Invocation) -> Execution {
        ready(rank(&invocation))
    }

    fn placement(&self) -> Placement {
        Placement::Apart
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["items", "criteria", "top"],
            "properties": {
                "items": {"type": "array", "items": {"type": "object"}},
                "criteria": {"type": "array", "items": {
                    "type": "object",
                    "required": ["field", "best", "weight"],
                    "properties": {
                        "field": {"type": "string"},
                        "best": {"type": "string", "enum": ["highest", "lowest"]},
                        "weight": {"type": "number"},
                    },
                }},
                "top": {"type": "integer"},
            },
        }))
    }
}

fn rank(invocation: &Invocation) -> Outcome {
    let Arguments {
        items,
        criteria,
        top,
    } = read(&invocation.arguments)?;
    let total: f64 = criteria.iter().map(|criterion| criterion.weight).sum();
    let mut scores = vec![0.0; items.len()];
    let mut missing = vec![Vec::new(); items.len()];
    for criterion in &criteria {
        let values: Vec<Option<&Value>> = items
            .iter()
            .map(|item| field(item, &criterion.field))
            .collect();
        if values.iter().all(Option::is_none) {
            return Err(report(
                FailureKind::Validation,
                format!("no item has the field `{}`", criterion.field),
            ));
        }
        let shares = shares(&values, criterion.best);
        for (place, share) in shares.into_iter().enumerate() {
            match share {
                Some(share) => scores[place] += share * criterion.weight / total,
                None => missing[place].push(criterion.field.to_string()),
            }
        }
    }
    // Scores that differ in the last bits of their sums are equal.
    let scores: Vec<f64> = scores
        .into_iter()
        .map(|score| (score * 10_000.0).round() / 10_000.0)
        .collect();
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    let count = items.len();
    let mut items: Vec<Option<_>> = items.into_iter().map(Some).collect();
    let mut ranked: Vec<Value> = Vec::new();
    let mut rank = 0;
    let mut last = None;
    for (place, index) in order.into_iter().enumerate().take(top) {
        let score = scores[index];
        if last != Some(score) {
            rank = place + 1;
            last = Some(score);
        }
        let mut entry = json!({"rank": rank, "score": score, "item": items[index].take()});
        if !missing[index].is_empty() {
            entry["missing"] = json!(missing[index]);
        }
        ranked.push(entry);
    }
    Ok(Success::new(json!({"ranked": ranked, "count": count})))
}

/// A field by its name, or by names with dots between them. A null counts as missing.
fn field<'a>(item: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let direct = item.get(path);
    let found = direct.or_else(|| {
        let mut names = path.split('.');
        let first = item.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    });
    found.filter(|value| !value.is_null())
}

/// The quality of each value, from 0 to 1: numbers and dates by their distance from the worst, other values by their place in the order.
fn shares(values: &[Option<&Value>], best: Best) -> Vec<Option<f64>> {
    let measured: Vec<Option<f64>> = values.iter().map(|value| measure((*value)?)).collect();
    let is_measured = values
        .iter()
        .zip(&measured)
        .all(|(value, measure)| value.is_none() || measure.is_some());
    let measured = match is_measured {
        true => measured,
        false => places(values),
    };
    let known = || measured.iter().flatten().copied();
    let low = known().fold(f64::INFINITY, f64::min);
    let high = known().fold(f64::NEG_INFINITY, f64::max);
    let share = |value: f64| match high > low {
        // Halving first keeps the distance of the two largest numbers finite.
        true => (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
        false => 1.0,
    };
    let good = |share: f64| match best {
        Best::Highest => share,
        Best::Lowest if high > low => 1.0 - share,
        Best::Lowest => share,
    };
    measured
        .iter()
        .map(|value| value.map(|value| good(share(value))))
        .collect()
}

fn measure(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Number::as_f64(number).filter(|number| number.is_finite()),
        Value::Bool(is_so) => Some(f64::from(u8::from(*is_so))),
        Value::String(text) => {
            let text = text.trim();
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.or_else(|| moment(text))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The seconds of a date, or of a date and time.
fn moment(text: &str) -> Option<f64> {
    let date_time = |text: &str| {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        Some(timestamp.as_millisecond() as f64 / 1000.0)
    };
    let civil = |text: &str| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(zoned.timestamp().as_millisecond() as f64 / 1000.0)
    };
    date_time(text).or_else(|| civil(text))
}

/// Each value's place among the distinct ones, in the order of their texts.
fn places(values: &[Option<&Value>]) -> Vec<Option<f64>> {
    let text = |value: &Value| match value {
        Value::String(text) => text.to_lowercase(),
        other => other.to_string(),
    };
    let texts: Vec<Option<String>> = values.iter().map(|value| value.map(text)).collect();
    let mut distinct: Vec<&String> = texts.iter().flatten().collect();
    distinct.sort();
    distinct.dedup();
    let place = |text: &String| distinct.binary_search(&text).unwrap_or_default() as f64;
    texts
        .iter()
        .map(|found| found.as_ref().map(place))
        .collect()
}
