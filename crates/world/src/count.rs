//! Counts of the events in the worlds of a run. Nothing was proved about a fault or a state that never occurs.

use crate::mood::StoreMood;
use crate::notes::LedgerNote;
use std::collections::BTreeMap;
use std::fmt;
use windlass_contract::id::ConversationId;
use windlass_store::command::{Command, Refusal, Reply};

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
        ProcessCrashed,
        /// In the middle of performing a session's outputs.
        ProcessCrashedAtOutput,
        CrashedWithRequestInFlight,
        CrashedWhileAsking,
        ProcessStopped,
        /// A stopped process goes on beside another one.
        ProcessWoke,
        ClockAhead,
        ClockBack,
        ClocksApart,
        ClockDrifts,
        ClockSet,
        LegTakenOver,
        ClientBeganAnew,
        SocketLost,
        SocketLostMidFrame,
        GoAway,
        ConnectionRefused,
        ConnectionResumed,
        ConnectionAnew,
        ReplayedSameId,
        ReplayedNewId,
        ReplayedChangedArguments,
        Paraphrased,
        ParaphrasedAfterReconnect,
        AskedAgainAfterReconnect,
        AskedOnAnotherLeg,
        AskedAgainAfterBargeIn,
        WantedASecondTime,
        Cancelled,
        CancelledUnknown,
        CallStoppedByUser,
        TaskCancelled,
        AcceptedTaskCancelled,
        StandingRevoked,
        TurnEndBehindCalls,
        ModelLoops,
        ModelInventsTools,
        ModelInventsConfirmFlags,
        CallWithoutId,
        CallUnreadable,
        MalformedFrame,
        MessageOfManyCalls,
        AnsweredTwice,
        AnsweredBothWays,
        AnsweredLate,
        AnsweredByStranger,
        StrangerCame,
        AnsweredForged,
        AnsweredOnAnotherLeg,
        ClientFloods,
        ClientSilent,
        ClientLost,
        ClientCameBack,
        BargeIn,
        HandlerBroke,
        HandlerHung,
        HandlerLate,
        /// A service asks the user: at first, after an answer, after it has acted, and where nobody can be asked.
        ServiceAsked,
        ServiceAskedAgain,
        ServiceActedAndAsked,
        ServiceAskedInVain,
        InputDoesNotFit,
        InputDeclined,
        InputCancelled,
        HandlerTalksLate,
        RequestLandsLate,
        RequestLandsAfterLease,
        RequestLandsAfterCrash,
        RequestLost,
        RequestSentAfterLease,
        AnswerLost,
        NeverCalledBack,
        CalledBackLate,
        CalledBackTwice,
        CalledBackBeforeAccepted,
        CallbackNotTaken,
        LookupOlderThanRequest,
        LookupHung,
        StoreDown,
        StoreSlow,
        StoreFull,
        /// A session begins with other tools than the first ones.
        RegistryReloaded,
        CodeChanged,
        SchemaChanged,
        VersionChanged,
        /// A session begins with the version beside the current one.
        VersionBeside,
        /// An approval is given in a session that has another version than the request.
        OtherVersionAnswered,
        /// An answer is given after the tools of its request have changed.
        ToolsChangedUnderRequest,
        DaysPassed,
        /// A conversation that began more than a week ago is spoken in.
        UsedInSecondWeek,
        /// The service is asked to repeat an effect that the ledger does not keep any more.
        RepeatedAfterRetention,
        /// The same after days, while the ledger still has to know the effect.
        RepeatedAfterDays,
        RefusedForNow,
        RefusedBeyondLease,
        Unavailable,
        NumberBeyondDoubles,
        NumberInOtherDigits,
        MomentInOtherWords,
        TextInOtherForm,
        TextNearlyTheSame,
        ResultWithHalfCharacter,
        ResultWithNul,
        ResultTooLarge,
        ResultTooDeep,
        AnsweredOverHttp,
        AnsweredAfterSessionEnd,
        MessageTypedAgain,
        LimitSpent,
        ShutDown,
    }
);

