//! The names of things within the ledger. Minting ids and nonces is the driver's business.

use crate::party::PartyHash;
use crate::{Hash, hexadecimal};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use windlass_contract::id::{ConversationId, SessionId, TenantId, ToolId, UserId};
use windlass_contract::json::hex;
use windlass_contract::sensitive::Sensitive;

/// An entry's place in its conversation, from 1, without gaps except at the front, where old entries make room.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EntryNumber(pub u64);

/// A conversation, and the user on whose behalf a command comes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConversationRef {
    pub tenant: TenantId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
}

/// Names one command, so that the same command is recognised when its acknowledgement was lost. 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nonce(#[serde(with = "hexadecimal")] pub [u8; 16]);

impl fmt::Debug for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nonce({})", hex(&self.0))
    }
}

/// A process that runs attempts: minted at its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(pub String);

/// The number of times that a leg has been taken over. A command of an earlier epoch changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u32);

/// A leg's name in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LegRef {
    pub leg: SessionId,
    pub epoch: Epoch,
}

/// An approval request of a conversation, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionNumber(pub u32);

/// An attempt at an effect, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptNumber(pub u32);

/// The identity of an effect: a keyed hash over tool, user and the identifying arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectKey(#[serde(with = "hexadecimal")] pub Hash);

impl fmt::Debug for EffectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EffectKey({})", hex(&self.0[..4]))
    }
}

/// The token of an approval: `NUMBER.MAC`, the MAC as 32 hexadecimal digits (128 bits).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    pub question: QuestionNumber,
    mac: [u8; 16],
}

impl Token {
    /// `None` if the text is no token.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, mac) = text.split_once('.')?;
        let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits || !(1..=10).contains(&number.len()) {
            return None;
        }
        Some(Self {
            question: QuestionNumber(number.parse().ok()?),
            mac: hexadecimal::parse(mac)?,
        })
    }

    /// The token's text, which is a secret of the user who is asked.
    pub fn text(&self) -> Sensitive<String> {
        Sensitive(format!("{}.{}", self.question.0, hex(&self.mac)))
    }
}

/// A token is a secret: only the number of its approval request is written down.
impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.question.serialize(serializer)
    }
}

/// A token that was written down opens nothing.
impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            question: QuestionNumber::deserialize(deserializer)?,
            mac: [0; 16],
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token(question {})", self.question.0)
    }
}

/// The server's secret, from which keys of effects and tokens of approvals are derived.
#[derive(Clone)]
pub struct ServerKey(Sensitive<[u8; 32]>);

impl ServerKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Sensitive(bytes))
    }

    /// The key of an effect. `effect_arguments` are in the form in which requests are compared.
    pub fn effect_key(
        &self,
        conversation: &ConversationRef,
        tool: &ToolId,
        effect_arguments: &str,
    ) -> EffectKey {
        let user = conversation.user_id.as_str();
        EffectKey(self.mac("effect", &[tool.as_str(), user, effect_arguments]))
    }

    /// The looser key of an effect. It finds effects that differ from it by case, width or accents alone.
    pub fn near_key(
        &self,
        conversation: &ConversationRef,
        tool: &ToolId,
        near_arguments: &str,
    ) -> EffectKey {
        let user = conversation.user_id.as_str();
        EffectKey(self.mac("near effect", &[tool.as_str(), user, near_arguments]))
    }

    /// The token with which the user answers an approval request. `arguments` is their JSON text.
    pub fn token(
        &self,
        conversation: &ConversationRef,
        question: QuestionNumber,
        arguments: &str,
    ) -> Token {
        let number = question.0.to_string();
        let parts = [
            conversation.tenant.as_str(),
            conversation.conversation_id.as_str(),
            conversation.user_id.as_str(),
            &number,
            arguments,
        ];
        let hash = self.mac("approval", &parts);
        let mut mac = [0; 16];
        mac.copy_from_slice(&hash[..16]);
        Token { question, mac }
    }

    /// The name of a party in rows. Without the server's key it cannot be traced to the party.
    pub(crate) fn party_hash(&self, parts: &[&str]) -> PartyHash {
        let hash = self.mac("party", parts);
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        PartyHash(short)
    }

    /// Each part goes in after its length, so that no two lists of parts read the same.
    fn mac(&self, purpose: &str, parts: &[&str]) -> Hash {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose())
            .expect("HMAC takes a key of any length");
        for part in [purpose].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerKey")
    }
}

/// A number of a leg's own entry, from 1: with the leg it names the entry before the log has given it a number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LegNumber(pub u64);
