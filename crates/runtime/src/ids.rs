//! Minting of identities: sessions, conversations, clients, processes, resume tokens. Owns the randomness, and the time that is
//! in an id; knows nothing of the identified things.

use sha2::{Digest, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};
use windlass_contract::id::{ConversationId, SessionId};
use windlass_contract::json::hex;
use windlass_contract::sensitive::Sensitive;
use windlass_store::OwnerId;

/// The system gives no randomness, so nothing that must be unguessable can be minted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no randomness: {problem}")]
pub struct NoRandomness {
    pub problem: String,
}

pub fn session_id() -> Result<SessionId, NoRandomness> {
    Ok(SessionId::new(prefixed("s-")?))
}

/// The id of one answer for a chat client.
pub fn message_id() -> Result<String, NoRandomness> {
    prefixed("m-")
}

/// An id that begins with the time, in microseconds, as UUIDs of version 7 do: rows of new conversations lie together in the
/// store, where unordered ids would touch pages all over the file. 72 random bits follow, so that the id cannot be guessed.
pub fn conversation_id() -> Result<ConversationId, NoRandomness> {
    let mut random = [0_u8; 9];
    fill(&mut random)?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let microseconds = since_epoch.unwrap_or_default().as_micros();
    let id = format!("c-{microseconds:014x}{}", hex(&random));
    Ok(ConversationId::new(id))
}

/// The id of one process, by which the ledger tells its attempts from those of others.
pub fn owner_id() -> Result<OwnerId, NoRandomness> {
    Ok(OwnerId(prefixed("p-")?))
}

/// 128 random bits that a client shows to resume its session. Store nothing of it but [`token_hash`].
pub fn resume_token() -> Result<Sensitive<String>, NoRandomness> {
    random_hex().map(Sensitive)
}

/// A hash that recognises bytes, of any number.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The stored hash of a resume token.
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn prefixed(prefix: &str) -> Result<String, NoRandomness> {
    Ok(format!("{prefix}{}", random_hex()?))
}

/// 256 random bits as 64 hexadecimal digits: unguessable, for as long as it is kept.
pub fn random_secret() -> Result<String, NoRandomness> {
    let mut bytes = [0_u8; 32];
    fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// 128 random bits as 32 hexadecimal digits.
pub fn random_hex() -> Result<String, NoRandomness> {
    let mut bytes = [0_u8; 16];
    fill(&mut bytes)?;
    Ok(hex(&bytes))
}

pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(|error| NoRandomness {
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn minted_ids_differ_and_hold_128_random_bits() {
        let minted: BTreeSet<String> = (0..100)
            .map(|_| session_id().unwrap().to_string())
            .collect();
        assert_eq!(minted.len(), 100);
        assert!(minted.iter().all(|id| id.len() == 2 + 32));
        assert_eq!(resume_token().unwrap().expose().len(), 32);
    }

    #[test]
    fn conversations_are_in_the_order_of_their_beginnings() {
        let minted: Vec<String> = (0..100)
            .map(|_| conversation_id().unwrap().to_string())
            .collect();
        assert!(minted.iter().all(|id| id.len() == 2 + 32));
        assert_eq!(minted.iter().collect::<BTreeSet<_>>().len(), 100);
        assert!(
            minted.is_sorted_by_key(|id| id[..16].to_owned()),
            "{minted:?}"
        );
    }
}
