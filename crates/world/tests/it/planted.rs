//! Bugs planted in the core: a rule that finds none of them would prove nothing.

use std::collections::BTreeSet;
use windlass_session::planted::PlantedBug;
use windlass_world::{Plan, Rule, run};

/// Within so many worlds each bug has to be found.
const SEEDS: u64 = 1_000;

/// The rule that a bug is planted for.
fn rule_of(bug: PlantedBug) -> Rule {
    match bug {
        PlantedBug::AnswersTwice | PlantedBug::AnswersWhatWasTakenBack => {
            Rule::OneAnswerPerProviderId
        }
        PlantedBug::LeavesRefusalsOpen
        | PlantedBug::AsksForEver
        | PlantedBug::ForgetsWaitingWrites
        | PlantedBug::ForgetsTimeouts => Rule::EverythingSettles,
        PlantedBug::IgnoresTheMode => Rule::NoToolOutsideItsMode,
        PlantedBug::ForgetsTheBudget | PlantedBug::ForgetsRefusedCalls => Rule::BudgetsAreKept,
        PlantedBug::SkipsConsent | PlantedBug::KeepsTheGrant => Rule::NoStartWithoutNeededConsent,
        PlantedBug::KeepsReadingsToItself => Rule::NoStartAfterAnothersReading,
        PlantedBug::StartsUnreserved => Rule::ADurableReservationBeforeAStart,
        PlantedBug::ForgetsWishes => Rule::OneEffectPerWish,
        PlantedBug::RecordsUnknownAsFailed => Rule::TheLedgerTellsTheTruth,
        PlantedBug::ForgetsOutcomes => Rule::OneEndPerStart,
        PlantedBug::EndsBeforeChangesAreDone => Rule::EveryCallEndsBeforeItsSession,
        PlantedBug::IgnoresUnrecordedOutcomes => Rule::NoChangeStartsWhileOutcomesAreUnrecorded,
        PlantedBug::AppliesIntentsTwice => Rule::AnIntentIsAppliedOnce,
        PlantedBug::IgnoresTheEnd => Rule::NothingLivesAfterTheEnd,
        PlantedBug::SharesEffects => Rule::AtMostOneOutsideRequestPerEffect,
        PlantedBug::ForgetsANo => Rule::ANoHolds,
        PlantedBug::KeepsLongResults => Rule::ResultsAreBounded,
        PlantedBug::AnswersOneClick => Rule::EachAnswerIsAnswered,
        PlantedBug::TellsANoUnstored => Rule::ANoIsToldWhenItIsStored,
        PlantedBug::RunsWhatWasDeclined => Rule::ItsOwnUnexpiredGrantUsedOnce,
        PlantedBug::BeginsATurnPerMessage | PlantedBug::BeginsATurnPerResult => {
            Rule::ATurnNeedsACause
        }
        PlantedBug::ForgetsTurnEnds => Rule::TurnsDoNotOverlap,
        PlantedBug::EndsRefusedCallsTwice => Rule::OneResponsePerDeliveredCall,
        PlantedBug::AsksWithoutLimit => Rule::TablesAreBounded,
        PlantedBug::FloodsTheClient => Rule::OutputsAreBounded,
        PlantedBug::NeverRests => Rule::ATickMakesProgress,
        PlantedBug::LosesQuestions => Rule::OpenQuestionsAreTakenUp,
        PlantedBug::CountsAnew => Rule::NumbersGoOn,
        PlantedBug::Panics => Rule::NoPanic,
        PlantedBug::ActsByChance => Rule::AReplayGivesTheSameOutputs,
        PlantedBug::LosesLateResults | PlantedBug::TellsLateResultsTwice => {
            Rule::ALateResultIsToldOnce
        }
        PlantedBug::StaysToTheEnd => Rule::AGoAwayIsHeeded,
        PlantedBug::TakesEndsForReactions | PlantedBug::ForgetsUnreadNotices => {
            Rule::WhatIsMarkedWasHeard
        }
        PlantedBug::InterruptsForResults => Rule::AnAnswerIsSpokenOfWhenItsToolHasIt,
        PlantedBug::KeepsRefusedHandles => Rule::ARefusedHandleIsThrownAway,
        PlantedBug::LeavesWithoutCounting => Rule::ConnectionsAreBounded,
        PlantedBug::ClaimsByChance => Rule::SameSeedSameOutputs,
    }
}

#[test]
fn every_planted_bug_is_found_by_its_rule() {
    for bug in PlantedBug::ALL {
        let mut others = BTreeSet::new();
        let found = (0..SEEDS).find(|seed| {
            let plan = Plan {
                planted_bug: Some(bug),
                ..Plan::of(*seed)
            };
            let rule = run(&plan).violation.map(|violation| violation.rule);
            others.extend(rule.filter(|rule| *rule != rule_of(bug)));
            rule == Some(rule_of(bug))
        });
        let rule = rule_of(bug);
        assert!(
            found.is_some(),
            "{rule} does not find {bug:?} in {SEEDS} worlds, only {others:?}"
        );
        println!("{bug:?}: seed {found:?} breaks {rule}; others: {others:?}");
    }
}

#[test]
fn every_rule_has_a_bug_that_it_finds() {
    let with_bugs: BTreeSet<Rule> = PlantedBug::ALL.into_iter().map(rule_of).collect();
    let without = Rule::ALL.iter().filter(|rule| !with_bugs.contains(rule));
    assert_eq!(without.collect::<Vec<_>>(), Vec::<&Rule>::new());
}
