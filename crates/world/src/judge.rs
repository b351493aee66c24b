//! What must hold in every world. About changes it believes the outside and the intents of the users alone; of a session it sees
//! what goes in and what comes out.

use crate::count::{Fault, State};
use crate::executor::Attempt;
use crate::outside::OutsideRequest;
use crate::slot::Live;
use crate::storefront::FaultyStore;
use crate::tools;
use crate::world::{BEGINNING_UNIX_MS, World};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use windlass_session::client::ClientUpdate;
use windlass_session::event::{CallRecord, SessionEvent};
use windlass_session::io::{Input, Output};
use windlass_session::model::{ModelCommand, ModelEvent, ModelToolResponse};
use windlass_session::names_delivery;
use windlass_store::{AttemptNumber, Effect, EffectState, Question, QuestionNumber, StoreLimits};
use windlass_tool::envelope::ProjectionBody;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::kind::Mode;

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:literal,)*) => {
        /// A rule, named after what it wants.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl fmt::Display for Rule {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self {
                    $(Self::$rule => $name,)*
                })
            }
        }
    };
}

rules! {
    NoPanic "no panic",
    SameSeedSameOutputs "the same seed gives the same outputs",
    AReplayGivesTheSameOutputs "a replay gives the same outputs",
    /// But for approvals of a question that named the earlier one, and for `repeatable` tools.
    OneCommitPerIntent "one commit per intent",
    NothingWithoutConsent "nothing runs without consent where it is demanded",
    NothingUnasked "nothing runs unasked",
    NothingAfterExternalContent "nothing runs unapproved once the model has read external content",
    AnAttemptStartsOnce "an attempt starts once",
    AnApprovalRunsOnce "an approval runs once",
    NestedEndsAreTheirHandlers "the end of a nested call is told to no model",
    AServiceTellsOneEnd "a service tells one end of an attempt, and a call hears one",
    NoToolOutsideItsMode "no tool runs outside its mode",
    OneAnswerPerProviderId "one answer per provider id and connection",
    OneResponsePerCall "one response per call",
    EachClickIsAnswered "each click is answered",
    WarningsAreShown "a question that names earlier effects shows it",
    TheToldIsTrue "what is told is true",
    TheLedgerTellsTheTruth "the ledger tells the truth",
    EverythingSettles "everything settles",
    NothingAfterTheEnd "nothing comes after the end",
    TablesAreBounded "tables are bounded",
}

/// How long a lookup may take whose answer is believed.
const LOOKUP_US: u64 = 30_000_000;

#[derive(Default)]
pub(crate) struct Judge {
    started: BTreeSet<(EffectId, AttemptNumber)>,
    /// Questions that their user has approved.
    pub(crate) approved: BTreeSet<(usize, QuestionNumber)>,
    /// What approved questions ran.
    used: BTreeMap<(usize, QuestionNumber), Option<EffectId>>,
    /// Effects that somebody was told have not happened, and how many requests had been sent by then.
    told_not_done: Vec<(EffectId, usize)>,
    /// Attempts whose ends services have told.
    called_back: BTreeSet<(EffectId, AttemptNumber)>,
}

impl World {
    // ---- the outside

    /// A request has taken effect.
    pub(crate) fn judge_landing(&mut self, request: usize) {
        let new = self.outside.requests[request].clone();
        let (tool, text) = wanted(&new);
        let asked = self.intents.asked(new.conversation, tool, text);
        if asked == 0 {
            return self.broken(Rule::NothingUnasked, format!("nobody asked for {new:?}"));
        }
        if let Some(number) = new.question {
            self.runs_what_was_approved(&new, number);
        } else if new.demands_consent {
            let what = format!("nobody approved {new:?}");
            return self.broken(Rule::NothingWithoutConsent, what);
        }
        let meaning = self.meaning_of(&new);
        let same: Vec<OutsideRequest> = self
            .outside
            .landed()
            .map(|(landed, _)| landed)
            .filter(|landed| self.meaning_of(landed) == meaning)
            .cloned()
            .collect();
        if new.is_repeatable {
            if same.len() > usize::try_from(asked).unwrap_or(usize::MAX) {
                let what = format!("{} commits for {asked} calls of {new:?}", same.len());
                self.broken(Rule::OneCommitPerIntent, what);
            }
            return;
        }
        for old in same {
            let is_itself = old.effect_id == new.effect_id && old.attempt == new.attempt;
            if is_itself {
                continue;
            }
            if !self.covers(&new, &old) && !self.covers(&old, &new) {
                let what = format!("{meaning:?}: {old:?} and {new:?}");
                return self.broken(Rule::OneCommitPerIntent, what);
            }
            self.report.counts.state(State::SecondCommitApproved);
        }
    }

