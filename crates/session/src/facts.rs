//! The facts of a call before it runs: the delivery that asked for it, and the tool and the arguments found in it. They never change, so
//! that events, outputs and the session's own tables share one account of each call.

use crate::hash::BuildQuickHasher;
use serde::{Serialize, Serializer};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;

/// One delivery of one provider message.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub(crate) number: CallNumber,
    pub(crate) batch: u64,
    pub(crate) key: HashedKey,
    /// The provider's id, if that is not the key.
    pub(crate) unstable_id: Option<Arc<str>>,
    /// As the model spelt it.
    pub(crate) name: Arc<str>,
    pub(crate) turn: u64,
    /// The connection it came over.
    pub(crate) generation: u64,
}

impl Delivered {
    pub(crate) fn provider_id(&self) -> Option<&Arc<str>> {
        match &*self.key {
            DeliveryKey::Provider(id) => Some(id),
            DeliveryKey::Hash { .. }
            | DeliveryKey::Question(_)
            | DeliveryKey::Effect(_)
            | DeliveryKey::Handler { .. } => self.unstable_id.as_ref(),
        }
    }

    /// The call whose handler asked for this one.
    pub(crate) fn parent(&self) -> Option<CallNumber> {
        match &*self.key {
            DeliveryKey::Handler { parent, .. } => Some(*parent),
            DeliveryKey::Provider(_)
            | DeliveryKey::Hash { .. }
            | DeliveryKey::Question(_)
            | DeliveryKey::Effect(_) => None,
        }
    }

    pub(crate) fn is_under(&self, id: &str, generation: u64) -> bool {
        self.generation == generation && self.provider_id().is_some_and(|own| **own == *id)
    }
}

/// A delivery's identity. Its text in the audit is `provider:ID`, `hash:TURN:HEX`, `question:call-NUMBER`, `effect:ID`, or
/// `handler:PARENT/ORDINAL`. There PARENT is the parent's effect for a change, otherwise its call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryKey {
    /// The provider's id, if it is reliable.
    Provider(Arc<str>),
    /// The turn, and the first bytes of a hash of the request.
    Hash { turn: u64, hash: [u8; 8] },
    /// The call comes from an earlier approval request, and from no provider message of this session.
    Question(CallNumber),
    /// The call comes from an earlier effect, and from no provider message of this session.
    Effect(EffectId),
    /// The handler of another call asked for it. A change is known by the parent's effect and a count of its changes, any other call by
    /// a count of all calls.
    Handler {
        parent: CallNumber,
        effect: Option<EffectId>,
        ordinal: u32,
    },
}

impl DeliveryKey {
    /// Whether the delivery is known by the provider's id, and not by its request.
    pub(crate) fn is_stable(&self) -> bool {
        matches!(self, Self::Provider(_))
    }
}

/// A key with its hash, which several tables use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashedKey {
    hash: u64,
    key: DeliveryKey,
}

impl From<DeliveryKey> for HashedKey {
    fn from(key: DeliveryKey) -> Self {
        let hash = BuildQuickHasher::default().hash_one(&key);
        Self { hash, key }
    }
}

impl Deref for HashedKey {
    type Target = DeliveryKey;

    fn deref(&self) -> &DeliveryKey {
        &self.key
    }
}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

/// The hash need not tell kinds of keys apart, because equal hashes are always followed by a comparison.
impl Hash for DeliveryKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Self::Provider(id) => hasher.write(id.as_bytes()),
            Self::Hash { turn: _, hash } => hasher.write(hash),
            Self::Question(call) => hasher.write_u64(call.0),
            Self::Effect(effect) => hasher.write(effect.as_str().as_bytes()),
            Self::Handler {
                parent, ordinal, ..
            } => {
                hasher.write_u64(parent.0);
                hasher.write_u32(*ordinal);
            }
        }
    }
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider(id) => write!(formatter, "provider:{id}"),
            Self::Hash { turn, hash } => {
                write!(
                    formatter,
                    "hash:{turn}:{}",
                    windlass_contract::json::hex(hash)
                )
            }
            Self::Question(call) => write!(formatter, "question:{call}"),
            Self::Effect(effect) => write!(formatter, "effect:{effect}"),
            Self::Handler {
                effect: Some(effect),
                ordinal,
                ..
            } => write!(formatter, "handler:{effect}/{ordinal}"),
            Self::Handler {
                parent, ordinal, ..
            } => write!(formatter, "handler:{parent}/{ordinal}"),
        }
    }
}

impl Serialize for DeliveryKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A delivery whose tool exists, and whose arguments were completed. Every clone of its `Arc` is the same account.
pub struct CallFacts {
    pub(crate) delivered: Delivered,
    pub(crate) tool: Arc<Tool>,
    pub(crate) completed: Completed,
}

impl CallFacts {
    pub fn call(&self) -> CallNumber {
        self.delivered.number
    }

    pub fn turn(&self) -> u64 {
        self.delivered.turn
    }

