//! The proof that a call passed every gate. Its fields are private to the policies, so unchecked execution does not
//! compile.

use crate::facts::CallFacts;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::arguments::Arguments;
use windlass_tool::handler::SessionFacts;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::registry::Tool;

/// A call that passed every gate, ready to run once. Whoever has one may read it:
///
/// ```
/// fn turn(call: &windlass_session::io::AdmittedCall) -> u64 {
///     call.turn()
/// }
/// ```
///
/// Nobody else makes one:
///
/// ```compile_fail,E0451
/// use std::sync::Arc;
/// use std::time::Duration;
/// use windlass_session::facts::CallFacts;
/// use windlass_session::io::AdmittedCall;
/// use windlass_tool::handler::SessionFacts;
///
/// fn admit(facts: Arc<CallFacts>, session: SessionFacts) -> AdmittedCall {
///     AdmittedCall {
///         facts,
///         attempt: 1,
///         effect_id: None,
///         timeout: Duration::from_secs(1),
///         session,
///     }
/// }
/// ```
pub struct AdmittedCall {
    pub(super) facts: Arc<CallFacts>,
    pub(super) attempt: u32,
    pub(super) effect_id: Option<EffectId>,
    pub(super) timeout: Duration,
    pub(super) session: SessionFacts,
}

impl AdmittedCall {
    pub fn call(&self) -> CallRef {
        CallRef {
            call: self.facts.call(),
            attempt: self.attempt,
        }
    }

    pub fn tool(&self) -> &Arc<Tool> {
        self.facts.tool()
    }

    /// Validated, with defaults applied and clamps made.
    pub fn arguments(&self) -> &Arc<Arguments> {
        self.facts.arguments().expose()
    }

    pub fn turn(&self) -> u64 {
        self.facts.turn()
    }

    /// Of `writes` tools.
    pub fn effect_id(&self) -> Option<&EffectId> {
        self.effect_id.as_ref()
    }

    /// How long the attempt may take from now.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub fn session(&self) -> SessionFacts {
        self.session
    }
}

/// A question to a handler: what became of an effect that it started.
pub struct EffectLookup {
    pub(super) facts: Arc<CallFacts>,
    pub(super) effect_id: EffectId,
    pub(super) timeout: Duration,
    pub(super) session: SessionFacts,
}

impl EffectLookup {
    pub fn call(&self) -> CallNumber {
        self.facts.call()
    }

    pub fn tool(&self) -> &Arc<Tool> {
        self.facts.tool()
    }

    pub fn effect_id(&self) -> &EffectId {
        &self.effect_id
    }

    pub fn arguments(&self) -> &Arc<Arguments> {
        self.facts.arguments().expose()
    }

    pub fn turn(&self) -> u64 {
        self.facts.turn()
    }

    /// How long the lookup may take from now.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub fn session(&self) -> SessionFacts {
        self.session
    }
}

impl fmt::Debug for EffectLookup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "EffectLookup({} {})",
            self.tool().id,
            self.effect_id
        )
    }
}

impl fmt::Debug for AdmittedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "AdmittedCall({} {:?})",
            self.tool().id,
            self.call()
        )
    }
}
