//! What must hold in every world, each rule in a function of its name. Looks at what goes in and out, never inside.

mod answers;
mod consent;
mod effects;
mod heard;
mod late;
mod limits;

pub(crate) use heard::Heard;
pub(crate) use late::Telling;

use std::fmt;

macro_rules! rules {
    ($($rule:ident $name:literal,)*) => {
        /// A rule, named after the function that looks after it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($rule,)*
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    NoPanic "no_panic",
    AnAnswerIsSpokenOfWhenItsToolHasIt "an_answer_is_spoken_of_when_its_tool_has_it",
    SameSeedSameOutputs "same_seed_same_outputs",
    AReplayGivesTheSameOutputs "a_replay_gives_the_same_outputs",
    ANoHolds "a_no_holds",
    ANoIsToldWhenItIsStored "a_no_is_told_when_it_is_stored",
    ADurableReservationBeforeAStart "a_durable_reservation_before_a_start",
    AGoAwayIsHeeded "a_go_away_is_heeded",
    ALateResultIsToldOnce "a_late_result_is_told_once",
    ARefusedHandleIsThrownAway "a_refused_handle_is_thrown_away",
    ATickMakesProgress "a_tick_makes_progress",
    ATurnNeedsACause "a_turn_needs_a_cause",
    AnIntentIsAppliedOnce "an_intent_is_applied_once",
    AtMostOneOutsideRequestPerEffect "at_most_one_outside_request_per_effect",
    BudgetsAreKept "budgets_are_kept",
    ConnectionsAreBounded "connections_are_bounded",
    EachAnswerIsAnswered "each_answer_is_answered",
    EveryCallEndsBeforeItsSession "every_call_ends_before_its_session",
    EverythingSettles "everything_settles",
    ItsOwnUnexpiredGrantUsedOnce "its_own_unexpired_grant_used_once",
    NoChangeStartsWhileOutcomesAreUnrecorded "no_change_starts_while_outcomes_are_unrecorded",
    NoStartAfterAnothersReading "no_start_after_anothers_reading",
    NoStartWithoutNeededConsent "no_start_without_needed_consent",
    NoToolOutsideItsMode "no_tool_outside_its_mode",
    NothingLivesAfterTheEnd "nothing_lives_after_the_end",
    NumbersGoOn "numbers_go_on",
    OneAnswerPerProviderId "one_answer_per_provider_id",
    OneEffectPerWish "one_effect_per_wish",
    OneEndPerStart "one_end_per_start",
    OneResponsePerDeliveredCall "one_response_per_delivered_call",
    OpenQuestionsAreTakenUp "open_questions_are_taken_up",
    OutputsAreBounded "outputs_are_bounded",
    ResultsAreBounded "results_are_bounded",
    TablesAreBounded "tables_are_bounded",
    TheLedgerTellsTheTruth "the_ledger_tells_the_truth",
    TurnsDoNotOverlap "turns_do_not_overlap",
    WhatIsMarkedWasHeard "what_is_marked_was_heard",
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
