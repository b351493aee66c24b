//! The identity of a user as far as the server can know it: a proven user, or a client that is known by an id. Knows no session.

use windlass_contract::id::{ClientId, UserId};
use windlass_runtime::caller::is_proven_id;

/// The prefix of a claim that would look like a proven id.
const CLAIMED: &str = "claimed:";
/// Characters of a name, as in the client's own claim.
pub(crate) const NAME_CHARACTERS_MAX: usize = 128;

pub(crate) fn is_proven(user: &UserId) -> bool {
    is_proven_id(user.as_str())
}

/// The user behind a client, unless the client names another: the signed-in user, or the client itself.
pub(crate) fn of_client(client: &ClientId) -> UserId {
    UserId::new(client.as_str())
}

/// The user whom a client claims to speak for. The claim is not proven, so the id is never that of a signed-in user.
pub(crate) fn claimed(name: &str) -> UserId {
    match is_proven_id(name) {
        true => UserId::new(format!("{CLAIMED}{name}")),
        false => UserId::new(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_never_a_sign_in() {
        for name in ["ada", "user:ada", "user:", "user@acme:ada", "key:shop"] {
            assert!(!is_proven(&claimed(name)), "{name}");
        }
        let client = ClientId::new("user:ada");
        assert!(is_proven(&of_client(&client)));
        assert!(!is_proven(&of_client(&ClientId::new("c-1"))));
    }
}
