//! The invariants of every world. About changes it believes only the outside and the intents of the users; of a session it sees the
//! inputs and the outputs.

use crate::agenda::ServiceCall;
use crate::asking::ServiceQuestion;
use crate::clock::BEGINNING_UNIX_MS;
use crate::count::{Fault, State};
use crate::ends::KnownEnd;
use crate::executor::Attempt;
use crate::kept::SetValue;
use crate::notes::{AskedFacts, ConversationFacts, StandingFacts};
use crate::outside::OutsideRequest;
use crate::shown::Click;
use crate::slot::Live;
use crate::storefront::FaultyStore;
use crate::tools::{self, Edition, Offer};
use crate::world::World;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use windlass_contract::envelope::ProjectionBody;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, EffectId, SessionId};
use windlass_contract::kind::Mode;
use windlass_session::client::{CancelOutcome, ClientUpdate};
use windlass_session::event::{CallRecord, Resolution, SessionEvent};
use windlass_session::io::{Input, News, Output};
use windlass_session::model::{
    ConnectionEvent, ModelCommand, ModelEvent, ModelToolResponse, RequestEvent,
};
use windlass_session::names_delivery;
use windlass_store::{
    AttemptNumber, AttemptOutcome, Effect, EffectState, Epoch, Question, QuestionNumber,
    StoreLimits,
};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:literal,)*) => {
        /// A rule, named after its demand.
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
    /// Except for approvals of a request that named the earlier one, and for `repeatable` tools.
    OneCommitPerIntent "one commit per intent",
    NothingWithoutConsent "nothing runs without consent where it is demanded",
    NothingUnasked "nothing runs unasked",
    NothingAfterExternalContent "nothing runs unapproved once the model has read external content",
    AnAttemptStartsOnce "an attempt starts once",
    AnApprovalRunsOnce "an approval runs once",
    AServiceHearsItsUser "a run goes on by the answer of its user",
    /// Except for calls that the user approves afterwards.
    NothingStartsAfterItsCancel "nothing starts of a call that its user has stopped",
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
    NothingIsForgottenEarly "nothing is forgotten inside its retention",
    ASessionInUseIsHeard "the ledger hears a session that is in use",
    WhatIsKnownIsNotDoubted "what a handler has said is not doubted",
    APromiseHolds "a promise holds as long as was promised",
    AnApprovalBindsTheCode "an approval runs the code that was asked about",
    WhatRunsIsWhatWasAsked "what runs is what was asked, digit for digit",
    TheShownEndIsTheLedgers "the end that is shown is the ledger's",
    NoClickIsLost "a request that is shown can be answered",
    AnAskerHearsTheEnd "who asks for what runs hears its end",
    NoLegIsTakenBack "a repeated command takes no leg back",
    WhatIsKeptIsTheLogs "what handlers keep is what the log says",
    NothingKeptIsLost "no value that was set is lost",
}

/// The time that a lookup may take whose answer is believed.
const LOOKUP_US: u64 = 30_000_000;
/// The time that a stopped process may take to read the news since then.
const WAKING_US: u64 = 5_000_000;

