//! A client's conversations for reading: their list, a search, their pages, an export; and renaming and deleting one. Everything
//! comes from the log in the store. Knows no HTTP and no session.

use super::conversations::Conversations;
use super::messages::{AskedApproval, Line, ShownMessage, Surroundings, messages};
use super::owner::ConversationOwner;
use super::view::question_json;
use super::{ChatHost, ChatRefusal, unavailable};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use windlass_contract::envelope::rfc3339;
use windlass_contract::id::{CallNumber, ConversationId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::{Caller, is_proven_id};
use windlass_store::command::{Command, OpenQuestion, Reply};
use windlass_store::{
    Conversation, ConversationRef, EntryEvent, EntryNumber, QuestionNumber, Store,
    StoreUnavailable, Wanted,
};

/// Entries that are read at once.
const CHUNK: usize = 100;
/// Entries and bytes of the log that one page is made of, at most.
const PAGE_ENTRIES_MAX: usize = 2_000;
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of a page of an export, and bytes of all.
const EXPORT_PAGE: usize = 200;
const EXPORT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Conversations that are looked through at once.
const LISTED_AT_ONCE: usize = 50;
/// Entries that one search looks at, of one conversation and of all. Where it ends before its limit, it goes on at its cursor.
const SEARCHED_OF_ONE_MAX: usize = 2_000;
const SEARCHED_MAX: usize = 20_000;
/// How long a deletion waits for the running calls of earlier turns.
const SETTLING_PATIENCE: Duration = Duration::from_secs(2);

/// The wanted page of the list of conversations.
#[derive(Clone, Debug)]
pub(crate) struct ListRequest {
    pub(crate) conversations_max: usize,
    pub(crate) behind: Option<ListCursor>,
    /// Words that a title or a message has to hold, in lower case; none for all conversations.
    pub(crate) words: Vec<String>,
}

/// The conversation behind which a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListCursor {
    used_at_unix_ms: u64,
    id: ConversationId,
}

impl ListCursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (used, id) = text.split_once('.')?;
        Some(Self {
            used_at_unix_ms: used.parse().ok()?,
            id: ConversationId::new(id),
        })
    }

    fn behind(one: &Conversation) -> Self {
        Self {
            used_at_unix_ms: one.used_at_unix_ms,
            id: one.conversation_id.clone(),
        }
    }

    fn text(&self) -> String {
        format!("{}.{}", self.used_at_unix_ms, self.id)
    }
}

/// The wanted messages of a conversation: the newest, or the newest before an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRequest {
    pub(crate) messages_max: usize,
    pub(crate) before: Option<EntryNumber>,
}

/// Why a conversation is not deleted.
#[derive(Debug)]
pub(crate) enum NotDeleted {
    /// An answer is being written, a session by voice is live, or a call has not ended.
    InUse,
    Refused(ChatRefusal),
}

/// A conversation that its caller may read.
struct OwnConversation {
    whose: ConversationOwner,
    reference: ConversationRef,
    known: Conversation,
}

struct ReadPage {
    messages: Vec<Value>,
    /// Earlier entries of the conversation stand before this entry.
    before: Option<EntryNumber>,
}