    /// Two requests mean the same where they are of one tool and say the same; where other words are another effect, where one
    /// intent is behind them.
    fn meaning_of(&self, request: &OutsideRequest) -> (usize, String, String) {
        let by_intent = match request.tool == tools::MEMO {
            true => self.intents.of_words(&request.text),
            false => None,
        };
        let meaning = match by_intent {
            Some(intent) => format!("{intent:?}"),
            None => request.text.clone(),
        };
        (request.conversation, request.tool.clone(), meaning)
    }

    /// Whether the user who approved the one had been told of the other. Of the parts of a trip: of the trip.
    fn covers(&self, approved: &OutsideRequest, earlier: &OutsideRequest) -> bool {
        let parents = approved.parent.as_ref().zip(earlier.parent.as_ref());
        let (question, earlier) = match parents {
            Some((new, old)) if new.effect_id == old.effect_id => return false,
            Some((new, old)) => (new.question, &old.effect_id),
            None => (approved.question, &earlier.effect_id),
        };
        question.is_some_and(|number| self.was_told(approved.conversation, number, earlier))
    }

    /// Whether a question named an effect, or named a repeat of it that the user had approved when the effect was named then.
    fn was_told(&self, conversation: usize, number: QuestionNumber, earlier: &EffectId) -> bool {
        let store = self.any_store();
        let tenant = &self.conversations[conversation].tenant;
        let mut numbers = vec![number];
        while let Some(number) = numbers.pop() {
            let Some(question) = self.question_of(conversation, number) else {
                continue;
            };
            if question.hazards.names(earlier) {
                return true;
            }
            for named in &question.hazards.earlier {
                let repeat = store
                    .inner()
                    .effect(tenant, &named.effect_id)
                    .ok()
                    .flatten();
                let attempts = repeat.into_iter().flat_map(|(_, repeat)| repeat.attempts);
                // Only questions before this one, so that there is an end.
                let before = attempts.filter_map(|attempt| attempt.question);
                numbers.extend(before.filter(|before| *before < number));
            }
        }
        false
    }

    fn runs_what_was_approved(&mut self, new: &OutsideRequest, number: QuestionNumber) {
        let place = (new.conversation, number);
        let question = self.question_of(new.conversation, number);
        let is_meant = question.is_some_and(|question| {
            let arguments: serde_json::Value =
                serde_json::from_str(question.arguments.expose()).unwrap_or_default();
            let text = |name: &str| arguments.get(name).and_then(|text| text.as_str());
            question.tool.as_str() == new.tool
                && text("text").unwrap_or_default() == new.text
                && text("note").unwrap_or_default() == new.note
        });
        if !self.judge.approved.contains(&place) || !is_meant {
            let what = format!("question {number:?} was not approved for {new:?}");
            self.broken(Rule::NothingWithoutConsent, what);
        }
    }

    pub(crate) fn question_of(
        &self,
        conversation: usize,
        number: QuestionNumber,
    ) -> Option<Question> {
        let of = &self.conversations[conversation];
        let store = self.any_store();
        store.inner().question_of_number(of, number).ok().flatten()
    }

    fn any_store(&self) -> Arc<FaultyStore> {
        let up = self.processes.iter().find(|process| process.is_up);
        let process = up.unwrap_or(&self.processes[0]);
        process.ledger.store.clone()
    }

    // ---- starts