/// The time that the store's answer to a grant may be on its way if it fails, or its acknowledgements are lost.
const LATE_US: u64 = 10_000_000;
/// The time by which a promise may end earlier than was promised.
const PROMISE_MS: u64 = 2_000;
const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Default)]
pub(crate) struct Judge {
    /// Attempts that a session may start.
    pub(crate) granted: BTreeSet<(EffectId, AttemptNumber)>,
    /// The time when each attempt has started.
    pub(crate) started: BTreeMap<(EffectId, AttemptNumber), u64>,
    /// The approvals that attempts at an effect ran with.
    questions_of: BTreeMap<EffectId, BTreeSet<QuestionNumber>>,
    pub(crate) conversations: Vec<ConversationFacts>,
    /// The approval requests as they were committed last.
    pub(crate) questions: BTreeMap<(usize, QuestionNumber), AskedFacts>,
    /// The tools of each leg, its newest epoch, and those that were ended.
    pub(crate) offers: BTreeMap<SessionId, Offer>,
    pub(crate) epochs: BTreeMap<SessionId, Epoch>,
    pub(crate) left: BTreeSet<SessionId>,
    /// The times that services were given, by the steady clock of the process that took their promise.
    pub(crate) promised: BTreeMap<(EffectId, AttemptNumber), u64>,
    /// The certain reports of handlers.
    pub(crate) ends: BTreeMap<(EffectId, AttemptNumber), KnownEnd>,
    /// Answers to requests that were shown and open, without a result yet.
    pub(crate) clicks: Vec<Click>,
    /// The times when a process or the store failed, or was well again.
    pub(crate) disturbances: Vec<u64>,
    /// The times when an acknowledgement was lost, or began to be late.
    pub(crate) unacknowledged: Vec<u64>,
    /// Approval requests that their user has approved.
    pub(crate) approved: BTreeSet<(usize, QuestionNumber)>,
    /// Approval requests that their user wanted remembered with the approval.
    pub(crate) remembers: BTreeSet<(usize, QuestionNumber)>,
    /// The users' approvals for more than one call, by their own answers.
    pub(crate) standing: Vec<StandingFacts>,
    /// Approval requests of that kind whose approval has begun a run.
    pub(crate) remembered: BTreeSet<(usize, QuestionNumber)>,
    /// Attempts that were covered by one of these when they were granted, and the edition that the user saw.
    pub(crate) covered: BTreeMap<(EffectId, AttemptNumber), Edition>,
    /// The runs of approved requests.
    used: BTreeMap<(usize, QuestionNumber), Option<EffectId>>,
    /// The approval that each attempt has started with.
    ran_with: BTreeMap<(EffectId, AttemptNumber), Option<QuestionNumber>>,
    /// Effects that were reported as not happened, and the number of requests sent by then.
    told_not_done: Vec<(EffectId, usize)>,
    /// The values that sessions have set and that are to be in the log.
    pub(crate) set_values: Vec<SetValue>,
    /// The questions of services, by the state that names each.
    pub(crate) service_questions: BTreeMap<String, ServiceQuestion>,
    /// Attempts whose ends services have reported.
    called_back: BTreeSet<(EffectId, AttemptNumber)>,
}

impl Judge {
    pub(crate) fn of(conversations: usize) -> Self {
        Self {
            conversations: vec![ConversationFacts::default(); conversations],
            ..Self::default()
        }
    }

    /// A conversation is forgotten.
    pub(crate) fn forget(&mut self, conversation: usize) {
        self.approved.retain(|(of, _)| *of != conversation);
        self.remembers.retain(|(of, _)| *of != conversation);
        self.remembered.retain(|(of, _)| *of != conversation);
        self.standing
            .retain(|known| known.conversation != conversation);
        self.used.retain(|(of, _), _| *of != conversation);
        self.questions.retain(|(of, _), _| *of != conversation);
        self.clicks.retain(|click| !click.is_of(conversation));
        self.set_values
            .retain(|set| set.conversation != conversation);
    }
}

impl World {
    // ---- the outside

    /// A request has taken effect.
    pub(crate) fn judge_landing(&mut self, request: usize) {
        let new = self.outside.requests[request].clone();
        let (tool, meaning) = wanted(&new);
        let asked = self.intents.asked(new.conversation, tool, meaning);
        if asked == 0 {
            return self.broken(Rule::NothingUnasked, format!("nobody asked for {new:?}"));
        }
        if let Some(number) = new.question {
            self.runs_what_was_approved(&new, number);
        } else if new.demands_consent && !self.is_covered(&new) {
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
            // A user who approves a request wants it once more, even if the model only repeats its call.
            let is_approved = same.iter().all(|landed| landed.question.is_some());
            let questions: BTreeSet<_> = same.iter().filter_map(|landed| landed.question).collect();
            if is_approved && questions.len() == same.len() {
                return;
            }
            if same.len() > usize::try_from(asked).unwrap_or(usize::MAX) {
                let what = format!("{} commits for {asked} calls of {new:?}", same.len());
                self.broken(Rule::OneCommitPerIntent, what);
            }
            return;
        }
        for old in same {
            let is_itself = old.effect_id == new.effect_id && old.attempt == new.attempt;
            if is_itself || self.are_told_apart(&old, &new) {
                continue;
            }
            // The ledger does not know so old an effect any more.
            let apart_ms = new.began_us.abs_diff(old.began_us) / 1_000;
            if apart_ms >= self.surely(self.limits.effect_ms) {
                self.fault(Fault::RepeatedAfterRetention);
                continue;
            }
            self.fault_if(apart_ms > DAY_MS, Fault::RepeatedAfterDays);
            if !self.covers(&new, &old) && !self.covers(&old, &new) {
                let what = format!("{meaning:?}: {old:?} and {new:?}");
                return self.broken(Rule::OneCommitPerIntent, what);
            }
            self.report.counts.state(State::SecondCommitApproved);
        }
    }

