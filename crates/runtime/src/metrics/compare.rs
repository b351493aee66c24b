//! The versions of each tool side by side: the results of each with their certainty, and the difference of each from the lowest
//! version. `GET /api/tools/stats?by=version` shows it. Knows no version's meaning.

use super::interval::{self, Difference, Interval, SAMPLE_MIN, Share};
use super::samples::Samples;
use super::{Counted, NO_VERSION, ToolCounts, USERS_MAX, show};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_contract::version::Version;

/// Calls of one user resemble each other. With fewer users than this the intervals are too narrow.
const FEW_USERS: usize = 10;

pub(super) fn by_version(counted: &Counted) -> Value {
    let tools = counted.tools.iter().map(|(name, versions)| {
        let mut versions: Vec<(&Arc<str>, &ToolCounts)> = versions
            .iter()
            .filter(|(version, _)| &***version != NO_VERSION)
            .collect();
        versions.sort_by_key(|(version, _)| Version::parse(version));
        let each = versions
            .iter()
            .map(|(version, counts)| (version.to_string(), of_version(counts)));
        let mut shown = json!({ "versions": each.collect::<Map<String, Value>>() });
        if let Some(((first, base), others)) = versions.split_first() {
            let compared = others.iter().map(|(version, counts)| {
                json!({
                    "version": version,
                    "with": first,
                    "successRate": share(counts.successes().above(base.successes())),
                    "refusalRate": share(counts.refusals().above(base.refusals())),
                    "latencyMs": median(&counts.run_ms, &base.run_ms),
                    "responseCharacters": median(
                        &counts.response_characters,
                        &base.response_characters,
                    ),
                    "responseTokens": json!(interval::above(
                        &tokens(&counts.response_characters),
                        &tokens(&base.response_characters),
                    )),
                    "fewUsers": counts.users.len().min(base.users.len()) < FEW_USERS,
                })
            });
            shown["differences"] = compared.collect();
        }
        (name.to_string(), shown)
    });
    json!({ "tools": tools.collect::<Map<String, Value>>(), "callsMin": SAMPLE_MIN })
}

impl ToolCounts {
    fn successes(&self) -> Share {
        Share {
            part: self.succeeded,
            whole: self.calls,
        }
    }

    fn refusals(&self) -> Share {
        Share {
            part: self.refused,
            whole: self.calls,
        }
    }
}

fn of_version(counts: &ToolCounts) -> Value {
    let characters = &counts.response_characters;
    json!({
        "calls": counts.calls,
        "succeeded": counts.succeeded,
        "successRate": counts.successes().rate(),
        "successInterval": counts.successes().interval(),
        "refused": counts.refused,
        "refusalRate": counts.refusals().rate(),
        "refusalInterval": counts.refusals().interval(),
        "errorsByType": show::errors_by_type(counts),
        "asked": counts.asked,
        "cancelled": counts.cancelled,
        "duplicates": counts.duplicates,
        "budgetViolations": counts.budget_violations,
        "latencyMs": spread(&counts.run_ms.sorted()),
        "responseCharacters": spread(&characters.sorted()),
        "responseTokens": spread(&tokens(characters)),
        "users": counts.users.len(),
        "usersAreMore": counts.users.len() >= USERS_MAX,
    })
}

/// Tokens in the usual estimate: four characters each.
fn tokens(characters: &Samples) -> Vec<u32> {
    let sorted = characters.sorted().into_iter();
    sorted.map(|characters| characters.div_ceil(4)).collect()
}

/// The percentiles of sorted values.
fn spread(sorted: &[u32]) -> Value {
    let rank = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|rank| sorted.get(rank))
    };
    let interval: Option<Interval> = interval::of_median(sorted);
    json!({ "count": sorted.len(), "p50": rank(50), "p50Interval": interval, "p95": rank(95) })
}

fn share(difference: Difference) -> Value {
    json!(difference)
}

fn median(own: &Samples, base: &Samples) -> Value {
    json!(interval::above(&own.sorted(), &base.sorted()))
}