    pub(crate) fn judge_start(&mut self, id: usize, live: &mut Live, attempt: &Attempt) {
        let (tool, call) = (&attempt.tool, attempt.call);
        if call.attempt == 1 {
            live.facts.calls.entry(call.call).or_default().starts += 1;
        }
        let what = format!("life {id} starts {attempt:?}");
        let conversation = self.slots[live.slot].conversation;
        let question = match &attempt.run {
            Some(run) => {
                let is_first = self
                    .judge
                    .started
                    .insert((run.effect_id.clone(), run.attempt));
                if !is_first {
                    return self.broken(Rule::AnAttemptStartsOnce, what);
                }
                run.question
            }
            None if tool.requires_confirmation && call.attempt == 1 => {
                let found = self.approved_for(conversation, attempt);
                if found.is_none() {
                    return self.broken(Rule::NothingWithoutConsent, what);
                }
                found
            }
            None => None,
        };
        // What a handler asks for was asked for, and approved, with its parent.
        let parent = attempt.parent;
        let asked_as = parent.unwrap_or(call.call);
        let is_approved = match parent.and_then(|parent| live.runs.get(&parent)) {
            Some(parent) => parent.question.is_some(),
            None => question.is_some(),
        };
        // An approval is for the session that asked, wherever it is given.
        let asked = question.and_then(|number| self.question_of(conversation, number));
        let mode = asked.map_or(live.session.config().mode, |question| question.mode);
        if !tool.allows(mode) {
            return self.broken(Rule::NoToolOutsideItsMode, what);
        }
        if let Some(number) = question {
            let effect_id = attempt.run.as_ref().map(|run| run.effect_id.clone());
            let used = self.judge.used.entry((conversation, number));
            let used = used.or_insert_with(|| effect_id.clone());
            if *used != effect_id {
                return self.broken(Rule::AnApprovalRunsOnce, what);
            }
        }
        let is_late = live.facts.tainted_after.is_some_and(|last| asked_as > last);
        let is_exempt = tool.is_exempt_from_external_content_rule();
        if is_late && tool.writes() && !is_exempt && attempt.run.is_some() && !is_approved {
            self.broken(Rule::NothingAfterExternalContent, what);
        }
    }

    /// A question about a call without effect that was approved, and has run nothing yet.
    fn approved_for(&self, conversation: usize, attempt: &Attempt) -> Option<QuestionNumber> {
        let approved = self.judge.approved.iter();
        let mut of_conversation = approved.filter(|(of, _)| *of == conversation);
        let found = of_conversation.find(|(_, number)| {
            let is_of_it = self
                .question_of(conversation, *number)
                .is_some_and(|question| question.tool == attempt.tool.id);
            is_of_it && !self.judge.used.contains_key(&(conversation, *number))
        });
        found.map(|(_, number)| *number)
    }

    // ---- sessions

    pub(crate) fn before_input(&mut self, _id: usize, live: &mut Live, input: &Input) {
        match input {
            Input::Answered { .. } if !live.session.is_over() => live.facts.clicks += 1,
            Input::Began(began) => {
                let questions = began.questions.len() + began.unheard_questions.len();
                live.facts.began_with = questions + began.unheard.len();
            }
            Input::Model(ModelEvent::CallsCancelled(ids)) => {
                for id in ids {
                    let places = &mut live.facts.places;
                    let place = places.entry((live.generation, id.clone())).or_default();
                    place.is_cancelled = true;
                }
            }
            Input::Model(ModelEvent::Calls(calls)) => {
                // By text each turn may begin its ids anew.
                let is_by_text = live.session.config().mode == Mode::Text;
                for call in calls {
                    let Some(id) = call.id.clone() else {
                        continue;
                    };
                    let name = call.name.as_deref().unwrap_or_default();
                    let names_one = names_delivery(&id, name);
                    let places = &mut live.facts.places;
                    let place = places.entry((live.generation, id)).or_default();
                    place.asked += 1;
                    place.names_many |= !names_one || is_by_text;
                }
            }
            _ => {}
        }
    }

    pub(crate) fn after_input(&mut self, id: usize, live: &Live) {
        for held in live.session.held() {
            if held.held > held.most {
                let what = format!("life {id} holds {held:?}");
                self.broken(Rule::TablesAreBounded, what);
            }
        }
    }

