//! Metrics of all sessions, in memory and bounded: per tool over its last responses, and sums. A subscriber; knows no HTTP, but
//! both forms in which an endpoint shows them.

mod compare;
mod interval;
mod samples;
mod show;

use crate::provider_log::kind_of;
use crate::pump::AudioCounts;
use crate::subscriber::{SessionIdentity, Subscriber};
use samples::Samples;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_contract::data::Data;
use windlass_contract::envelope::Outcome;
use windlass_contract::error::ErrorType;
use windlass_session::context::{ContextEstimate, ContextUse};
use windlass_session::event::{CallRecord, SessionEvent};

/// A p95 of response characters above this is worth a warning (`docs/operations.md`, "Health and metrics").
const RESPONSE_CHARACTERS_WARNING: u32 = 1_500;
/// Responses that the check of the p95 needs. The p95 of fewer is the longest one, which says little of the tool.
const RESPONSES_CHECKED_MIN: u64 = 20;
/// Responses between two checks of a tool's p95. Up to this number it is checked after each response.
const RESPONSES_BETWEEN_CHECKS: u64 = 50;
/// Kinds of unknown messages of providers that are counted by name. Providers choose the names.
const ODDITY_KINDS_MAX: usize = 64;
const OTHER_ODDITIES: &str = "(other)";
/// Models whose windows are counted by name.
const MODELS_MAX: usize = 64;
const OTHER_MODELS: &str = "(other)";
/// Calls of tools that do not exist are counted under one name, because models invent names without end.
const NO_SUCH_TOOL: &str = "(unknown)";
/// The version of an unknown tool.
const NO_VERSION: &str = "";
/// Versions of a tool that are counted separately. A server that builds its tools again may see any number of them.
const VERSIONS_MAX: usize = 32;
const OTHER_VERSIONS: &str = "(other)";
/// Users of a version that are told apart; further ones are not counted.
const USERS_MAX: usize = 1_000;

/// Counts all events of sessions.
#[derive(Debug, Default)]
pub struct Metrics {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// The counts of each tool by its version. The version of an unknown tool is empty.
    tools: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ToolCounts>>,
    /// The estimate of the session that began last.
    context: ContextEstimate,
    windows: BTreeMap<Arc<str>, WindowCounts>,
    peak_tokens: u64,
    sessions_active: u64,
    sessions_total: u64,
    turns_total: u64,
    turns_wound_up: u64,
    providers_lost: u64,
    provider_oddities: BTreeMap<String, u64>,
    /// Seconds counted by providers that count by time.
    live_seconds: u64,
    silences_after_result: u64,
    /// Refusals for a used-up share, by the refused thing and the kind of the share's owner.
    refused: BTreeMap<(&'static str, &'static str), u64>,
    audio: AudioCounts,
}

/// The use of one model's window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowCounts {
    window_tokens: u64,
    peak_tokens: u64,
    /// Sessions' warnings that the window is nearly full.
    warnings: u64,
}

#[derive(Debug, Default)]
struct ToolCounts {
    calls: u64,
    succeeded: u64,
    cancelled: u64,
    /// Responses that ask for the user's confirmation, and those that had no user to ask. They are in no other count.
    asked: u64,
    duplicates: u64,
    errors: BTreeMap<ErrorType, u64>,
    /// Calls that were refused before they ran. They are among the errors, too.
    refused: u64,
    /// Calls that took longer than the tool's own budget, or were refused because the turn's was spent.
    budget_violations: u64,
    response_characters: Samples,
    latency_ms: Samples,
    /// Durations of the calls that ran to their end.
    run_ms: Samples,
    /// The users of the calls, by hashes that mean nothing elsewhere.
    users: BTreeSet<u64>,
    /// Whether the p95 of the responses was too long at the last check.
    is_long: bool,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal for a party's used-up share.
    pub fn refused(&self, what: &'static str, party: &'static str) {
        *self.lock().refused.entry((what, party)).or_default() += 1;
    }

    /// The metrics as JSON.
    pub fn json(&self) -> serde_json::Value {
        show::json(&self.lock())
    }

    /// The results of each version of each tool, and their differences, as JSON.
    pub fn versions_json(&self) -> serde_json::Value {
        compare::by_version(&self.lock())
    }

    /// The results of each tool, by its id, as JSON.
    pub fn tools_json(&self) -> serde_json::Value {
        show::by_tool(&self.lock())
    }

    /// The metrics in the text format of Prometheus, version 0.0.4.
    pub fn prometheus(&self) -> String {
        show::prometheus(&self.lock())
    }
}

