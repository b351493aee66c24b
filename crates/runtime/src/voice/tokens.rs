//! The resume tokens of one session: the one that its client was given last, the one that it will be given next, which the
//! store knows before the client does, and the one before. Knows no store.

use crate::ids::{NoRandomness, resume_token, token_hash};
use windlass_store::{Hash, ResumeTokens};
use windlass_tool::sensitive::Sensitive;

pub(super) struct Tokens {
    current: Hash,
    next: Option<Sensitive<String>>,
    /// The client may never have heard of the current one.
    previous: Option<Hash>,
}

impl Tokens {
    /// Those of a session that begins, whose client is given this token, and may have come with another.
    pub(super) fn first(token: &Sensitive<String>, shown: Option<Hash>) -> Self {
        Self {
            current: token_hash(token.expose()),
            // Without one, the next is made when it is needed.
            next: resume_token().ok(),
            previous: shown,
        }
    }

    /// What opens the session.
    pub(super) fn current(&self) -> &Hash {
        &self.current
    }

    /// The client has shown its token, and gets this one for it.
    pub(super) fn give_next(&mut self) -> Result<Sensitive<String>, NoRandomness> {
        let token = match self.next.take() {
            Some(token) => token,
            None => resume_token()?,
        };
        self.next = resume_token().ok();
        self.previous = Some(self.current);
        self.current = token_hash(token.expose());
        Ok(token)
    }

    /// What leads to the session once its process has ended.
    pub(super) fn stored(&self) -> ResumeTokens {
        ResumeTokens {
            current: self.current,
            next: self.next.as_ref().map(|token| token_hash(token.expose())),
            previous: self.previous,
        }
    }
}
