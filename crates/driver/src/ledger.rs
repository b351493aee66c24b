//! The ledger for a session: commands go in and are answered later, and a commit wakes the legs of its conversation.

use crate::tail::Tail;
use std::future::Future;
use std::pin::Pin;
use windlass_contract::id::SessionId;
use windlass_contract::kind::Mode;
use windlass_store::command::{AnswerVerdict, Command, Reply};
use windlass_store::{Batch, ConversationRef, Store, StoreUnavailable};

/// One reply a command, in their order, once they are durable. Dropping this takes no command back.
pub type PendingReplies =
    Pin<Box<dyn Future<Output = Result<Vec<Reply>, StoreUnavailable>> + Send>>;

/// Batches of one conversation are carried out in the order in which they are given, even if earlier ones fail.
pub trait Ledger: Send + Sync {
    /// Has the commands of a batch carried out in one transaction. If the store does not take a batch that must not be lost, this
    /// answers with the error, and the batch is tried again before anything else of the conversation is committed.
    fn apply(&self, batch: Batch) -> PendingReplies;

    /// The store, for reading the newest commits.
    fn store(&self) -> &dyn Store;

    /// Wakes a leg when something of its conversation was committed, except its own entries.
    fn tail(&self, conversation: &ConversationRef, leg: &SessionId) -> Tail;

    /// Whether the leg lives in this process, and its session is not about to end.
    fn is_live(&self, conversation: &ConversationRef, leg: &SessionId) -> bool;
}

/// Whether a command carries facts that no one would repeat, such as the end of an attempt, words, or the reading of external content.
pub fn must_not_be_lost(command: &Command) -> bool {
    match command {
        Command::Open(_)
        | Command::Attach(_)
        | Command::Leave(_)
        | Command::Discard
        | Command::Append { .. }
        | Command::Taint
        | Command::Abandon { .. }
        | Command::Revoke { .. }
        | Command::Withdraw { .. }
        | Command::Record(_)
        | Command::Heard { .. } => true,
        Command::Resume(_)
        | Command::Save { .. }
        | Command::Request(_)
        | Command::Answer(_)
        | Command::Found(_)
        | Command::CalledBack(_)
        | Command::Settle
        | Command::LookUp { .. }
        | Command::Progress(_)
        | Command::CancelTask { .. }
        | Command::TasksSent(_)
        | Command::Audited(_)
        | Command::Rename(_)
        | Command::Erase => false,
    }
}

/// Whether commands may wait for a moment until others share their flush of the disk, because their replies are not waited for.
pub fn may_be_gathered(commands: &[Command]) -> bool {
    let attaches_text = commands.iter().any(is_text_leg);
    let needs_no_reply = |command: &Command| match command {
        // A text leg opens its conversation in the same batch. Alone, the command asks for the conversation's owner.
        Command::Open(_) => attaches_text,
        other => is_text_leg(other) || never_has_a_waiter(other),
    };
    commands.iter().all(needs_no_reply)
}

/// Whether a leg by text begins. No client resumes one; a voice leg can be resumed as soon as its client has the token.
fn is_text_leg(command: &Command) -> bool {
    matches!(command, Command::Attach(leg) if leg.mode == Mode::Text)
}

fn never_has_a_waiter(command: &Command) -> bool {
    match command {
        Command::Append { .. }
        | Command::Leave(_)
        | Command::Discard
        | Command::Taint
        | Command::Save { .. }
        | Command::Withdraw { .. }
        | Command::Heard { .. }
        | Command::Progress(_)
        | Command::TasksSent(_)
        | Command::Audited(_) => true,
        Command::Open(_)
        | Command::Attach(_)
        | Command::Resume(_)
        | Command::Request(_)
        | Command::Answer(_)
        | Command::Abandon { .. }
        | Command::Revoke { .. }
        | Command::Record(_)
        | Command::Found(_)
        | Command::CalledBack(_)
        | Command::Settle
        | Command::LookUp { .. }
        | Command::CancelTask { .. }
        | Command::Rename(_)
        | Command::Erase => false,
    }
}

/// Whether a command may begin a change in the outside world. Such a change does not begin if it could not be audited.
pub fn begins_change(command: &Command) -> bool {
    match command {
        Command::Request(request) => request.tool.writes,
        Command::Answer(answer) => match &answer.verdict {
            AnswerVerdict::Approved(approval) => {
                approval.tool.as_ref().is_none_or(|tool| tool.writes)
            }
            AnswerVerdict::Denied { .. } => false,
        },
        Command::Open(_)
        | Command::Attach(_)
        | Command::Resume(_)
        | Command::Save { .. }
        | Command::Leave(_)
        | Command::Discard
        | Command::Append { .. }
        | Command::Taint
        | Command::Abandon { .. }
        | Command::Revoke { .. }
        | Command::Withdraw { .. }
        | Command::Record(_)
        | Command::Found(_)
        | Command::CalledBack(_)
        | Command::Settle
        | Command::LookUp { .. }
        | Command::Progress(_)
        | Command::CancelTask { .. }
        | Command::TasksSent(_)
        | Command::Heard { .. }
        | Command::Audited(_)
        | Command::Rename(_)
        | Command::Erase => false,
    }
}