counted!(
    /// Every reply of the ledger, and every end that a call, an effect, an approval request or a session can have.
    State {
        Ran,
        RanApproved,
        /// An earlier approval covered the call; and one was given to be remembered.
        RanByStanding,
        StandingGiven,
        StandingEnded,
        /// A task began by a standing approval; and in spite of one, its user was asked because of a hazard.
        TaskByStanding,
        HazardAskedBesideStanding,
        RanWithoutEffect,
        RanAgain,
        Asked,
        AskedRepeated,
        AskedNaming,
        AskedAnewAtAnswer,
        /// The user is asked what a service wants to know; the same for a call without effect; and a run goes on by what the user says.
        AskedForInput,
        ReadAskedForInput,
        WentOnByInput,
        WentOnByRefusal,
        Attached,
        Replayed,
        ReplayedAccepted,
        LookedUp,
        UnknownReply,
        DeniedReply,
        ExpiredReply,
        ChangedReply,
        AnsweredReply,
        ConflictReply,
        GoneReply,
        ForeignReply,
        Resumed,
        NotResumed,
        RefusedNotAllowed,
        RefusedNobodyToAsk,
        RefusedAbandoned,
        AbandonedRun,
        Settled,
        FoundHappened,
        FoundNotHappened,
        FoundUnknown,
        RecordedSucceeded,
        RecordedFailed,
        RecordedUnknown,
        RecordedAccepted,
        RecordedOlderAttempt,
        Pruned,
        ConversationForgotten,
        CalledBackSucceeded,
        CalledBackFailed,
        CalledBackUnknown,
        CalledBackTooLate,
        AcceptedSettled,
        NestedAccepted,
        Finished,
        FinishedFailed,
        FinishedUnknown,
        Rejected,
        CallCancelled,
        /// A call that the user stopped, and one that goes on because its change has begun.
        StoppedByUser,
        RunsOnForUser,
        Deduplicated,
        ReturnedLate,
        ConfirmationResult,
        ConfirmationUnknownToken,
        NoticeSent,
        LateResultSent,
        QuestionTakenUp,
        UnheardTaken,
        IntentApplied,
        IntentRejected,
        /// A value of the conversation.
        ValueSet,
        /// By a result that a lookup has found.
        IntentOfLookup,
        NestedWorked,
        /// A later attempt of the parent was given the outcome of an earlier one's change.
        NestedFoundAgain,
        NestedFailed,
        NestedInDoubt,
        NestedCancelled,
        LedgerDone,
        LedgerNotDone,
        LedgerUnknown,
        SecondCommitApproved,
        Absorbed,
        EndedStopped,
        EndedByIntent,
        EndedByLoss,
        EndedByShutdown,
    }
);

/// The commands whose acknowledgement can get lost, or come too late.
pub const KINDS: [&str; 19] = [
    "open",
    "attach",
    "resume",
    "save",
    "leave",
    "append",
    "taint",
    "request",
    "answer",
    "abandon",
    "revoke",
    "withdraw",
    "record",
    "found",
    "settle",
    "look_up",
    "called_back",
    "heard",
    "audited",
];

pub(crate) fn kind_of(command: &Command) -> &'static str {
    match command {
        Command::Open(_) => "open",
        Command::Attach(_) => "attach",
        Command::Resume(_) => "resume",
        Command::Save { .. } => "save",
        Command::Leave(_) => "leave",
        Command::Discard => "discard",
        Command::Append { .. } => "append",
        Command::Taint => "taint",
        Command::Request(_) => "request",
        Command::Answer(_) => "answer",
        Command::Abandon { .. } => "abandon",
        Command::Revoke { .. } => "revoke",
        Command::Withdraw { .. } => "withdraw",
        Command::Record(_) => "record",
        Command::Found(_) => "found",
        Command::Settle => "settle",
        Command::LookUp { .. } => "look_up",
        Command::CalledBack(_) => "called_back",
        Command::Progress(_) => "progress",
        Command::CancelTask { .. } => "cancel_task",
        Command::TasksSent(_) => "tasks_sent",
        Command::Heard { .. } => "heard",
        Command::Audited(_) => "audited",
        Command::Rename(_) => "rename",
        Command::Erase => "erase",
    }
}