impl Subscriber for Metrics {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        let mut counted = self.lock();
        match event {
            SessionEvent::SessionStarted => {
                counted.sessions_active += 1;
                counted.sessions_total += 1;
            }
            SessionEvent::SessionEnded { .. } => {
                counted.sessions_active = counted.sessions_active.saturating_sub(1);
            }
            SessionEvent::TurnStarted { .. } => counted.turns_total += 1,
            SessionEvent::TurnEnded { summary, .. } if summary.wound_up => {
                counted.turns_wound_up += 1;
            }
            SessionEvent::CallFinished(record) => {
                if let Some(tool) = counted.answered(session, record) {
                    tool.run_ms.add(duration_ms(record));
                }
            }
            SessionEvent::CallRejected(record) => {
                if let Some(tool) = counted.answered(session, record) {
                    tool.refused += 1;
                }
            }
            SessionEvent::CallCancelled(record) => {
                counted.tool(record).cancelled += 1;
                counted.answered(session, record);
            }
            SessionEvent::CallDeduplicated { tool, version, .. } => {
                let versions = counted.tools.get_mut(tool);
                let version = version.as_deref().unwrap_or(NO_VERSION);
                if let Some(tool) = versions.and_then(|versions| versions.get_mut(version)) {
                    tool.duplicates += 1;
                }
            }
            SessionEvent::ProviderLost { .. } => counted.providers_lost += 1,
            SessionEvent::ProviderOddity { problem } => counted.odd(kind_of(problem)),
            SessionEvent::ProviderSilentAfterResult { .. } => counted.silences_after_result += 1,
            SessionEvent::Usage(usage) => {
                counted.peak_tokens = counted.peak_tokens.max(usage.total_tokens);
                counted.live_seconds += usage.seconds;
            }
            SessionEvent::ContextEstimated { estimate, .. } => counted.context = *estimate,
            SessionEvent::ContextUsed(context) => counted.used(context),
            SessionEvent::ContextNearlyFull { context, .. } => {
                counted.window(context).warnings += 1;
            }
            _ => {}
        }
    }

    fn audio(&self, _session: &SessionIdentity, counts: &AudioCounts) {
        self.lock().audio += *counts;
    }
}

impl Counted {
    fn used(&mut self, context: &ContextUse) {
        let window = self.window(context);
        window.peak_tokens = window.peak_tokens.max(context.tokens);
    }

    /// The counts of a model's window. The configuration names the models, so there are few.
    fn window(&mut self, context: &ContextUse) -> &mut WindowCounts {
        let is_known = self.windows.contains_key(&context.model);
        let name = match is_known || self.windows.len() < MODELS_MAX {
            true => context.model.clone(),
            false => Arc::from(OTHER_MODELS),
        };
        let window = self.windows.entry(name).or_default();
        window.window_tokens = context.window_tokens;
        window
    }

    fn odd(&mut self, kind: &str) {
        let oddities = &mut self.provider_oddities;
        if let Some(count) = oddities.get_mut(kind) {
            *count += 1;
            return;
        }
        let kind = match oddities.len() < ODDITY_KINDS_MAX {
            true => kind,
            false => OTHER_ODDITIES,
        };
        *oddities.entry(kind.to_owned()).or_default() += 1;
    }

    fn tool(&mut self, record: &CallRecord) -> &mut ToolCounts {
        let (name, version) = match record.tool() {
            Some(tool) => (record.shown_name(), &*tool.version),
            None => (NO_SUCH_TOOL, NO_VERSION),
        };
        if !self.tools.contains_key(name) {
            self.tools.insert(name.into(), BTreeMap::new());
        }
        let versions = self
            .tools
            .get_mut(name)
            .expect("the tool was inserted where it was missing");
        let version = match versions.contains_key(version) || versions.len() < VERSIONS_MAX {
            true => version,
            false => OTHER_VERSIONS,
        };
        if !versions.contains_key(version) {
            versions.insert(version.into(), ToolCounts::default());
        }
        versions
            .get_mut(version)
            .expect("the version was inserted where it was missing")
    }