    pub(crate) fn judge_output(&mut self, id: usize, live: &mut Live, output: &Output) {
        if live.is_closed {
            let what = format!("life {id} wants {output:?}");
            return self.broken(Rule::NothingAfterTheEnd, what);
        }
        match output {
            Output::Answer { call, .. } => {
                live.facts.calls.entry(*call).or_default().answers += 1;
            }
            Output::Taint => live.facts.has_said_taint = true,
            Output::SendClient(ClientUpdate::SessionComplete { .. }) => {
                live.facts.is_draining = true;
            }
            Output::SendModel(ModelCommand::ToolResponses(answers)) => {
                self.one_answer_per_provider_id(id, live, answers);
                self.note_answers(live, answers);
            }
            Output::SendModel(ModelCommand::LateResults(answers)) => {
                self.report.counts.state(State::LateResultSent);
                if answers.iter().any(|answer| &*answer.name == tools::STAGE) {
                    let what = format!("life {id} tells its model {answers:?}");
                    self.broken(Rule::NestedEndsAreTheirHandlers, what);
                }
                let conversation = self.slots[live.slot].conversation;
                let is_told = |tool: &str| answers.iter().any(|answer| &*answer.name == tool);
                self.intents.answered_of_tool(conversation, is_told);
                self.note_answers(live, answers);
            }
            Output::SendModel(ModelCommand::Notice(text)) => {
                let conversation = self.slots[live.slot].conversation;
                let is_told = |tool: &str| text.expose().contains(tool);
                self.intents.answered_of_tool(conversation, is_told);
                self.report.counts.state(State::NoticeSent);
            }
            Output::SendClient(ClientUpdate::ConfirmationResult { call, .. }) => {
                live.facts.results += 1;
                self.report.counts.state(match call {
                    Some(_) => State::ConfirmationResult,
                    None => State::ConfirmationUnknownToken,
                });
            }
            Output::SendClient(ClientUpdate::ConfirmationRequest(question)) => {
                live.facts.shown += 1;
                let conversation = self.slots[live.slot].conversation;
                let row = self.question_of(conversation, question.question);
                let is_named = row.is_some_and(|row| !row.hazards.earlier.is_empty());
                if is_named && question.warning.is_none() {
                    let what = format!("life {id} shows {question:?}");
                    self.broken(Rule::WarningsAreShown, what);
                }
            }
            Output::Event(event) => self.judge_event(id, live, event),
            _ => {}
        }
    }

    fn one_answer_per_provider_id(
        &mut self,
        id: usize,
        live: &mut Live,
        answers: &[ModelToolResponse],
    ) {
        for answer in answers {
            let Some(call) = answer.id.clone() else {
                continue;
            };
            let place = live.facts.places.get_mut(&(live.generation, call.clone()));
            let is_heard = live.is_connected || live.facts.is_draining;
            let Some(place) = place.filter(|_| is_heard) else {
                let what = format!("life {id} answers {call}, and nobody asks");
                return self.broken(Rule::OneAnswerPerProviderId, what);
            };
            place.answers += 1;
            let most = match place.names_many {
                true => place.asked,
                false => 1,
            };
            if place.answers > most {
                let what = format!("life {id} answers {call} once more");
                return self.broken(Rule::OneAnswerPerProviderId, what);
            }
        }
    }

    fn note_answers(&mut self, live: &mut Live, answers: &[ModelToolResponse]) {
        for answer in answers {
            if answer.id.is_none() {
                let conversation = self.slots[live.slot].conversation;
                let is_told = |tool: &str| tool == &*answer.name;
                self.intents.answered_of_tool(conversation, is_told);
            }
            let past = self.slots[live.slot].past.iter_mut();
            for call in past.filter(|past| past.id.is_some() && past.id == answer.id) {
                call.is_answered = true;
                self.intents.answered(call.intent);
            }
            let body = &answer.projection.body;
            if matches!(body, ProjectionBody::Success { quoted: true, .. })
                && live.facts.tainted_after.is_none()
            {
                let last = live.facts.calls.keys().next_back();
                live.facts.tainted_after = Some(last.copied().unwrap_or(CallNumber(0)));
                if !live.facts.has_said_taint {
                    let of = &self.conversations[self.slots[live.slot].conversation];
                    let store = self.any_store();
                    let known = store.inner().conversation(&of.tenant, &of.conversation_id);
                    let known = known.ok().flatten();
                    if !known.is_some_and(|known| known.has_external_content) {
                        let what = format!("{answer:?} goes to the model");
                        self.broken(Rule::NothingAfterExternalContent, what);
                    }
                }
            }
        }
    }

    fn judge_event(&mut self, id: usize, live: &mut Live, event: &SessionEvent) {
        let counts = &mut self.report.counts;
        match event {
            SessionEvent::CallRequested { call, .. } => {
                live.facts.calls.entry(*call).or_default().is_requested = true;
            }
            SessionEvent::CallFinished(record) => {
                counts.state(match record.error_type() {
                    None => State::Finished,
                    Some(ErrorType::OutcomeUnknown) => State::FinishedUnknown,
                    Some(_) => State::FinishedFailed,
                });
                self.the_told_is_true(id, record);
                self.ends(id, live, record);
            }
            SessionEvent::CallSettled(record) => {
                counts.state(State::AcceptedSettled);
                self.the_told_is_true(id, record);
                self.hears_one_end(id, live, record);
            }
            SessionEvent::CallRejected(record) => {
                counts.state(State::Rejected);
                self.ends(id, live, record);
            }
            SessionEvent::CallCancelled(record) => {
                counts.state(State::CallCancelled);
                self.ends(id, live, record);
            }
            SessionEvent::CallDeduplicated { call, .. } => {
                counts.state(State::Deduplicated);
                live.facts.calls.entry(*call).or_default().deduplicated += 1;
            }
            SessionEvent::ConfirmationRequested { call, .. } => {
                live.facts.calls.entry(*call).or_default().asked += 1;
            }
            SessionEvent::CallReturnedLate { .. } => counts.state(State::ReturnedLate),
            SessionEvent::IntentApplied { .. } => counts.state(State::IntentApplied),
            SessionEvent::IntentRejected { .. } => counts.state(State::IntentRejected),
            _ => {}
        }
    }