/// The states that a reply shows, if they are worth counting.
pub(crate) fn states_of(command: &Command, reply: &Reply) -> Vec<State> {
    use windlass_store::AttemptOutcome as Ended;
    use windlass_store::command::FoundState;
    let state = match (command, reply) {
        (_, Reply::Run(run)) => {
            let mut states = vec![match (&run.effect_id, &run.question) {
                (None, _) => State::RanWithoutEffect,
                (Some(_), Some(_)) => State::RanApproved,
                (Some(_), None) => State::Ran,
            }];
            if run.attempt.0 > 1 {
                states.push(State::RanAgain);
            }
            if run.standing.is_some() {
                states.push(match command {
                    Command::Answer(_) => State::StandingGiven,
                    _ => State::RanByStanding,
                });
            }
            return states;
        }
        (_, Reply::Revoked(_)) => State::StandingEnded,
        (Command::Answer(_), Reply::Ask(_)) => State::AskedAnewAtAnswer,
        (Command::Request(request), Reply::Ask(_)) if request.input.is_some() => {
            let run = request.input.as_ref().and_then(|input| input.run.as_ref());
            match run {
                Some(_) => State::AskedForInput,
                None => State::ReadAskedForInput,
            }
        }
        (_, Reply::Ask(asked)) if asked.is_repeated => State::AskedRepeated,
        (_, Reply::Ask(asked)) if !asked.question.hazards.earlier.is_empty() => State::AskedNaming,
        (_, Reply::Ask(_)) => State::Asked,
        (_, Reply::Attach(_)) => State::Attached,
        (_, Reply::Replay(effect)) if effect.is_accepted() => State::ReplayedAccepted,
        (_, Reply::Replay(_)) => State::Replayed,
        (_, Reply::LookUp { .. }) => State::LookedUp,
        (_, Reply::Unknown(_)) => State::UnknownReply,
        (_, Reply::Denied(_)) => State::DeniedReply,
        (_, Reply::Expired) => State::ExpiredReply,
        (_, Reply::Changed(_)) => State::ChangedReply,
        (_, Reply::Answered) => State::AnsweredReply,
        (_, Reply::Conflict) => State::ConflictReply,
        (_, Reply::Gone) => State::GoneReply,
        (_, Reply::Foreign) => State::ForeignReply,
        (_, Reply::Resumed(_)) => State::Resumed,
        (_, Reply::NotResumed) => State::NotResumed,
        (_, Reply::Refused(refusal)) => match refusal {
            Refusal::NotAllowed => State::RefusedNotAllowed,
            Refusal::NobodyToAsk => State::RefusedNobodyToAsk,
            Refusal::Abandoned => State::RefusedAbandoned,
            _ => return Vec::new(),
        },
        (_, Reply::Settled(settled)) if !settled.is_empty() => State::Settled,
        (Command::Found(found), Reply::Recorded(_)) => match found.finding {
            FoundState::Happened => State::FoundHappened,
            FoundState::NotHappened => State::FoundNotHappened,
            FoundState::Unknown => State::FoundUnknown,
        },
        (Command::CalledBack(told), Reply::Recorded(_)) => match told.outcome {
            Ended::Succeeded => State::CalledBackSucceeded,
            Ended::Failed => State::CalledBackFailed,
            Ended::Unknown => State::CalledBackUnknown,
            Ended::Accepted { .. } | Ended::Asked { .. } => return Vec::new(),
        },
        (_, Reply::TooLate(_)) => State::CalledBackTooLate,
        (Command::Abandon { .. }, Reply::Recorded(_)) => State::AbandonedRun,
        (Command::Record(record), Reply::Recorded(effect)) => {
            let mut states = vec![match record.outcome {
                Ended::Succeeded => State::RecordedSucceeded,
                Ended::Failed => State::RecordedFailed,
                Ended::Unknown => State::RecordedUnknown,
                Ended::Accepted { .. } => State::RecordedAccepted,
                // The request for the user's input says so, and no record does.
                Ended::Asked { .. } => return Vec::new(),
            }];
            if record.attempt != effect.newest_attempt().number {
                states.push(State::RecordedOlderAttempt);
            }
            return states;
        }
        _ => return Vec::new(),
    };
    vec![state]
}

/// Observations of a store since the last query.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) commands: Vec<(&'static str, StoreMood)>,
    pub(crate) states: Vec<State>,
    pub(crate) notes: Vec<(ConversationId, LedgerNote)>,
}

/// The number of occurrences of each thing.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    faults: BTreeMap<Fault, u64>,
    states: BTreeMap<State, u64>,
    unacknowledged: BTreeMap<&'static str, u64>,
    acknowledged_late: BTreeMap<&'static str, u64>,
    pub steps: u64,
}

impl Counts {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn state(&mut self, state: State) {
        *self.states.entry(state).or_default() += 1;
    }

    pub(crate) fn states(&mut self, state: State, times: usize) {
        (0..times).for_each(|_| self.state(state));
    }

    pub(crate) fn seen(&mut self, seen: Seen) {
        for state in seen.states {
            self.state(state);
        }
        for (kind, mood) in seen.commands {
            let counts = match mood {
                StoreMood::Forgetful => &mut self.unacknowledged,
                StoreMood::Late => &mut self.acknowledged_late,
                StoreMood::Up | StoreMood::Slow | StoreMood::Down | StoreMood::Full => continue,
            };
            *counts.entry(kind).or_default() += 1;
        }
    }

    pub fn add(&mut self, other: &Self) {
        add(&mut self.faults, &other.faults);
        add(&mut self.states, &other.states);
        add(&mut self.unacknowledged, &other.unacknowledged);
        add(&mut self.acknowledged_late, &other.acknowledged_late);
        self.steps += other.steps;
    }

    /// The faults and states that have never occurred.
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL
            .iter()
            .filter(|fault| !self.faults.contains_key(fault));
        let states = State::ALL
            .iter()
            .filter(|state| !self.states.contains_key(state));
        let lost = KINDS
            .iter()
            .filter(|kind| !self.unacknowledged.contains_key(*kind));
        let late = KINDS
            .iter()
            .filter(|kind| !self.acknowledged_late.contains_key(*kind));
        faults
            .map(|fault| format!("fault {fault:?}"))
            .chain(states.map(|state| format!("state {state:?}")))
            .chain(lost.map(|kind| format!("a lost acknowledgement of {kind}")))
            .chain(late.map(|kind| format!("a late acknowledgement of {kind}")))
            .collect()
    }
}

fn add<K: Copy + Ord>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(*key).or_default() += count;
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
        for (kind, count) in &self.unacknowledged {
            writeln!(formatter, "{count:>10} lost acknowledgements of {kind}")?;
        }
        for (kind, count) in &self.acknowledged_late {
            writeln!(formatter, "{count:>10} late acknowledgements of {kind}")?;
        }
        Ok(())
    }
}
