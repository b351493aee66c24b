//! The lookup of an effect's outcome at its handler, and the part of its finding that goes into the ledger. Runs no handler.

use crate::executor::EffectLookup;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::excess;
use windlass_contract::handler::{Finding, Success};
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;
use windlass_session::{SetApart, ValuesApart, keeps_values};
use windlass_store::command::{Command, Found, FoundState};
use windlass_store::{ConversationRef, Effect, EntryNumber, Store};

/// Entries of the log that are read for the values that handlers keep.
const ENTRIES_MAX: usize = 500;
/// Characters of a found result's data that the ledger is given; it is shortened as results of calls are.
const RESULT_CHARACTERS_MAX: usize = 262_144;

/// The lookup at the handler of the version that ran. `None` if no handler can answer: the tool is gone, has no lookup, or does not read
/// the effect's arguments any more.
pub(crate) fn lookup_of(effect: &Effect, registry: &Registry) -> Option<EffectLookup> {
    let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version)?;
    tool.handler.outcome_lookup()?;
    let arguments: Arguments = serde_json::from_str(effect.arguments.expose()).ok()?;
    Some(EffectLookup {
        tool: tool.clone(),
        effect_id: effect.effect_id.clone(),
        arguments: Arc::new(arguments),
        timeout: Duration::from_millis(tool.lookup_ms()),
    })
}

/// An effect whose handler was asked, and its conversation.
pub(crate) struct LookedUp<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) conversation: &'a ConversationRef,
    pub(crate) registry: &'a Arc<Registry>,
    /// The limits of the conversation's sessions.
    pub(crate) limits: &'a Arc<Limits>,
    pub(crate) effect: &'a Effect,
    /// The version of the tool whose handler was asked. The registry may have changed since.
    pub(crate) version: Option<&'a str>,
    pub(crate) began_unix_ms: u64,
}

impl LookedUp<'_> {
    /// The command to the ledger about a finding; and the events of its intents, to be reported if the finding is news. Only the version
    /// that ran can say that nothing has happened: another one may ask another service.
    pub(crate) fn found(&self, finding: &Finding) -> (Command, Vec<SessionEvent>) {
        let (effect, registry) = (self.effect, self.registry);
        let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
        let is_what_ran = self.version == Some(&*effect.tool_version);
        let mut set = SetApart::default();
        let (finding, receipt) = match finding {
            Finding::Happened(success) => {
                set = self.set(success);
                let receipt = tool.map(|tool| receipt(tool, success, registry, self.began_unix_ms));
                (FoundState::Happened, receipt)
            }
            Finding::NotHappened if is_what_ran => (FoundState::NotHappened, None),
            Finding::NotHappened | Finding::Unknown => (FoundState::Unknown, None),
        };
        let found = Command::Found(Box::new(Found {
            effect_id: effect.effect_id.clone(),
            began_unix_ms: self.began_unix_ms,
            finding,
            receipt,
            values: set.values,
        }));
        (found, set.events)
    }

    /// Sets the values that a found result keeps for the conversation. Without the log the other values are unknown, and these are set
    /// all the same: the log's readers merge them.
    fn set(&self, success: &Success) -> SetApart {
        let log = match keeps_values(&success.intents) {
            true => {
                let after = EntryNumber(0);
                let read = self.store.entries(self.conversation, after, ENTRIES_MAX);
                read.unwrap_or_default()
            }
            false => Vec::new(),
        };
        let apart = ValuesApart {
            tool: &self.effect.tool,
            registry: self.registry,
            limits: self.limits,
            log: &log,
        };
        apart.set(&success.intents)
    }
}

/// A result as the ledger keeps it, in the form of the core's own results. Its intents are left out: the session for which it ran may be
/// another one by now.
fn receipt(
    tool: &Tool,
    success: &Success,
    registry: &Registry,
    now_unix_ms: u64,
) -> Sensitive<String> {
    let (mut data, mut content) = (success.data.clone(), success.content.clone());
    let keeps_contract = match (&tool.response, &data) {
        (Some(schema), Some(data)) => schema.is_valid(data),
        (Some(schema), None) => schema.is_valid(&serde_json::Value::Null),
        (None, _) => true,
    };
    let mut meta = tool.meta(registry.version().clone(), now_unix_ms, Arc::default());
    if keeps_contract {
        let shortened = data.as_ref();
        let shortened = shortened.and_then(|data| data.shortened(RESULT_CHARACTERS_MAX));
        if let Some((shortened, cut)) = shortened {
            data = Some(shortened);
            meta.cut = Some(cut.into());
        }
        excess::shorten_content(&mut content, RESULT_CHARACTERS_MAX);
    } else {
        // A change that was made stays made: its details are lost, its success is not.
        data = None;
        content = Vec::new();
    }
    let response = ToolResponse {
        outcome: Outcome::Success { data, content },
        intents: Vec::new(),
        meta,
    };
    let text = serde_json::to_string(&response);
    Sensitive(text.expect("a response has text keys and finite numbers"))
}