    /// The call whose handler asked for this one; `None` of a call of the model or of an approval.
    pub fn parent(&self) -> Option<CallNumber> {
        self.delivered.parent()
    }

    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// With defaults applied and clamps made.
    pub fn arguments(&self) -> &Sensitive<Arc<Arguments>> {
        &self.completed.arguments
    }

    /// The pointers of the arguments that the model left out and that were given their defaults.
    pub fn defaults_applied(&self) -> &[Arc<str>] {
        &self.completed.defaults_applied
    }
}

impl fmt::Debug for CallFacts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CallFacts({} {:?})", self.call(), self.tool)
    }
}

/// A delivery without a call that could run.
#[derive(Debug)]
pub(crate) struct Unexamined {
    delivered: Delivered,
    tool: Option<Arc<Tool>>,
    /// The arguments as they came; `None` if they could not be read, so that nothing repeats them.
    arguments: Option<Sensitive<Arguments>>,
}

/// The destination of an answer, and its request. A clone shares the account.
#[derive(Clone, Debug)]
pub(crate) enum CallRequest {
    /// The arguments satisfy the tool's schema.
    Valid(Arc<CallFacts>),
    /// The arguments do not satisfy the schema, and are not trusted.
    Invalid(Arc<CallFacts>),
    Unexamined(Arc<Unexamined>),
}

impl CallRequest {
    /// The call_request of a call that could not be read.
    pub(crate) fn unreadable(delivered: Delivered) -> Self {
        Self::refused(delivered, None, None)
    }

    /// The call_request of a call that was refused before its arguments were looked at.
    pub(crate) fn refused(
        delivered: Delivered,
        tool: Option<Arc<Tool>>,
        arguments: Option<Arguments>,
    ) -> Self {
        Self::Unexamined(Arc::new(Unexamined {
            delivered,
            tool,
            arguments: arguments.map(Sensitive),
        }))
    }

    /// The same request, delivered again.
    pub(crate) fn again(&self, delivered: Delivered) -> Self {
        let again = |facts: &CallFacts, delivered| {
            Arc::new(CallFacts {
                delivered,
                tool: facts.tool.clone(),
                completed: facts.completed.clone(),
            })
        };
        match self {
            Self::Valid(facts) => Self::Valid(again(facts, delivered)),
            Self::Invalid(facts) => Self::Invalid(again(facts, delivered)),
            Self::Unexamined(found) => Self::Unexamined(Arc::new(Unexamined {
                delivered,
                tool: found.tool.clone(),
                arguments: found.arguments.clone(),
            })),
        }
    }

    /// `None` if there is no such tool.
    pub(crate) fn tool(&self) -> Option<&Arc<Tool>> {
        match self {
            Self::Valid(facts) | Self::Invalid(facts) => Some(&facts.tool),
            Self::Unexamined(found) => found.tool.as_ref(),
        }
    }

    /// The arguments that satisfy the tool's schema.
    pub(crate) fn valid_arguments(&self) -> Option<&Sensitive<Arc<Arguments>>> {
        match self {
            Self::Valid(facts) => Some(facts.arguments()),
            Self::Invalid(_) | Self::Unexamined(_) => None,
        }
    }

    /// The completed arguments, if they were looked at.
    pub(crate) fn completed(&self) -> Option<&Completed> {
        match self {
            Self::Valid(facts) | Self::Invalid(facts) => Some(&facts.completed),
            Self::Unexamined(_) => None,
        }
    }

    /// The arguments as they came, if the call was refused before they were looked at.
    pub(crate) fn as_it_came(&self) -> Option<&Arguments> {
        match self {
            Self::Valid(_) | Self::Invalid(_) => None,
            Self::Unexamined(found) => found.arguments.as_ref().map(Sensitive::expose),
        }
    }

    /// Whether two deliveries ask for the same. The arguments themselves tell a repeat from another request under the same id: a model
    /// can be made to send text with any hash.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let asks_the_same = match (self.completed(), other.completed()) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.as_it_came().is_some() && self.as_it_came() == other.as_it_came(),
            (Some(_), None) | (None, Some(_)) => false,
        };
        asks_the_same && self.name == other.name
    }
}

impl Deref for CallRequest {
    type Target = Delivered;

    fn deref(&self) -> &Delivered {
        match self {
            Self::Valid(facts) | Self::Invalid(facts) => &facts.delivered,
            Self::Unexamined(found) => &found.delivered,
        }
    }
}

/// Bytes of the longest tool name, about. A longer name is shown shortened.
const NAME_BYTES_MAX: usize = 64;

/// Names come from the model, so their repetition is bounded.
pub(crate) fn shorten(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Arguments with their defaults and clamps, and the changes by these. Equal values come from equal arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Completed {
    pub(crate) arguments: Sensitive<Arc<Arguments>>,
    pub(crate) defaults_applied: Arc<[Arc<str>]>,
    /// Pointers of members that were null and count as left out.
    pub(crate) nulls_left_out: Arc<[Arc<str>]>,
    pub(crate) clamped: Option<Clamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clamp {
    pub(crate) argument: Arc<str>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}
