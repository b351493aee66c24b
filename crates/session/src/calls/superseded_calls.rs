//! Calls that handlers make: the place of each below the call of a model or an approval, and the combined state of one attempt's calls.
//! Knows no policy and no call.

use windlass_contract::handler::ReplyNumber;
use windlass_contract::id::{CallNumber, CallRef, EffectId, ToolId};

/// The place of a call that a handler asked for.
#[derive(Clone, Debug)]
pub(crate) struct Nesting {
    /// The number under which its handler waits.
    pub(crate) reply: ReplyNumber,
    pub(crate) parent: CallRef,
    /// The parent's effect, and the ordinal of this call among that effect's changes, if the call is a change.
    pub(crate) change: Option<(EffectId, u32)>,
    /// The tools of the calls above it, its parent's last.
    pub(crate) above: Vec<ToolId>,
    /// The call stands below an approval.
    pub(crate) is_outside_turn: bool,
}

/// The combined state of one attempt's calls.
#[derive(Debug)]
struct Family {
    parent: CallRef,
    /// The number of calls that the attempt asked for.
    calls: u32,
    /// The number of these calls that are changes.
    changes: u32,
    /// One of its changes has an unknown end.
    is_in_doubt: bool,
    /// One of its calls has brought external content.
    is_external: bool,
}

/// The attempts of open and late calls that have called other tools, or were given external content.
#[derive(Debug, Default)]
pub(crate) struct Families(Vec<Family>);

/// Counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordinals {
    pub(crate) call: u32,
    pub(crate) change: u32,
}

impl Families {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// An attempt calls a tool. Returns the ordinal of the call, and of the change if it is one.
    pub(crate) fn count(&mut self, parent: CallRef, is_change: bool) -> Ordinals {
        let family = self.of(parent);
        family.calls = family.calls.saturating_add(1);
        family.changes = family.changes.saturating_add(u32::from(is_change));
        Ordinals {
            call: family.calls,
            change: family.changes,
        }
    }

    /// A call of this attempt has ended.
    pub(crate) fn note_end(&mut self, parent: CallRef, is_in_doubt: bool, is_external: bool) {
        let known = self.0.iter_mut().find(|family| family.parent == parent);
        if let Some(family) = known {
            family.is_in_doubt |= is_in_doubt;
            family.is_external |= is_external;
        }
    }

    /// A capability has given this attempt external content.
    pub(crate) fn note_external(&mut self, attempt: CallRef) {
        self.of(attempt).is_external = true;
    }

    /// Whether a change of this attempt has an unknown end.
    pub(crate) fn is_in_doubt(&self, parent: CallRef) -> bool {
        let mut families = self.0.iter();
        families.any(|family| family.parent == parent && family.is_in_doubt)
    }

    /// Whether an attempt of this call was given external content.
    pub(crate) fn is_external(&self, parent: CallNumber) -> bool {
        let mut families = self.0.iter();
        families.any(|family| family.parent.call == parent && family.is_external)
    }

    /// Forgets attempts that are not waited for any more.
    pub(crate) fn retain(&mut self, is_awaited: impl Fn(CallRef) -> bool) {
        self.0.retain(|family| is_awaited(family.parent));
    }

    fn of(&mut self, parent: CallRef) -> &mut Family {
        let known = self.0.iter().position(|family| family.parent == parent);
        let place = known.unwrap_or_else(|| {
            self.0.push(Family {
                parent,
                calls: 0,
                changes: 0,
                is_in_doubt: false,
                is_external: false,
            });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(call: u64, attempt: u32) -> CallRef {
        let call = CallNumber(call);
        CallRef { call, attempt }
    }

    #[test]
    fn each_attempt_counts_its_changes_anew_whatever_else_it_calls() {
        let mut families = Families::default();
        let counted = [false, true, false, true].map(|is_change| {
            let ordinals = families.count(attempt(1, 1), is_change);
            (ordinals.call, ordinals.change)
        });
        assert_eq!(counted, [(1, 0), (2, 1), (3, 1), (4, 2)]);
        let again = families.count(attempt(1, 2), true);
        assert_eq!((again.call, again.change), (1, 1));
    }

    #[test]
    fn what_an_attempt_was_given_is_known_until_nobody_waits_for_it() {
        let mut families = Families::default();
        families.count(attempt(1, 1), true);
        families.count(attempt(1, 2), false);
        families.note_end(attempt(1, 1), true, false);
        families.note_end(attempt(1, 2), false, true);
        families.note_end(attempt(7, 1), true, true);
        assert!(families.is_in_doubt(attempt(1, 1)) && !families.is_in_doubt(attempt(1, 2)));
        assert!(families.is_external(CallNumber(1)) && !families.is_external(CallNumber(7)));
        families.retain(|parent| parent == attempt(1, 1));
        assert!(families.is_in_doubt(attempt(1, 1)) && !families.is_external(CallNumber(1)));
        families.retain(|_| false);
        assert_eq!(families.len(), 0);
    }
}