    /// Two requests mean the same if they are of one tool and say the same; if other words are another effect, they have to come from
    /// one intent.
    fn meaning_of(&self, request: &OutsideRequest) -> (usize, String, String) {
        let by_intent = match request.tool == tools::MEMO {
            true => self.intents.of_words(&request.meaning),
            false => None,
        };
        let meaning = match by_intent {
            Some(intent) => format!("{intent:?}"),
            None => request.meaning.clone(),
        };
        (request.conversation, request.tool.clone(), meaning)
    }

    /// Whether two requests that mean the same may be two, because the spelling of one is only near to the other's.
    fn are_told_apart(&self, one: &OutsideRequest, other: &OutsideRequest) -> bool {
        let (earlier, later) = match one.began_us <= other.began_us {
            true => (one, other),
            false => (other, one),
        };
        earlier.tool == later.tool && self.intents.spellings.are_told_apart(earlier, later)
    }

    /// Whether the user who approved one request had been told of the other. For the parts of a trip: of the trip.
    fn covers(&self, approved: &OutsideRequest, earlier: &OutsideRequest) -> bool {
        let parents = approved.parent.as_ref().zip(earlier.parent.as_ref());
        let (question, earlier) = match parents {
            Some((new, old)) if new.effect_id == old.effect_id => return false,
            Some((new, old)) => (new.question, &old.effect_id),
            None => (approved.question, &earlier.effect_id),
        };
        question.is_some_and(|number| self.was_told(approved.conversation, number, earlier))
    }

    /// Whether an approval request named an effect, or named a repeat of it that the user had approved when the effect was named then.
    fn was_told(&self, conversation: usize, number: QuestionNumber, earlier: &EffectId) -> bool {
        let mut numbers = vec![number];
        while let Some(number) = numbers.pop() {
            let Some(question) = self.question_of(conversation, number) else {
                continue;
            };
            if question.hazards.names(earlier) {
                return true;
            }
            // A run that asked its user for input was approved before.
            let run = question.input.as_ref().and_then(|input| input.run.as_ref());
            let before = run.and_then(|run| self.judge.ran_with.get(run).copied().flatten());
            numbers.extend(before);
            for named in &question.hazards.earlier {
                let repeat = self.judge.questions_of.get(&named.effect_id);
                let before = repeat.into_iter().flatten().copied();
                // Only earlier approval requests, so that there is an end.
                numbers.extend(before.filter(|before| *before < number));
            }
        }
        false
    }

    /// Whether an earlier approval of the user's covers a request: the request was granted by it, for the place that the user saw.
    fn is_covered(&self, new: &OutsideRequest) -> bool {
        self.judge
            .covered
            .contains_key(&(new.effect_id.clone(), new.attempt))
    }