    /// The counts of the tool; `None` for a response that asks for the user's confirmation.
    fn answered(
        &mut self,
        session: &SessionIdentity,
        record: &CallRecord,
    ) -> Option<&mut ToolCounts> {
        let response = record.response.expose();
        if response.error_type() == Some(ErrorType::ConfirmationRequired) {
            self.tool(record).asked += 1;
            return None;
        }
        let characters = match &response.outcome {
            Outcome::Success { data, .. } => match data.as_ref().and_then(Data::text) {
                Some(text) => u32::try_from(text.get().chars().count()).unwrap_or(u32::MAX),
                None => characters(data),
            },
            Outcome::Failure(error) => characters(error),
        };
        let latency_budget_ms = record.tool().map(|tool| tool.latency_budget_ms);
        let tool = self.tool(record);
        tool.calls += 1;
        match response.error_type() {
            None => tool.succeeded += 1,
            Some(error_type) => *tool.errors.entry(error_type).or_default() += 1,
        }
        if tool.users.len() < USERS_MAX {
            tool.users.insert(hash_of_user(session));
        }
        let is_late =
            latency_budget_ms.is_some_and(|budget_ms| response.meta.duration_ms > budget_ms);
        if is_late || response.error_type() == Some(ErrorType::BudgetExceeded) {
            tool.budget_violations += 1;
        }
        tool.response_characters.add(characters);
        tool.latency_ms.add(duration_ms(record));
        if let Some(p95) = tool.p95_that_became_long() {
            let tool = record.shown_name();
            tracing::warn!(%tool, p95, "the responses of a tool are long for a model to read");
        }
        Some(tool)
    }
}

fn duration_ms(record: &CallRecord) -> u32 {
    let duration_ms = record.response.expose().meta.duration_ms;
    u32::try_from(duration_ms).unwrap_or(u32::MAX)
}

/// A hash that tells users apart, and is used nowhere else.
fn hash_of_user(session: &SessionIdentity) -> u64 {
    let mut hasher = DefaultHasher::new();
    session.tenant.as_str().hash(&mut hasher);
    session.user_id.as_str().hash(&mut hasher);
    hasher.finish()
}

impl ToolCounts {
    /// The counts of all versions of a tool together.
    fn merged(versions: &BTreeMap<Arc<str>, Self>) -> Self {
        let samples = |of: fn(&Self) -> &Samples| Samples::merged(versions.values().map(of));
        let sum = |of: fn(&Self) -> u64| versions.values().map(of).sum();
        let mut errors = BTreeMap::new();
        for (error_type, count) in versions.values().flat_map(|version| &version.errors) {
            *errors.entry(*error_type).or_default() += count;
        }
        Self {
            calls: sum(|version| version.calls),
            succeeded: sum(|version| version.succeeded),
            cancelled: sum(|version| version.cancelled),
            asked: sum(|version| version.asked),
            duplicates: sum(|version| version.duplicates),
            errors,
            refused: sum(|version| version.refused),
            budget_violations: sum(|version| version.budget_violations),
            response_characters: samples(|version| &version.response_characters),
            latency_ms: samples(|version| &version.latency_ms),
            run_ms: samples(|version| &version.run_ms),
            users: BTreeSet::new(),
            is_long: false,
        }
    }

    /// The p95 of the responses, if it is too long now and was not at the check before.
    fn p95_that_became_long(&mut self) -> Option<u32> {
        let is_checked = (RESPONSES_CHECKED_MIN..=RESPONSES_BETWEEN_CHECKS).contains(&self.calls)
            || self.calls.is_multiple_of(RESPONSES_BETWEEN_CHECKS);
        if !is_checked {
            return None;
        }
        let p95 = self.response_characters.percentiles().p95;
        let was_long = std::mem::replace(&mut self.is_long, p95 > RESPONSE_CHARACTERS_WARNING);
        (self.is_long && !was_long).then_some(p95)
    }
}

/// The characters of a value's JSON, counted without writing it.
fn characters(value: &impl Serialize) -> u32 {
    struct Counter(u32);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // In UTF-8 every byte but those of the form 10xxxxxx begins a character.
            let begun = bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            self.0 = self
                .0
                .saturating_add(u32::try_from(begun).unwrap_or(u32::MAX));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value)
        .expect("responses are JSON already, and counting cannot fail");
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_responses_are_said_from_twenty_on_and_again_when_they_come_back() {
        let mut tool = ToolCounts::default();
        // Numbers of responses with numbers of characters, and the counts of responses after which the log has a line.
        for (responses, characters, expected) in [
            // One long response is not the rule.
            (1, 9_000, &[][..]),
            (59, 100, &[]),
            // More than a twentieth of the remembered responses.
            (40, 1_501, &[100]),
            (100, 1_501, &[]),
            (2_000, 1_500, &[]),
            (100, 1_501, &[2_300]),
        ] {
            let mut warned = Vec::new();
            for _ in 0..responses {
                tool.calls += 1;
                tool.response_characters.add(characters);
                warned.extend(tool.p95_that_became_long().map(|_| tool.calls));
            }
            assert_eq!(warned, expected, "{responses} of {characters}");
        }
        let mut tool = ToolCounts::default();
        for _ in 0..20 {
            assert_eq!(tool.p95_that_became_long(), None);
            tool.calls += 1;
            tool.response_characters.add(1_501);
        }
        assert_eq!(tool.p95_that_became_long(), Some(1_501));
    }
}