impl ChatHost {
    /// The caller's conversations, the newest first.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        wanted: ListRequest,
    ) -> Result<Value, ChatRefusal> {
        // The newest entries may still wait for a shared commit. The store takes this command after them.
        let nothing = ConversationRef {
            tenant: caller.tenant.clone(),
            conversation_id: ConversationId::new(""),
            user_id: UserId::new(caller.client_id.as_str()),
        };
        self.conversations.settle(&nothing).await;
        let (ledger, caller) = (self.shared.ledger.clone(), caller.clone());
        reading(move || listed(ledger.store(), &caller, &wanted)).await
    }

    /// A page of a conversation.
    pub(crate) async fn conversation(
        &self,
        caller: &Caller,
        id: &ConversationId,
        page: PageRequest,
    ) -> Result<Value, ChatRefusal> {
        let own = self.own(caller, id).await?;
        let held = self.conversations.get(&caller.tenant, id);
        let written_behind = held.and_then(|held| held.written_behind());
        let ledger = self.shared.ledger.clone();
        let told_with = self.told_with_requests();
        let standing = self.standing_of(&own.whose, &own.known, caller);
        reading(move || {
            let store = ledger.store();
            // In a conversation without an owner, only the client that was asked may have the token.
            let shows_tokens = own.whose.owner.is_some();
            let questions = store.open_questions(&own.reference)?;
            let asked = questions
                .iter()
                .map(|asked| question_json(asked, shows_tokens, told_with(&asked.question)));
            let asked: Vec<Value> = asked.collect();
            let tokens = if shows_tokens { &questions[..] } else { &[] };
            let read = read_page(
                store,
                &own.reference,
                (&questions[..], tokens),
                written_behind,
                page,
            )?;
            let mut shown = head(&own.known);
            shown["running"] = written_behind.is_some().into();
            shown["messages"] = read.messages.into();
            shown["questions"] = asked.into();
            shown["standingApprovals"] = standing.into();
            shown["next"] = json!(read.before.map(|before| before.0.to_string()));
            Ok(shown)
        })
        .await
    }

    /// The whole conversation from the log, without the tokens of approval requests.
    pub(crate) async fn export(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<Value, ChatRefusal> {
        let own = self.own(caller, id).await?;
        let ledger = self.shared.ledger.clone();
        let mut exported = head(&own.known);
        exported["exportedAt"] = rfc3339(crate::clock::now_unix_ms()).into();
        reading(move || {
            let (messages, is_complete) = read_all(ledger.store(), &own.reference)?;
            exported["messages"] = messages.into();
            exported["complete"] = is_complete.into();
            Ok(exported)
        })
        .await
    }

    /// Gives a conversation another title.
    pub(crate) async fn rename(
        &self,
        caller: &Caller,
        id: &ConversationId,
        title: String,
    ) -> Result<Value, ChatRefusal> {
        let own = self.own(caller, id).await?;
        let rename = Command::Rename(Sensitive(title.clone()));
        self.commit_own(&own.reference, rename).await?;
        let mut known = own.known;
        known.heading.title = Some(Sensitive(title));
        let mut shown = head(&known);
        shown["messages"] = known.heading.messages.into();
        Ok(shown)
    }

    /// Deletes the text of a conversation. Its effects stay in the ledger for their time.
    pub(crate) async fn delete(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<(), NotDeleted> {
        let own = self.own(caller, id).await.map_err(NotDeleted::Refused)?;
        let held = self.conversations.get(&caller.tenant, id);
        // No turn begins meanwhile.
        let _turn = match &held {
            Some(held) => Some(held.try_turn().ok_or(NotDeleted::InUse)?),
            None => None,
        };
        if let Some(held) = &held {
            if held.is_busy() {
                return Err(NotDeleted::InUse);
            }
            // Running calls decide by their outcomes whether the deletion may go on.
            drop(tokio::time::timeout(SETTLING_PATIENCE, held.settled()).await);
        }
        let reply = self.commit_own(&own.reference, Command::Erase).await;
        match reply.map_err(NotDeleted::Refused)? {
            Reply::InUse => Err(NotDeleted::InUse),
            _ => {
                if let Some(held) = &held {
                    held.forget();
                }
                Ok(())
            }
        }
    }

    async fn commit_own(
        &self,
        reference: &ConversationRef,
        command: Command,
    ) -> Result<Reply, ChatRefusal> {
        let replies = self.conversations.commit(reference.clone(), vec![command]);
        let replies = replies.await.map_err(unavailable)?;
        match replies.into_iter().next() {
            Some(Reply::Missing | Reply::Foreign) | None => Err(ChatRefusal::Unknown),
            Some(reply) => Ok(reply),
        }
    }

    /// A conversation of the caller's in which something was said. For all other callers it does not exist.
    async fn own(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<OwnConversation, ChatRefusal> {
        let conversations: &Conversations = &self.conversations;
        let read = || conversations.known(&caller.tenant, id).map_err(unavailable);
        // A conversation that began a moment ago is in memory before it is in the store.
        let whose = match conversations.get(&caller.tenant, id) {
            Some(held) => held.whose.clone(),
            None => ConversationOwner::of(&read()?.ok_or(ChatRefusal::Unknown)?.user_id),
        };
        let admitted = whose.admits(caller, None);
        admitted.map_err(|_| ChatRefusal::Unknown)?;
        let reference = whose.reference(&caller.tenant, id);
        conversations.settle(&reference).await;
        let known = read()?
            .filter(|known| known.heading.messages > 0 && known.user_id == reference.user_id);
        Ok(OwnConversation {
            known: known.ok_or(ChatRefusal::Unknown)?,
            whose,
            reference,
        })
    }
}

/// Reads on a thread where it blocks no task.
async fn reading<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreUnavailable> + Send + 'static,
) -> Result<T, ChatRefusal> {
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|_| ChatRefusal::Internal)?
        .map_err(unavailable)
}

