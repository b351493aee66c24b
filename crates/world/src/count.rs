//! What has occurred in the worlds of a run. A fault or a state that never occurs is one that nothing was proved about.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

counted!(
    /// Everything that goes wrong.
    Fault {
        SocketLostBeforeResult,
        SocketLostAfterResult,
        SocketLostMidFrame,
        /// The provider closes a connection whose end it has announced, while the session is still on it.
        GoAwayIgnored,
        /// The provider announces the end of connections as they begin, and goes on with them.
        ConnectionSentAway,
        /// The provider takes a connection, and cuts it before it is set up.
        ConnectionDropped,
        ResumeRefused,
        RotatedUnderCalls,
        ReplayedSameId,
        ReplayedNewId,
        ReplayedChangedArguments,
        CancelledBefore,
        CancelledDuring,
        CancelledAfter,
        CancelledTwice,
        CancelledUnknown,
        AnsweredOutOfOrder,
        /// The provider ends its turn with the message that asked, behind what was answered at once.
        TurnEndBehindCalls,
        ModelLoops,
        ModelIgnoresRefusals,
        ModelInventsTools,
        ModelInventsConfirmFlags,
        CallWithoutId,
        CallUnreadable,
        MalformedFrame,
        MessageOfManyCalls,
        ConfirmedTwice,
        ConfirmedLate,
        ConfirmedForeign,
        ConfirmedForged,
        ConfirmedAndDeclined,
        ClientFloods,
        ClientSilent,
        ClientCameBack,
        LeftBehind,
        KilledAndResumed,
        /// A session by text, dead, over or left, whose conversation goes on in another.
        WentOnByText,
        SaveLost,
        HandlerPanicked,
        HandlerHung,
        HandlerLate,
        HandlerTwice,
        HandlerHuge,
        HandlerTalksLate,
        CommittedThenFailed,
        CrashReserved,
        CrashStarted,
        CrashCommitted,
        CrashRecorded,
        CrashAsking,
        StoreDown,
        StoreSlow,
        StoreSilent,
        StoreFull,
        ClockAhead,
        ClockBack,
        RegistryReloaded,
        LimitSpent,
    }
);

counted!(
    /// Every end and every turning that a call, an effect, a question or a session can take.
    State {
        Finished,
        FinishedFailed,
        FinishedUnknown,
        RejectedValidation,
        RejectedNotFound,
        RejectedMode,
        RejectedBudget,
        RejectedLoop,
        RejectedConflict,
        RejectedRateLimit,
        RejectedStore,
        AwaitsConsent,
        AsksOnceMore,
        Cancelled,
        SameDelivery,
        SameEffectRunning,
        SameEffectAsked,
        SameEffectFinished,
        Approved,
        Declined,
        Expired,
        Withdrawn,
        TokenRefused,
        ConfirmationAnswered,
        Retried,
        ReturnedLate,
        OutcomeUnrecorded,
        OutcomesRecorded,
        EffectSettledDone,
        EffectSettledNotDone,
        LookedUpHappened,
        LookedUpNotHappened,
        LookedUpUnknown,
        LookupUnderWay,
        LookupSettled,
        ChangedElsewhere,
        AnsweredAfterTakenBack,
        AwaitedElsewhere,
        HeardFromElsewhere,
        ApprovalFound,
        QuestionTakenUp,
        TurnTakenUp,
        BeganAfterReading,
        ReadElsewhere,
        LedgerReserved,
        LedgerSucceeded,
        LedgerFailed,
        LedgerUnknown,
        IntentApplied,
        IntentRejected,
        NoticeSent,
        LateResultTold,
        LateResultSuperseded,
        LateResultSilent,
        EndedStopped,
        EndedByIntent,
        EndedByLoss,
        EndedByShutdown,
    }
);

/// How often each thing has occurred.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    faults: BTreeMap<Fault, u64>,
    states: BTreeMap<State, u64>,
    pub steps: u64,
}

impl Counts {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn state(&mut self, state: State) {
        *self.states.entry(state).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (state, count) in &other.states {
            *self.states.entry(*state).or_default() += count;
        }
        self.steps += other.steps;
    }

    /// What has never occurred.
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL
            .iter()
            .filter(|fault| !self.faults.contains_key(fault))
            .map(|fault| format!("fault {fault:?}"));
        let states = State::ALL
            .iter()
            .filter(|state| !self.states.contains_key(state))
            .map(|state| format!("state {state:?}"));
        faults.chain(states).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:>10} steps", self.steps)?;
        for (fault, count) in &self.faults {
            writeln!(formatter, "{count:>10} {fault:?}")?;
        }
        for (state, count) in &self.states {
            writeln!(formatter, "{count:>10} {state:?}")?;
        }
        Ok(())
    }
}
