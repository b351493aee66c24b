//! The proof that a call passed every gate. Its fields are private to the policies, so unchecked execution does not
//! compile.

use crate::facts::CallFacts;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::SessionFacts;
use windlass_contract::id::{CallNumber, CallRef, EffectId};
use windlass_contract::registry::Tool;
use windlass_store::{AttemptNumber, QuestionNumber};

/// A call that passed every gate, ready to run once. Its owner may read it:
///
/// ```
/// fn turn(call: &windlass_session::io::AdmittedCall) -> u64 {
///     call.turn()
/// }
/// ```
///
/// No other code makes one:
///
/// ```compile_fail,E0451
/// use std::sync::Arc;
/// use windlass_session::facts::CallFacts;
/// use windlass_session::io::AdmittedCall;
/// use windlass_contract::handler::SessionFacts;
///
/// fn admit(facts: Arc<CallFacts>, session: SessionFacts) -> AdmittedCall {
///     AdmittedCall {
///         facts,
///         attempt: 1,
///         run: None,
///         session,
///     }
/// }
/// ```
pub struct AdmittedCall {
    pub(super) facts: Arc<CallFacts>,
    pub(super) attempt: u32,
    pub(super) run: Option<EffectRun>,
    pub(super) session: SessionFacts,
}

/// The attempt of an effect that a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRun {
    pub effect_id: EffectId,
    pub attempt: AttemptNumber,
    /// Milliseconds since the Unix epoch: no request to the outside begins after it.
    pub lease_end_unix_ms: u64,
    /// The approval request with whose approval it runs.
    pub question: Option<QuestionNumber>,
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

    /// The call whose handler asked for this one.
    pub fn parent(&self) -> Option<CallNumber> {
        self.facts.parent()
    }

    /// The attempt of a tool that stands in the ledger.
    pub fn run(&self) -> Option<&EffectRun> {
        self.run.as_ref()
    }

    pub fn effect_id(&self) -> Option<&EffectId> {
        self.run.as_ref().map(|run| &run.effect_id)
    }

    /// How long the attempt may take from now.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.facts.tool.timeout_ms)
    }

    pub fn session(&self) -> &SessionFacts {
        &self.session
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