    fn ends(&mut self, id: usize, live: &mut Live, record: &CallRecord) {
        let ends = live.facts.calls.entry(record.call()).or_default();
        ends.ends += 1;
        // One that is refused at once is not said to be requested. A question that comes to nothing ends its call once more.
        if ends.ends > 1 + ends.answers + ends.asked {
            let what = format!("life {id} ends {} once more: {ends:?}", record.call());
            self.broken(Rule::OneResponsePerCall, what);
        }
    }

    /// A call has ended, and somebody is told what became of its effect.
    fn the_told_is_true(&mut self, id: usize, record: &CallRecord) {
        let Some(effect_id) = record.effect_id.clone() else {
            return;
        };
        let has_happened = match record.response.expose().meta.accepted_until {
            Some(_) => self.outside.is_accepted(&effect_id, None),
            None => self.outside.has_happened(&effect_id),
        };
        match record.error_type() {
            None if !has_happened => {
                let what = format!("life {id} says that {effect_id} was done: {record:?}");
                self.broken(Rule::TheToldIsTrue, what);
            }
            Some(error) if says_not_done(error) => {
                self.is_not_done(&effect_id);
                self.tell_not_done(effect_id);
            }
            None | Some(_) => {}
        }
    }

    fn tell_not_done(&mut self, effect_id: EffectId) {
        let sent = self.outside.requests.len();
        self.judge.told_not_done.push((effect_id, sent));
    }

    /// The ledger has taken from a service how an effect ended.
    pub(crate) fn judge_called_back(&mut self, effect: &Effect, is_end: bool) {
        let attempt = (effect.effect_id.clone(), effect.newest_attempt().number);
        if is_end && !self.judge.called_back.insert(attempt) {
            let what = format!("a service has ended {effect:?} before");
            self.broken(Rule::AServiceTellsOneEnd, what);
        }
        if effect.state == EffectState::NotDone {
            self.tell_not_done(effect.effect_id.clone());
        }
    }

    fn hears_one_end(&mut self, id: usize, live: &mut Live, record: &CallRecord) {
        if !live.facts.settled.insert(record.call()) {
            let what = format!("life {id} hears of {record:?} once more");
            self.broken(Rule::AServiceTellsOneEnd, what);
        }
    }

    /// Nobody may say that an effect has not happened which has, for longer than a lookup takes.
    fn is_not_done(&mut self, effect_id: &EffectId) {
        let known_until_us = self.now_us.saturating_sub(LOOKUP_US);
        let denied = self.landed_of(effect_id, |landed, at_us| {
            let in_time = lands_in_time(landed.lease_end_unix_ms, at_us);
            at_us < known_until_us && in_time && self.are_clocks_right()
        });
        if let Some(landed) = denied {
            let what = format!("{landed:?} took effect, and is said not to have");
            self.broken(Rule::TheToldIsTrue, what);
        }
    }

    /// A request for the effect that has taken effect, and is as said.
    fn landed_of(
        &self,
        effect_id: &EffectId,
        is_meant: impl Fn(&OutsideRequest, u64) -> bool,
    ) -> Option<OutsideRequest> {
        let mut landed = self.outside.landed();
        let found = landed
            .find(|(landed, at_us)| landed.effect_id == *effect_id && is_meant(landed, *at_us));
        found.map(|(landed, _)| landed.clone())
    }

    /// A session has come to its end by itself.
    pub(crate) fn judge_end(&mut self, id: usize, live: &Live) {
        let facts = &live.facts;
        if let Some((call, _)) = facts.calls.iter().find(|(_, ends)| ends.is_open()) {
            let what = format!("life {id} is over, and {call} has no end");
            self.broken(Rule::OneResponsePerCall, what);
        }
        if facts.results < facts.clicks
            || facts.results > facts.clicks + facts.shown + facts.began_with
        {
            let what = format!(
                "life {id}: {} clicks, {} results, {} questions, and {} that it began with",
                facts.clicks, facts.results, facts.shown, facts.began_with
            );
            self.broken(Rule::EachClickIsAnswered, what);
        }
        if live.session.next_deadline().is_some() {
            let what = format!("life {id} is over, and waits for something");
            self.broken(Rule::NothingAfterTheEnd, what);
        }
    }

