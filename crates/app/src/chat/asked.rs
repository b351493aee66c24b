//! What is known of a question beside the store: who was asked, and by which kind of session. Knows no token, only its hash.

use serde::{Deserialize, Serialize};
use windlass_session::io::TokenHash;
use windlass_tool::id::{ClientId, UserId};

/// A question to the user, by its token's hash, and who was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) token_hash: TokenHash,
    pub(crate) user_id: UserId,
    /// The client on whose request it was asked; `None` where that is not known any more.
    pub(crate) client_id: Option<ClientId>,
    /// A session by voice has asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) by_voice: bool,
    /// In this process, so that only the session itself knows whether anybody may answer it yet.
    #[serde(skip)]
    pub(crate) is_here: bool,
}

impl Asked {
    /// Whether the session that asked is gone with its process, and no other has taken over what it left.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.by_voice && !self.is_here
    }
}
