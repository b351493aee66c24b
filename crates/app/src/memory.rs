//! Earlier calls out of the logs of conversations, for the tool that tells of them. Knows whose a conversation is, and no tool.

use crate::chat::owner::ConversationOwner;
use std::sync::Arc;
use windlass_contract::handler::{
    CallMemory, CallsRequest, CapabilityFuture, EarlierCall, MemoryUnavailable, WantedCalls,
};
use windlass_contract::id::TenantId;
use windlass_session::log_text::Said;
use windlass_store::{ConversationRef, Entry, EntryNumber, Store, StoreUnavailable};

/// The prefix of an entry's number in the id of a call.
const ID: &str = "c-";
/// Entries that are read at once, and that one request looks at.
const CHUNK: usize = 200;
const ENTRIES_MAX: usize = 2_000;

pub(crate) struct LoggedCalls {
    pub(crate) store: Arc<dyn Store>,
    /// The tenant of the conversations that tools may ask about.
    pub(crate) tenant: TenantId,
}

impl CallMemory for LoggedCalls {
    fn calls(
        &self,
        request: CallsRequest,
    ) -> CapabilityFuture<Result<Vec<EarlierCall>, MemoryUnavailable>> {
        let found = self.find(&request);
        let found = found.map_err(|error| MemoryUnavailable(error.to_string()));
        Box::pin(std::future::ready(found))
    }
}

impl LoggedCalls {
    fn find(&self, request: &CallsRequest) -> Result<Vec<EarlierCall>, StoreUnavailable> {
        let Some(conversation) = self.own(request)? else {
            return Ok(Vec::new());
        };
        match &request.wanted {
            WantedCalls::One(id) => self.one(&conversation, id),
            WantedCalls::Newest {
                tool,
                but,
                calls_max,
            } => {
                let is_meant = |name: &str| match tool {
                    Some(tool) => name == tool,
                    None => name != but,
                };
                self.newest(&conversation, *calls_max, is_meant)
            }
        }
    }

    /// The conversation, if it is the user's who asks.
    fn own(&self, request: &CallsRequest) -> Result<Option<ConversationRef>, StoreUnavailable> {
        let id = &request.conversation_id;
        let Some(known) = self.store.conversation(&self.tenant, id)? else {
            return Ok(None);
        };
        let whose = ConversationOwner::of(&known.user_id);
        let is_own = whose.user_id == request.user_id;
        Ok(is_own.then(|| whose.reference(&self.tenant, id)))
    }

    fn one(
        &self,
        conversation: &ConversationRef,
        id: &str,
    ) -> Result<Vec<EarlierCall>, StoreUnavailable> {
        let number = id.strip_prefix(ID).and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|number: &u64| *number < u64::MAX) else {
            return Ok(Vec::new());
        };
        let behind = EntryNumber(number + 1);
        let read = self.store.entries_before(conversation, behind, 1)?;
        let is_it = |entry: &&Entry| entry.number == EntryNumber(number);
        Ok(read.iter().filter(is_it).filter_map(call_of).collect())
    }

    fn newest(
        &self,
        conversation: &ConversationRef,
        calls_max: usize,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Vec<EarlierCall>, StoreUnavailable> {
        let mut found = Vec::new();
        let mut looked_at = 0;
        let mut entries = self
            .store
            .entries(conversation, EntryNumber::default(), CHUNK)?;
        while let Some(first) = entries.first().map(|entry| entry.number) {
            for entry in entries.iter().rev() {
                found.extend(call_of(entry).filter(|call| is_meant(&call.tool)));
                if found.len() >= calls_max {
                    return Ok(found);
                }
            }
            looked_at += entries.len();
            if looked_at >= ENTRIES_MAX {
                break;
            }
            entries = self.store.entries_before(conversation, first, CHUNK)?;
        }
        Ok(found)
    }
}

/// The call that an entry tells of, if it does. Sensitive arguments are in no log.
fn call_of(entry: &Entry) -> Option<EarlierCall> {
    let Said::Call {
        call: _,
        tool,
        turn,
        arguments,
        result,
        error,
        duration_ms,
        is_external,
    } = Said::of(entry)?
    else {
        return None;
    };
    Some(EarlierCall {
        id: format!("{ID}{}", entry.number.0),
        tool,
        turn,
        at_unix_ms: entry.at_unix_ms,
        arguments,
        result,
        error,
        duration_ms,
        is_external,
    })
}