/// The fields that every answer about a conversation begins with.
fn head(known: &Conversation) -> Value {
    json!({
        "id": known.conversation_id.as_str(),
        "title": known.heading.title.as_ref().map(Sensitive::expose),
        "createdAt": rfc3339(known.begun_at_unix_ms),
        "updatedAt": rfc3339(known.used_at_unix_ms),
    })
}

fn listed(
    store: &dyn Store,
    caller: &Caller,
    wanted: &ListRequest,
) -> Result<Value, StoreUnavailable> {
    let user_id = UserId::new(caller.client_id.as_str());
    // A client may have named users, whose names follow its own. A client that has proven who it is speaks for itself alone.
    let is_proven = is_proven_id(caller.client_id.as_str());
    let prefix = (!is_proven).then(|| format!("{}/", caller.client_id));
    let mut behind = wanted.behind.clone();
    let mut budget = SEARCHED_MAX;
    let mut shown = Vec::new();
    let mut has_more = true;
    while has_more && shown.len() < wanted.conversations_max && budget > 0 {
        let found = store.conversations_of(&Wanted {
            tenant: &caller.tenant,
            user_id: &user_id,
            prefix: prefix.as_deref(),
            behind: behind.as_ref().map(|one| (one.used_at_unix_ms, &one.id)),
            conversations_max: LISTED_AT_ONCE,
        })?;
        has_more = found.len() == LISTED_AT_ONCE;
        for (index, one) in found.iter().enumerate() {
            if shown.len() == wanted.conversations_max || budget == 0 {
                has_more |= index < found.len();
                break;
            }
            behind = Some(ListCursor::behind(one));
            if is_meant(store, one, &wanted.words, &mut budget)? {
                let mut entry = head(one);
                entry["messages"] = one.heading.messages.into();
                shown.push(entry);
            }
        }
    }
    let next = behind.filter(|_| has_more).map(|behind| behind.text());
    Ok(json!({"conversations": shown, "next": next}))
}

