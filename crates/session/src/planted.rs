//! Bugs that can be planted in the core at run time, to see whether the tests would find them. This file is compiled with
//! the feature `planted-bugs` alone, which nothing that is shipped turns on.

use std::hash::{BuildHasher, RandomState};

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
    /// Does not hear the user say no.
    RunsWhatWasDeclined,
    /// Tells the user that their no counts before the store has heard of it.
    TellsANoUnstored,
    /// Keeps what a handler brings, however long it is.
    KeepsLongResults,
    /// Tells one of several who have approved what came of it.
    AnswersOneClick,
    /// Asks the user again for what they have just declined.
    ForgetsANo,
    /// Charges a turn for no call that is refused.
    ForgetsRefusedCalls,
    /// Begins a turn, and with it a budget, for each message of the model's that has calls.
    BeginsATurnPerMessage,
    /// Tells nobody that a turn is over.
    ForgetsTurnEnds,
    /// Reports each refused call twice.
    EndsRefusedCallsTwice,
    /// Puts as many questions to the user as the model wants.
    AsksWithoutLimit,
    /// Tells the client of an interruption over and over.
    FloodsTheClient,
    /// Has something due whenever something was due.
    NeverRests,
    /// Takes up no question of the session before it.
    LosesQuestions,
    /// Gives calls the numbers that they had in the session before it.
    CountsAnew,
    /// Breaks at an interruption.
    Panics,
    /// Draws what is to be an input.
    ActsByChance,
    /// Forgets a result whose connection is gone.
    LosesLateResults,
    /// Tells a result whose connection is gone, and keeps it to tell it again.
    TellsLateResultsTwice,
    /// Stays on a connection whose end was announced.
    StaysToTheEnd,
    /// Lets sessions at an effect, or keeps them from it, as chance will have it.
    ClaimsByChance,
    /// Has the model speak of every result at once.
    InterruptsForResults,
    /// Does not tell the store that its model has read what others wrote.
    KeepsReadingsToItself,
    /// Takes the end of the model's message for a reaction to what was sent while it came.
    TakesEndsForReactions,
    /// Takes a notice for read once it is sent.
    ForgetsUnreadNotices,
    /// Begins a turn, and with it a budget, for what the model makes of a result.
    BeginsATurnPerResult,
    /// Takes a provider that refuses a handle for one that cannot be reached.
    KeepsRefusedHandles,
    /// Leaves connections at once that are announced to end, however many of them.
    LeavesWithoutCounting,
}

impl PlantedBug {
    pub const ALL: [Self; 46] = [
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
        Self::RunsWhatWasDeclined,
        Self::TellsANoUnstored,
        Self::KeepsLongResults,
        Self::AnswersOneClick,
        Self::ForgetsANo,
        Self::ForgetsRefusedCalls,
        Self::BeginsATurnPerMessage,
        Self::ForgetsTurnEnds,
        Self::EndsRefusedCallsTwice,
        Self::AsksWithoutLimit,
        Self::FloodsTheClient,
        Self::NeverRests,
        Self::LosesQuestions,
        Self::CountsAnew,
        Self::Panics,
        Self::ActsByChance,
        Self::LosesLateResults,
        Self::TellsLateResultsTwice,
        Self::StaysToTheEnd,
        Self::ClaimsByChance,
        Self::InterruptsForResults,
        Self::KeepsReadingsToItself,
        Self::TakesEndsForReactions,
        Self::ForgetsUnreadNotices,
        Self::BeginsATurnPerResult,
        Self::KeepsRefusedHandles,
        Self::LeavesWithoutCounting,
    ];
}

/// Another number every time.
pub(crate) fn chance() -> u64 {
    RandomState::new().hash_one(0)
}