    // ---- the end of the world

    /// What the ledger says is so: a success has happened, and what has not happened has not, unless it came after every time
    /// that anybody waits.
    pub(crate) fn judge_ledger(&mut self) {
        let store = self.any_store();
        let effects: BTreeSet<EffectId> = self
            .judge
            .started
            .iter()
            .map(|(effect_id, _)| effect_id.clone())
            .collect();
        for effect_id in effects {
            let tenant = &self.conversations[0].tenant;
            let Ok(Some((_, effect))) = store.inner().effect(tenant, &effect_id) else {
                let what = format!("{effect_id} was started, and the ledger does not have it");
                return self.broken(Rule::TheLedgerTellsTheTruth, what);
            };
            let has_happened = self.outside.has_happened(&effect_id);
            self.report.counts.state(match effect.state {
                EffectState::Running => {
                    let what = format!("{effect:?} is running for ever");
                    return self.broken(Rule::TheLedgerTellsTheTruth, what);
                }
                EffectState::Done => State::LedgerDone,
                EffectState::NotDone => State::LedgerNotDone,
                EffectState::Unknown => State::LedgerUnknown,
            });
            let lease_end_unix_ms = effect.lease_end_unix_ms();
            let contradicted = self.landed_of(&effect_id, |_, at_us| {
                self.are_clocks_right() && lands_in_time(lease_end_unix_ms, at_us)
            });
            let problem = match effect.state {
                EffectState::Done if !has_happened => Some("it has not happened".to_owned()),
                EffectState::NotDone => contradicted.map(|landed| format!("{landed:?}")),
                EffectState::Running | EffectState::Done | EffectState::Unknown => None,
            };
            if let Some(problem) = problem {
                let what = format!("{effect:?}: {problem}");
                return self.broken(Rule::TheLedgerTellsTheTruth, what);
            }
        }
        for (effect_id, sent) in std::mem::take(&mut self.judge.told_not_done) {
            let denied = self.landed_of(&effect_id, |landed, at_us| {
                self.are_clocks_right()
                    && landed.number < sent
                    && lands_in_time(landed.lease_end_unix_ms, at_us)
            });
            if let Some(landed) = denied {
                let what = format!("{landed:?} was said not to have happened");
                return self.broken(Rule::TheToldIsTrue, what);
            }
        }
    }

    /// Whether every process has kept to one time, and to leases that were given by it.
    fn are_clocks_right(&self) -> bool {
        !self.has_odd_clocks && !self.had_two_owners
    }

    pub(crate) fn fault_if(&mut self, is_so: bool, fault: Fault) {
        if is_so {
            self.fault(fault);
        }
    }
}

/// What a model has to have asked for: of a part of a trip, that trip.
fn wanted(request: &OutsideRequest) -> (&str, &str) {
    match (request.tool.as_str(), request.text.split_once('/')) {
        (tools::STAGE, Some((text, _))) => (tools::TRIP, text),
        (tool, _) => (tool, &request.text),
    }
}

/// Whether a request took effect before a negative lookup counts.
fn lands_in_time(lease_end_unix_ms: u64, at_us: u64) -> bool {
    let landing_ms = StoreLimits::default().landing_ms;
    BEGINNING_UNIX_MS + at_us / 1_000 <= lease_end_unix_ms + landing_ms
}

/// Whether an answer says that its change has not happened.
fn says_not_done(error: ErrorType) -> bool {
    match error {
        ErrorType::Validation
        | ErrorType::NotFound
        | ErrorType::SessionInactive
        | ErrorType::SessionActive
        | ErrorType::Transient
        | ErrorType::Permanent
        | ErrorType::RateLimit
        | ErrorType::Auth
        | ErrorType::Conflict
        | ErrorType::Internal => true,
        ErrorType::ModeRestricted
        | ErrorType::BudgetExceeded
        | ErrorType::LoopDetected
        | ErrorType::ConfirmationRequired
        | ErrorType::ConfirmationExpired
        | ErrorType::ConfirmationDeclined
        | ErrorType::Cancelled
        | ErrorType::OutcomeUnknown => false,
    }
}