/// Whether all words that are looked for stand in the title, or in one message.
fn is_meant(
    store: &dyn Store,
    one: &Conversation,
    words: &[String],
    budget: &mut usize,
) -> Result<bool, StoreUnavailable> {
    let holds = |text: &str| {
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let title = one.heading.title.as_ref().map(Sensitive::expose);
    if words.is_empty() || title.is_some_and(|title| holds(title)) {
        return Ok(true);
    }
    let reference = ConversationRef {
        tenant: one.tenant.clone(),
        conversation_id: one.conversation_id.clone(),
        user_id: one.user_id.clone(),
    };
    let entries_max = SEARCHED_OF_ONE_MAX.min(*budget);
    let searched = store.search(&reference, entries_max, &holds)?;
    // Even an almost empty conversation takes one entry of the budget.
    *budget = budget.saturating_sub(searched.entries.max(1));
    Ok(searched.is_found)
}

/// `questions` are the open approval requests; some of them are shown with their tokens.
fn read_page(
    store: &dyn Store,
    reference: &ConversationRef,
    questions: (&[OpenQuestion], &[OpenQuestion]),
    written_behind: Option<EntryNumber>,
    page: PageRequest,
) -> Result<ReadPage, StoreUnavailable> {
    let mut before = page.before.unwrap_or(EntryNumber(u64::MAX));
    let mut newest_first: Vec<Line> = Vec::new();
    let (mut begun, mut bytes) = (0, 0);
    let is_whole = loop {
        let older = store.entries_before(reference, before, CHUNK)?;
        let is_last = older.len() < CHUNK;
        if let Some(first) = older.first() {
            before = first.number;
        }
        for line in older.into_iter().rev().map(Line::of) {
            begun += usize::from(line.begins_message());
            bytes += line.bytes();
            newest_first.push(line);
        }
        if is_last {
            break true;
        }
        if begun > page.messages_max
            || newest_first.len() >= PAGE_ENTRIES_MAX
            || bytes >= PAGE_BYTES_MAX
        {
            break false;
        }
    };
    newest_first.reverse();
    let lines = newest_first;
    let surroundings = Surroundings {
        asked: approvals(store, reference, &lines, questions)?,
        written_behind,
    };
    let mut shown = messages(&lines, &surroundings);
    let all = shown.len();
    shown.drain(..all.saturating_sub(page.messages_max));
    let is_cut = !is_whole || shown.len() < all;
    // An answer stays with its message: its beginning may be further back, and its end names the message.
    if is_cut && shown.len() > 1 && !shown[0].is_users() {
        shown.remove(0);
    }
    let first = shown.first().map_or(before, |message| message.first);
    Ok(ReadPage {
        messages: shown.into_iter().map(ShownMessage::json).collect(),
        before: is_cut.then_some(first),
    })
}

/// Approval requests that a piece of the log tells of, by the calls that they are about.
fn approvals(
    store: &dyn Store,
    reference: &ConversationRef,
    lines: &[Line],
    (open, with_tokens): (&[OpenQuestion], &[OpenQuestion]),
) -> Result<BTreeMap<CallNumber, AskedApproval>, StoreUnavailable> {
    let numbers: BTreeSet<QuestionNumber> = lines
        .iter()
        .filter_map(|line| match &line.entry.event {
            EntryEvent::Question(change) => Some(change.number),
            _ => None,
        })
        .collect();
    let mut asked = BTreeMap::new();
    // The newest approval request of a call counts.
    for number in numbers {
        let Some(question) = store.question_of_number(reference, number)? else {
            continue;
        };
        let is_this = |one: &&OpenQuestion| one.question.number == number;
        let token = with_tokens.iter().find(is_this).map(|one| one.token.text());
        let approval = AskedApproval {
            is_open: open.iter().any(|one| is_this(&one)),
            token,
            question,
        };
        asked.insert(CallNumber(approval.question.call), approval);
    }
    Ok(asked)
}

/// All messages, oldest first, the newest that fit; and whether these are all that the log has.
fn read_all(
    store: &dyn Store,
    reference: &ConversationRef,
) -> Result<(Vec<Value>, bool), StoreUnavailable> {
    let questions = store.open_questions(reference)?;
    let mut newest_first = Vec::new();
    let mut bytes = 0;
    let mut before = None;
    loop {
        let page = PageRequest {
            messages_max: EXPORT_PAGE,
            before,
        };
        let read = read_page(store, reference, (&questions[..], &[]), None, page)?;
        for message in read.messages.into_iter().rev() {
            bytes += message.to_string().len();
            if bytes > EXPORT_BYTES_MAX {
                newest_first.reverse();
                return Ok((newest_first, false));
            }
            newest_first.push(message);
        }
        before = read.before;
        if before.is_none() {
            newest_first.reverse();
            return Ok((newest_first, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is_one() {
        for id in ["c-1", "a.b", "é 1", "."] {
            let cursor = ListCursor {
                used_at_unix_ms: 1_700_000_000_000,
                id: ConversationId::new(id),
            };
            assert_eq!(ListCursor::parse(&cursor.text()), Some(cursor));
        }
        for text in ["", "1", "x.c", "-1.c", "99999999999999999999.c"] {
            assert_eq!(ListCursor::parse(text), None, "{text}");
        }
    }
}