    fn runs_what_was_approved(&mut self, new: &OutsideRequest, number: QuestionNumber) {
        let place = (new.conversation, number);
        let question = self.question_of(new.conversation, number);
        let is_meant = question.is_some_and(|question| {
            let arguments = question.arguments.expose();
            let note = text_of(arguments, "note").unwrap_or_default();
            let meaning = self.intents.meaning_of(&new.tool, arguments);
            question.tool.as_str() == new.tool
                && meaning.as_ref() == Some(&new.meaning)
                && note == new.note
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
        let known = store.inner().question_of_number(of, number).ok().flatten();
        // The approval request may have been deleted since.
        let copy = || self.judge.questions.get(&(conversation, number));
        known.or_else(|| copy().map(|asked| asked.question.clone()))
    }

    pub(crate) fn any_store(&self) -> Arc<FaultyStore> {
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
        let ends = live.facts.calls.get(&call.call);
        if ends.is_some_and(|ends| ends.is_stopped) {
            return self.broken(Rule::NothingStartsAfterItsCancel, what);
        }
        let conversation = self.slots[live.slot].conversation;
        if let Some(given) = attempt.given.clone() {
            self.judge_given(conversation, attempt, &given, &what);
        }
        let question = match &attempt.run {
            Some(run) => {
                let place = (run.effect_id.clone(), run.attempt);
                self.judge.ran_with.insert(place.clone(), run.question);
                let is_first = self.judge.started.insert(place, self.now_us).is_none();
                if !is_first {
                    return self.broken(Rule::AnAttemptStartsOnce, what);
                }
                let turn = (live.slot, self.slots[live.slot].onsets);
                let spellings = &mut self.intents.spellings;
                spellings.note_known(
                    attempt.tool.id.as_str(),
                    &attempt.arguments,
                    turn,
                    self.now_us,
                );
                if let Some(number) = run.question {
                    let questions = &mut self.judge.questions_of;
                    let questions = questions.entry(run.effect_id.clone()).or_default();
                    questions.insert(number);
                }
                run.question
            }
            // A call that asks the user for input was approved when it began.
            None if attempt.given.is_some() => self.question_of_answer(attempt),
            None if tool.requires_confirmation && call.attempt == 1 => {
                let found = self.approved_for(conversation, attempt);
                if found.is_none() {
                    return self.broken(Rule::NothingWithoutConsent, what);
                }
                found
            }
            None => None,
        };
        // A nested call was asked for, and approved, with its parent.
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
            self.runs_the_code_that_was_asked_about(conversation, number, tool, &what);
            let effect_id = attempt.run.as_ref().map(|run| run.effect_id.clone());
            let used = self.judge.used.entry((conversation, number));
            let used = used.or_insert_with(|| effect_id.clone());
            if *used != effect_id {
                return self.broken(Rule::AnApprovalRunsOnce, what);
            }
        }
        if let Some(run) = &attempt.run {
            let covered = (run.effect_id.clone(), run.attempt);
            let seen = self.judge.covered.get(&covered).copied();
            if seen.is_some() && seen != Edition::of(tool) {
                return self.broken(Rule::AnApprovalBindsTheCode, what);
            }
        }
        let is_late = live.facts.tainted_after.is_some_and(|last| asked_as > last);
        let is_exempt = tool.is_exempt_from_external_content_rule();
        if is_late && tool.writes() && !is_exempt && attempt.run.is_some() && !is_approved {
            self.broken(Rule::NothingAfterExternalContent, what);
        }
    }

    /// An approval runs the code that it was asked about.
    fn runs_the_code_that_was_asked_about(
        &mut self,
        conversation: usize,
        number: QuestionNumber,
        tool: &tools::Tool,
        what: &str,
    ) {
        let asked = self.judge.questions.get(&(conversation, number));
        let asked = asked.map(|asked| asked.edition);
        let runs = Edition::of(tool);
        if asked.is_some() && asked != runs {
            let what = format!("{asked:?} was asked about, and {runs:?} runs: {what}");
            self.broken(Rule::AnApprovalBindsTheCode, what);
        }
    }

    /// An approval request about a call without effect that was approved, and has run nothing yet.
    fn approved_for(&self, conversation: usize, attempt: &Attempt) -> Option<QuestionNumber> {
        let approved = self.judge.approved.iter();
        let mut of_conversation = approved.filter(|(of, _)| *of == conversation);
        let found = of_conversation.find(|(_, number)| {
            let asked = self.judge.questions.get(&(conversation, *number));
            let is_of_it = asked.is_some_and(|asked| {
                let text = text_of(asked.question.arguments.expose(), "text");
                asked.question.tool == attempt.tool.id
                    && Some(asked.edition) == Edition::of(&attempt.tool)
                    && text.unwrap_or_default() == attempt.text("text")
            });
            is_of_it && !self.judge.used.contains_key(&(conversation, *number))
        });
        found.map(|(_, number)| *number)
    }

    // ---- sessions

    pub(crate) fn before_input(&mut self, _id: usize, live: &mut Live, input: &Input) {
        let facts = &mut live.facts;
        match input {
            Input::Connection(ConnectionEvent::Connected { .. })
            | Input::Request(RequestEvent::Sent { .. }) => facts.is_unbroken = true,
            Input::Client(_)
            | Input::Request(_)
            | Input::Shutdown
            | Input::Connection(_)
            | Input::Model(
                ModelEvent::CallsCancelled(_)
                | ModelEvent::Interrupted
                | ModelEvent::SpeechStarted
                | ModelEvent::InputTranscript { .. },
            ) => {
                facts.is_unbroken = false;
                facts.unbroken.clear();
            }
            Input::Model(ModelEvent::Calls(calls)) if facts.is_unbroken => {
                let ids = calls.iter().filter_map(|call| call.id.clone());
                facts.unbroken.extend(ids);
            }
            _ => {}
        }
        match input {
            Input::Answered { .. } if !live.session.is_over() => {
                live.facts.clicks += 1;
                // A call about which the user was asked may run now, even if it was stopped before.
                let calls = live.facts.calls.values_mut();
                for asked in calls.filter(|call| call.asked > 0) {
                    asked.is_stopped = false;
                }
            }
            // A failed call may be tried again, or asked for again, and ends once more.
            Input::News(news) => {
                let has_failed = |news: &&News| match news {
                    News::Effect(effect) => {
                        effect.state == EffectState::NotDone
                            && effect.newest_attempt().question.is_some()
                    }
                    News::Question(_)
                    | News::Asked(_)
                    | News::TicketReply(_)
                    | News::State { .. }
                    | News::CancelRequested(_)
                    | News::Standing(_) => false,
                };
                live.facts.failed_approvals += news.iter().filter(has_failed).count();
            }
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
                // In text mode each turn may restart its ids.
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
            Output::Request { request, .. } => {
                let turn = (live.slot, self.slots[live.slot].onsets);
                let spellings = &mut self.intents.spellings;
                spellings.note_request(&request.effect_id, turn, self.now_us);
            }
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
            let is_by_text = live.session.config().mode == Mode::Text;
            let places = live.facts.places.iter_mut().rev();
            // In text mode each request to a model holds all its earlier calls.
            let mut places = places.filter(|((generation, id), _)| {
                *id == call && (is_by_text || *generation == live.generation)
            });
            let place = places.next().map(|(_, place)| place);
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
                let what = format!("life {id} answers {call} once more: {place:?}");
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
            self.is_no_end_of_what_happened(live, answer);
            let turn = (live.slot, self.slots[live.slot].onsets);
            // Other refusals are the session's own.
            let is_of_ledger = match &answer.projection.body {
                ProjectionBody::Success { .. } => true,
                ProjectionBody::Failure { error_type, .. } => matches!(
                    error_type,
                    ErrorType::ConfirmationRequired
                        | ErrorType::ConfirmationDeclined
                        | ErrorType::OutcomeUnknown
                ),
            };
            let past = self.slots[live.slot].past.iter_mut();
            for call in past.filter(|past| past.id.is_some() && past.id == answer.id) {
                call.is_answered = true;
                self.intents.answered(call.intent);
                if is_of_ledger {
                    let spellings = &mut self.intents.spellings;
                    spellings.note_known(&call.name, &call.arguments, turn, self.now_us);
                }
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

    /// A call that was not taken back must not be reported as taken back if its effect has happened.
    fn is_no_end_of_what_happened(&mut self, live: &Live, answer: &ModelToolResponse) {
        let ProjectionBody::Failure { error_type, .. } = &answer.projection.body else {
            return;
        };
        let id = answer.id.clone();
        let id = id.filter(|id| live.facts.unbroken.contains(id));
        if *error_type != ErrorType::Cancelled || id.is_none() {
            return;
        }
        let conversation = self.slots[live.slot].conversation;
        let mut past = self.slots[live.slot].past.iter().rev();
        let Some(past) = past.find(|past| past.id == id) else {
            return;
        };
        let wanted = self.intents.get(past.intent);
        let has_happened = self.outside.landed().any(|(landed, _)| {
            let is_meant = landed.tool == *wanted.tool && landed.meaning == wanted.text;
            landed.conversation == conversation && is_meant
        });
        let runs = live.running.values().any(|attempt| {
            let arguments = attempt.arguments.to_value().to_string();
            let meaning = self
                .intents
                .meaning_of(attempt.tool.id.as_str(), &arguments);
            let is_meant = attempt.tool.id.as_str() == &*wanted.tool;
            is_meant && attempt.run.is_some() && meaning.as_ref() == Some(&wanted.text)
        });
        if has_happened || runs {
            let what = format!("{past:?} is told {answer:?}");
            self.broken(Rule::AnAskerHearsTheEnd, what);
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
                self.the_told_is_true(id, live.process, record);
                self.ends(id, live, record);
            }
            SessionEvent::CallSettled(record) => {
                counts.state(State::AcceptedSettled);
                self.the_told_is_true(id, live.process, record);
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
            SessionEvent::CancelRequested { call, outcome, .. } => {
                counts.state(match outcome {
                    CancelOutcome::RunsOn => State::RunsOnForUser,
                    CancelOutcome::Stopped
                    | CancelOutcome::AlreadyCancelled
                    | CancelOutcome::Ended
                    | CancelOutcome::Unknown => State::StoppedByUser,
                });
                live.facts.calls.entry(*call).or_default().is_stopped = true;
            }
            SessionEvent::CallDeduplicated { call, .. } => {
                counts.state(State::Deduplicated);
                live.facts.calls.entry(*call).or_default().deduplicated += 1;
            }
            SessionEvent::ConfirmationResolved {
                call: Some(call),
                resolution: Resolution::Withdrawn,
            } => self.ends_for_client(id, *call),
            SessionEvent::ConfirmationRequested { call, .. } => {
                live.facts.calls.entry(*call).or_default().asked += 1;
            }
            SessionEvent::CallReturnedLate { .. } => counts.state(State::ReturnedLate),
            SessionEvent::IntentApplied { intent, .. } => {
                counts.state(State::IntentApplied);
                counts.states(State::ValueSet, intent.is_of_conversation().into());
                self.note_set(live, event);
            }
            SessionEvent::IntentRejected { .. } => counts.state(State::IntentRejected),
            _ => {}
        }
    }

    fn ends(&mut self, id: usize, live: &mut Live, record: &CallRecord) {
        let ends = live.facts.calls.entry(record.call()).or_default();
        ends.ends += 1;
        // A call that is refused at once has no request event. An approval request without a result ends its call once more.
        if ends.ends > 1 + ends.answers + ends.asked {
            let what = format!("life {id} ends {} once more: {ends:?}", record.call());
            self.broken(Rule::OneResponsePerCall, what);
        }
    }

    /// A call has ended, and the fate of its effect is reported.
    fn the_told_is_true(&mut self, id: usize, process: usize, record: &CallRecord) {
        let Some(effect_id) = record.effect_id.clone() else {
            return;
        };
        if &**record.tool_name() == tools::CRAWL {
            return;
        }
        let has_happened = match record.response.expose().meta.accepted_until {
            // A service has it, or a handler whose end is not waited for. A process that was stopped may report what it was granted
            // before it reads that another process has given that up.
            Some(_) => {
                let woke_us = self.processes[process].woke_us;
                let has_just_woken = woke_us.is_some_and(|at_us| self.now_us < at_us + WAKING_US);
                // So may a process that reads its grant late.
                let late = self.judge.unacknowledged.iter();
                let mut late = late.chain(&self.judge.disturbances);
                let is_late = late.any(|at_us| self.now_us < at_us + LATE_US);
                self.outside.is_accepted(&effect_id, None)
                    || self.is_begun(&effect_id)
                    || has_just_woken
                    || is_late
            }
            None => self.outside.has_happened(&effect_id),
        };
        match record.error_type() {
            Some(ErrorType::OutcomeUnknown) => self.is_told_in_doubt(id, &effect_id),
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

    /// The ledger has taken the end of an effect from a service.
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

    /// The ledger has not taken the end of an effect from a service. A success is always taken, and every end as long as the service was
    /// given.
    pub(crate) fn judge_too_late(&mut self, call: &ServiceCall, effect: &Effect) {
        if effect.state == EffectState::Done {
            return;
        }
        let request = &self.outside.requests[call.request];
        let attempt = (request.effect_id.clone(), request.attempt);
        let is_newest = effect.newest_attempt().number == request.attempt;
        // The same message has come before, and its acknowledgement was lost.
        let has_failed = effect.newest_attempt().outcome == Some(AttemptOutcome::Failed);
        let is_told =
            self.judge.called_back.contains(&attempt) || (call.result.is_err() && has_failed);
        let of = request.conversation;
        let promised = self.judge.promised.get(&attempt);
        let is_in_time = promised
            .is_some_and(|until_unix_ms| self.conversation_time(of) + PROMISE_MS < *until_unix_ms);
        if is_newest && !is_told && (call.result.is_ok() || is_in_time) {
            let what = format!("{call:?} comes too late for {effect:?}");
            self.broken(Rule::APromiseHolds, what);
        }
    }

    fn hears_one_end(&mut self, id: usize, live: &mut Live, record: &CallRecord) {
        let is_in_doubt = record.error_type() == Some(ErrorType::OutcomeUnknown);
        // A request that is approved again attaches to the next attempt, and hears of that one too.
        let attempt = record.effect_id.as_ref().and_then(|id| {
            let tenant = &self.conversations[0].tenant;
            let found = self.any_store().inner().effect(tenant, id);
            found.ok().flatten()
        });
        let attempt = attempt.map(|(_, effect)| effect.newest_attempt().number);
        let of = (record.call(), attempt);
        let before = live.facts.settled.insert(of, is_in_doubt);
        // After a task was given up, its end may still become known.
        if before == Some(false) {
            let what = format!("life {id} hears of {record:?} once more");
            self.broken(Rule::AServiceTellsOneEnd, what);
        }
    }

    /// An effect that has happened may not be reported as not happened, except for as long as a lookup takes.
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

    /// A request for the effect that has taken effect and meets the condition.
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
        let results_max = facts.clicks + facts.shown + facts.began_with + facts.failed_approvals;
        if facts.results < facts.clicks || facts.results > results_max {
            let what = format!(
                "life {id}: {} clicks, {} results, {} questions, {} failed approvals, and {} that it began with",
                facts.clicks, facts.results, facts.shown, facts.failed_approvals, facts.began_with
            );
            self.broken(Rule::EachClickIsAnswered, what);
        }
        if live.session.next_deadline().is_some() {
            let what = format!("life {id} is over, and waits for something");
            self.broken(Rule::NothingAfterTheEnd, what);
        }
    }

    /// Whether the ledger has it as running, or as done or in doubt since: a lease may end before its run is known here.
    fn is_begun(&self, effect_id: &EffectId) -> bool {
        let tenant = &self.conversations[0].tenant;
        let found = self.any_store().inner().effect(tenant, effect_id);
        matches!(found, Ok(Some((_, effect))) if effect.state != EffectState::NotDone)
    }

    /// An effect that was begun within its retention is in the ledger.
    pub(crate) fn nothing_is_forgotten_early(&mut self) {
        let store = self.any_store();
        let tenant = self.conversations[0].tenant.clone();
        let started = self.judge.started.iter();
        let lost = started.filter(|((effect_id, _), started_us)| {
            let found = store.inner().effect(&tenant, effect_id);
            !self.may_be_forgotten(**started_us) && matches!(found, Ok(None))
        });
        let lost = lost.map(|(lost, _)| lost.clone()).next();
        if let Some(lost) = lost {
            self.broken(
                Rule::NothingIsForgottenEarly,
                format!("{lost:?} is forgotten"),
            );
        }
    }

    // ---- the end of the world

    /// The ledger's word is true: a success has happened, and an effect reported as not happened has not, unless it came after the end
    /// of every wait.
    pub(crate) fn judge_ledger(&mut self) {
        let store = self.any_store();
        let mut effects: BTreeMap<EffectId, u64> = BTreeMap::new();
        for ((effect_id, _), started_us) in &self.judge.started {
            effects.insert(effect_id.clone(), *started_us);
        }
        for (effect_id, started_us) in effects {
            let tenant = &self.conversations[0].tenant;
            let Ok(Some((_, effect))) = store.inner().effect(tenant, &effect_id) else {
                if self.may_be_forgotten(started_us) {
                    continue;
                }
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
            if effect.state == EffectState::Unknown {
                self.is_in_doubt(&effect);
            }
            if effect.tool.as_str() == tools::CRAWL {
                continue;
            }
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

/// The tool and the meaning that a model has to have asked for. For a part of a trip, that is the trip.
fn wanted(request: &OutsideRequest) -> (&str, &str) {
    match (request.tool.as_str(), request.meaning.split_once('/')) {
        (tools::STAGE, Some((text, _))) => (tools::TRIP, text),
        (tool, _) => (tool, &request.meaning),
    }
}

/// An argument that is text.
fn text_of(arguments: &str, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    Some(arguments.get(name)?.as_str()?.to_owned())
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
