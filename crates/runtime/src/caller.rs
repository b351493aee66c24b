//! Who is at the other end of a request or a connection, and how the server came to know it. Knows no cookie and no proxy.

use windlass_store::{Hash, Presented};
use windlass_tool::id::{ClientId, UserId};

/// What the ids of clients begin with that have signed in at a proxy. No other id does.
pub const SIGNED_IN: &str = "user:";

/// How far a client's id can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// The client has shown it, signed by this server, or a proxy has vouched for it.
    Shown,
    /// It was made for a browser, which will show it from now on.
    Kept,
    /// It was made for a program, which may never show it.
    Passing,
}

/// A client, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub client_id: ClientId,
    pub acquaintance: Acquaintance,
}

impl Caller {
    /// One whose id is beyond doubt.
    pub fn known(client_id: ClientId) -> Self {
        Self {
            client_id,
            acquaintance: Acquaintance::Shown,
        }
    }

    /// The client that something can belong to; `None` if every caller that knows its id may go on with it.
    pub fn keeper(&self) -> Option<&ClientId> {
        match self.acquaintance {
            Acquaintance::Shown | Acquaintance::Kept => Some(&self.client_id),
            Acquaintance::Passing => None,
        }
    }

    /// Whether it is, for all that is known, somebody else than this client. Who has shown nothing may be anybody, so that a
    /// secret has to speak for it; but not for a client that has signed in, which would have done so again.
    pub fn is_other_than(&self, client_id: &ClientId) -> bool {
        let has_shown = self.acquaintance == Acquaintance::Shown;
        (has_shown && self.client_id != *client_id) || self.lacks_sign_in_of(client_id)
    }

    /// What it presents, with a resume token and for a user, to a session of this client: [`windlass_store::Leg::admits`] decides.
    pub fn presents(&self, resume_token: Hash, user_id: UserId, of: &ClientId) -> Presented {
        let client_id = match self.is_other_than(of) {
            true => &self.client_id,
            false => of,
        };
        Presented {
            resume_token,
            client_id: client_id.clone(),
            user_id,
        }
    }

    /// The same caller under the id of a client for which a secret has spoken.
    pub fn in_the_name_of(self, client_id: &ClientId) -> Self {
        match self.client_id == *client_id {
            true => self,
            false => Self {
                client_id: client_id.clone(),
                acquaintance: Acquaintance::Passing,
            },
        }
    }

    /// Whether that client has signed in and this is not it: no secret speaks for it then.
    fn lacks_sign_in_of(&self, client_id: &ClientId) -> bool {
        client_id.as_str().starts_with(SIGNED_IN) && self.client_id != *client_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented(acquaintance: Acquaintance, id: &str, of: &str) -> String {
        let caller = Caller {
            client_id: ClientId::new(id),
            acquaintance,
        };
        let presented = caller.presents([0; 32], UserId::new("ada"), &ClientId::new(of));
        presented.client_id.to_string()
    }

    #[test]
    fn who_has_shown_an_id_presents_it_and_who_has_none_speaks_for_the_client_of_the_session() {
        for (acquaintance, id, of, presents) in [
            (Acquaintance::Shown, "c-1", "c-1", "c-1"),
            (Acquaintance::Shown, "c-2", "c-1", "c-2"),
            (Acquaintance::Shown, "user:eve", "user:ada", "user:eve"),
            (Acquaintance::Kept, "c-2", "c-1", "c-1"),
            (Acquaintance::Passing, "c-2", "c-1", "c-1"),
            (Acquaintance::Passing, "c-2", "user:ada", "c-2"),
            (Acquaintance::Kept, "c-2", "user:ada", "c-2"),
        ] {
            assert_eq!(
                presented(acquaintance, id, of),
                presents,
                "{acquaintance:?} {id} {of}"
            );
        }
    }
}
