//! The owner of a conversation: its user, and the client that alone may go on with it. The store keeps both as one name. The one check
//! on every way into a conversation. Knows no session and no HTTP.

use crate::users;
use windlass_contract::id::{ClientId, ConversationId, TenantId, UserId};
use windlass_runtime::caller::{Caller, is_proven_id};
use windlass_store::{Conversation, ConversationRef};

/// Stands for the owner of a conversation that every caller with its id may go on with. No client has this id.
const ANYBODY: &str = "*";

/// The owner of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConversationOwner {
    /// Only this client may go on with it; `None` if every caller that knows its id may.
    pub(crate) owner: Option<ClientId>,
    pub(crate) user_id: UserId,
}

/// Why a caller may not enter a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// It is another client's.
    Client,
    /// The caller names another user than the one whom it is for.
    User,
}

impl ConversationOwner {
    /// The owner of a conversation that a caller begins for a user.
    pub(crate) fn begun_by(caller: &Caller, named: Option<&UserId>) -> Self {
        Self {
            owner: caller.keeper().cloned(),
            user_id: match named {
                Some(named) => named.clone(),
                None => users::of_client(&caller.client_id),
            },
        }
    }

    /// The owner by the store's name.
    pub(crate) fn of(ledger_user: &UserId) -> Self {
        let text = ledger_user.as_str();
        let own = || Self {
            owner: Some(ClientId::new(text)),
            user_id: ledger_user.clone(),
        };
        if is_proven_id(text) {
            return own();
        }
        match text.split_once('/') {
            None => own(),
            Some((owner, user)) => Self {
                owner: (owner != ANYBODY).then(|| ClientId::new(owner)),
                user_id: UserId::new(user),
            },
        }
    }

    /// The name under which the store keeps it.
    pub(crate) fn ledger_user(&self) -> UserId {
        let user = self.user_id.as_str();
        match &self.owner {
            Some(owner) if owner.as_str() == user => self.user_id.clone(),
            Some(owner) => UserId::new(format!("{owner}/{user}")),
            None => UserId::new(format!("{ANYBODY}/{user}")),
        }
    }

    /// The conversation of this id, as commands to the store name it.
    pub(crate) fn reference(&self, tenant: &TenantId, id: &ConversationId) -> ConversationRef {
        ConversationRef {
            tenant: tenant.clone(),
            conversation_id: id.clone(),
            user_id: self.ledger_user(),
        }
    }

    /// Whether a caller, who may name a user, may go on with it.
    pub(crate) fn admits(&self, caller: &Caller, named: Option<&UserId>) -> Result<(), Foreign> {
        let is_others = |owner: &ClientId| *owner != caller.client_id;
        if self.owner.as_ref().is_some_and(is_others) {
            return Err(Foreign::Client);
        }
        self.is_for(named)
    }

    /// Whether a caller may answer one of its approval requests. A caller without an id shows the token of the request, which
    /// speaks for the client that was asked; but not if the caller shows another id, or names another user. `asked` is the
    /// client that was asked, if that is not the owner.
    pub(crate) fn admits_answer(
        &self,
        caller: &Caller,
        named: Option<&UserId>,
        asked: Option<&ClientId>,
    ) -> Result<(), Foreign> {
        let unnamed = ClientId::new(self.user_id.as_str());
        let client = self.owner.as_ref().or(asked).unwrap_or(&unnamed);
        if caller.is_other_than(client) {
            return Err(Foreign::Client);
        }
        self.is_for(named)
    }

    fn is_for(&self, named: Option<&UserId>) -> Result<(), Foreign> {
        match named.is_none_or(|named| *named == self.user_id) {
            true => Ok(()),
            false => Err(Foreign::User),
        }
    }
}

/// The owner as whom a caller enters a conversation of the store; if the store has none, the caller begins it.
pub(crate) fn admit(
    known: Option<&Conversation>,
    caller: &Caller,
    named: Option<&UserId>,
) -> Result<ConversationOwner, Foreign> {
    let Some(known) = known else {
        return Ok(ConversationOwner::begun_by(caller, named));
    };
    let whose = ConversationOwner::of(&known.user_id);
    whose.admits(caller, named)?;
    Ok(whose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_runtime::caller::Acquaintance;

    fn caller(id: &str, acquaintance: Acquaintance) -> Caller {
        Caller::unproven(ClientId::new(id), acquaintance)
    }

    #[test]
    fn what_the_store_keeps_is_read_back() {
        for (owner, user, kept) in [
            (Some("c1"), "c1", "c1"),
            (Some("user:a/b"), "user:a/b", "user:a/b"),
            (Some("user@acme:a/b"), "user@acme:a/b", "user@acme:a/b"),
            (Some("c1"), "ada", "c1/ada"),
            (Some("c1"), "a/b", "c1/a/b"),
            (None, "c1", "*/c1"),
            (None, "claimed:user:ada", "*/claimed:user:ada"),
        ] {
            let whose = ConversationOwner {
                owner: owner.map(ClientId::new),
                user_id: UserId::new(user),
            };
            assert_eq!(whose.ledger_user().as_str(), kept);
            assert_eq!(ConversationOwner::of(&whose.ledger_user()), whose);
        }
    }

    #[test]
    fn a_conversation_admits_its_owner_for_its_user_or_every_caller_that_knows_it() {
        use Acquaintance::{Kept, Passing, Shown};
        for (kept, id, acquaintance, named, admitted, answers) in [
            ("c1", "c1", Shown, None, Ok(()), Ok(())),
            (
                "c1",
                "c2",
                Shown,
                None,
                Err(Foreign::Client),
                Err(Foreign::Client),
            ),
            // A client that shows no id owns nothing; a token speaks for it.
            ("c1", "c2", Passing, None, Err(Foreign::Client), Ok(())),
            ("c1", "c2", Kept, None, Err(Foreign::Client), Ok(())),
            ("c1/ada", "c1", Shown, Some("ada"), Ok(()), Ok(())),
            ("c1/ada", "c1", Shown, None, Ok(()), Ok(())),
            (
                "c1/ada",
                "c1",
                Shown,
                Some("eve"),
                Err(Foreign::User),
                Err(Foreign::User),
            ),
            // A conversation without an owner: any caller may speak in it, and no client that shows itself may answer for another.
            ("*/ada", "c2", Passing, None, Ok(()), Ok(())),
            ("*/ada", "c2", Shown, None, Ok(()), Err(Foreign::Client)),
            (
                "*/ada",
                "c2",
                Passing,
                Some("eve"),
                Err(Foreign::User),
                Err(Foreign::User),
            ),
            ("*/c2", "c2", Shown, None, Ok(()), Ok(())),
            // Nothing speaks for a client that has signed in.
            (
                "user:ada",
                "c2",
                Passing,
                None,
                Err(Foreign::Client),
                Err(Foreign::Client),
            ),
            ("user:ada", "user:ada", Shown, None, Ok(()), Ok(())),
        ] {
            let whose = ConversationOwner::of(&UserId::new(kept));
            let caller = caller(id, acquaintance);
            let named = named.map(UserId::new);
            let what = format!("{kept} {id} {acquaintance:?} {named:?}");
            assert_eq!(whose.admits(&caller, named.as_ref()), admitted, "{what}");
            let answered = whose.admits_answer(&caller, named.as_ref(), None);
            assert_eq!(answered, answers, "{what}");
        }
        let nobodys = ConversationOwner::of(&UserId::new("*/ada"));
        let asked = ClientId::new("c2");
        let shown = caller("c2", Shown);
        assert_eq!(nobodys.admits_answer(&shown, None, Some(&asked)), Ok(()));
    }
}
