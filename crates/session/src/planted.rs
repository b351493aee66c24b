//! Bugs that can be planted in the core at run time, to see whether the tests would find them. This file is compiled with
//! the feature `planted-bugs` alone, which nothing that is shipped turns on.

/// A bug, named after what the core then does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PlantedBug {
    /// Answers an id as often as it comes.
    AnswersTwice,
    /// Answers calls that were taken back.
    AnswersWhatWasTakenBack,
    /// Leaves refused calls without an answer.
    LeavesRefusalsOpen,
    /// Runs a tool in any mode.
    IgnoresTheMode,
    /// Counts no calls.
    ForgetsTheBudget,
    /// Asks the user for nothing.
    SkipsConsent,
    /// Runs an approved call without using up the approval.
    KeepsTheGrant,
    /// Never closes a question that nobody answers.
    AsksForEver,
    /// Starts a change before it is reserved.
    StartsUnreserved,
    /// Takes each repetition of a wish for a new one.
    ForgetsWishes,
    /// Says in the ledger that what nobody knows has failed.
    RecordsUnknownAsFailed,
    /// Does not store how a change ended.
    ForgetsOutcomes,
    /// Starts changes although an outcome is not stored.
    IgnoresUnrecordedOutcomes,
    /// Does not go on with the changes of a message after the first.
    ForgetsWaitingWrites,
    /// Waits for a hung handler for ever.
    ForgetsTimeouts,
    /// Applies each intent twice.
    AppliesIntentsTwice,
    /// Ends a session while a change is being made.
    EndsBeforeChangesAreDone,
    /// Goes on after the end.
    IgnoresTheEnd,
    /// Lets two sessions be at one effect.
    SharesEffects,
}

impl PlantedBug {
    pub const ALL: [Self; 19] = [
        Self::AnswersTwice,
        Self::AnswersWhatWasTakenBack,
        Self::LeavesRefusalsOpen,
        Self::IgnoresTheMode,
        Self::ForgetsTheBudget,
        Self::SkipsConsent,
        Self::KeepsTheGrant,
        Self::AsksForEver,
        Self::StartsUnreserved,
        Self::ForgetsWishes,
        Self::RecordsUnknownAsFailed,
        Self::ForgetsOutcomes,
        Self::IgnoresUnrecordedOutcomes,
        Self::ForgetsWaitingWrites,
        Self::ForgetsTimeouts,
        Self::AppliesIntentsTwice,
        Self::EndsBeforeChangesAreDone,
        Self::IgnoresTheEnd,
        Self::SharesEffects,
    ];
}
