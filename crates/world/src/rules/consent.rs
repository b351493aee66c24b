//! Consent: what needs it has a grant of its own that was given, had not run out, and is used once.

use crate::count::Fault;
use crate::rules::Rule;
use crate::tools::EXTERNAL;
use crate::world::{Refusal, World};
use windlass_session::io::{AdmittedCall, ReserveRequest, TokenHash};
use windlass_session::model::ModelCommand;
use windlass_session::session::Session;
use windlass_store::{GrantState, Store};
use windlass_tool::envelope::{ProjectionBody, ToolResponse};
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId};

impl World {
    /// Nobody may approve any more with this token: not after a crash either, where the store has heard of it.
    pub(crate) fn note_refusal(
        &mut self,
        token_hash: &TokenHash,
        problem: &'static str,
        is_stored: bool,
    ) {
        if let Some(question) = self.questions.get_mut(token_hash) {
            question.refusal = Some(Refusal { problem, is_stored });
        }
    }

    /// A process is dead, and with it what it alone knew.
    pub(crate) fn forget_refusals(&mut self, home: usize) {
        let questions = self.questions.values_mut();
        for question in questions.filter(|question| question.lane == home) {
            question.refusal = question.refusal.filter(|refusal| refusal.is_stored);
        }
    }

    /// The user answers a question that this session has asked: the first answer counts.
    pub(crate) fn note_answer(&mut self, index: usize, token_hash: &TokenHash, approved: bool) {
        let (now_us, now_unix_ms) = (self.now_us, self.unix_ms());
        let watch = &self.lanes[index].watch;
        let is_heard = watch.asked.contains(token_hash) && !watch.is_draining;
        let Some(question) = self.questions.get_mut(token_hash) else {
            return;
        };
        // Only the user who was asked can approve, and nobody approves what has run out.
        let is_own = question.lane == index;
        let is_valid = now_unix_ms < question.expires_at_unix_ms;
        // A session goes by the time that has passed, so that a yes counts which the store hears of once the clock is back.
        let counts = is_valid || now_us < question.valid_until_us;
        if is_own && counts && approved {
            question.is_approved |= question.refusal.is_none();
        } else if is_own && is_valid && is_heard && !question.is_approved {
            question.refusal.get_or_insert(Refusal {
                problem: "the user had declined it",
                is_stored: false,
            });
        }
        if is_own && !is_valid {
            self.fault(Fault::ConfirmedLate);
        }
    }

    /// The client answers a question, and is to be told what comes of that.
    pub(crate) fn note_click(&mut self, index: usize, token_hash: &TokenHash) {
        let lane = &mut self.lanes[index];
        if lane.watch.is_draining {
            return;
        }
        let session = lane.session.as_ref();
        let call = session.and_then(|session| session.call_of_question(token_hash));
        lane.watch.answers.entry(call).or_default().0 += 1;
    }

    /// Nobody who has answered waits for ever. Of one that is for a question of another session it shows later which.
    pub(crate) fn each_answer_is_answered(&mut self, index: usize) {
        let answers = &self.lanes[index].watch.answers;
        let (given, told) = answers
            .values()
            .fold((0, 0), |(given, told), one| (given + one.0, told + one.1));
        let lacks = |(call, (given, told)): &(&Option<CallNumber>, &(usize, usize))| {
            call.is_some() && told < given
        };
        let lacking = answers.iter().find(lacks).map(|(call, _)| *call);
        if lacking.is_some() || told < given {
            let what = format!("{given} answers were given, and {told} told; {lacking:?}");
            self.broken(Rule::EachAnswerIsAnswered, what);
        }
    }

    /// The store has let a reservation pass: if it used a grant, that was a good one.
    pub(crate) fn its_own_unexpired_grant_used_once(
        &mut self,
        index: usize,
        request: &ReserveRequest,
        effect_id: &EffectId,
    ) {
        let Some(grant) = request.grant else {
            return;
        };
        let now_unix_ms = self.unix_ms();
        let home = self.lanes[index].home;
        let problem = match self.questions.get_mut(&grant) {
            None => Some("nobody was asked"),
            Some(question) => {
                let problem = [
                    (question.is_used, "its grant was used before"),
                    (question.is_replaced, "its token was replaced"),
                    (!question.is_approved, "the user did not approve it"),
                    (
                        question.refusal.is_some(),
                        question.refusal.map_or("", |refusal| refusal.problem),
                    ),
                    (
                        now_unix_ms >= question.expires_at_unix_ms,
                        "its grant had run out",
                    ),
                    (question.lane != home, "its grant is somebody else's"),
                    (
                        question.fingerprint != request.fingerprint,
                        "its grant is for something else",
                    ),
                    (
                        question.effect_id != *effect_id,
                        "its grant is for another effect",
                    ),
                ]
                .into_iter()
                .find(|(is_broken, _)| *is_broken)
                .map(|(_, problem)| problem);
                question.is_used = true;
                problem
            }
        };
        if let Some(problem) = problem {
            let what = format!("{} was reserved, and {problem}", request.call);
            self.broken(Rule::ItsOwnUnexpiredGrantUsedOnce, what);
        }
    }

    /// A call that needs the user's word has it, and runs with the arguments that were shown.
    pub(crate) fn no_start_without_needed_consent(&mut self, index: usize, call: &AdmittedCall) {
        let rule = Rule::NoStartWithoutNeededConsent;
        let number = call.call().call;
        let facts = self.lanes[index].call(number).clone();
        let is_external = facts.after_external && call.tool().writes();
        let grant = facts.reservation.and_then(|reservation| reservation.grant);
        let Some(grant) = grant else {
            if call.tool().requires_confirmation || is_external {
                self.broken(rule, format!("{number} runs without consent"));
            }
            return;
        };
        let arguments = call.arguments().to_value().to_string();
        let shown = self.questions.get(&grant).map(|entry| &entry.arguments);
        if shown != Some(&arguments) {
            self.broken(rule, format!("{number} runs with {arguments}"));
        }
    }

    /// The user says no to a question of this session's.
    pub(crate) fn note_no(&mut self, index: usize, call: CallNumber) {
        let lane = &mut self.lanes[index];
        let said = (lane.inputs, lane.watch.last_turn);
        // What was typed before and waits for its connection counts when it is sent.
        let held = lane.session.as_ref().map(Session::held);
        if held.is_some_and(|held| held.waiting_texts > 0) {
            return;
        }
        if let Some(fingerprint) = lane.watch.asked_about.get(&call) {
            lane.watch.declined.insert(*fingerprint, said);
        }
    }

    /// Whoever says no and hears that it counts is asked no more, whatever process comes next.
    pub(crate) fn a_no_is_told_when_it_is_stored(
        &mut self,
        index: usize,
        call: Option<CallNumber>,
        response: &ToolResponse,
    ) {
        let says_no = response.error_type() == Some(ErrorType::ConfirmationDeclined);
        if !says_no || response.meta.recorded == Some(false) {
            return;
        }
        let now_unix_ms = self.unix_ms();
        let session = self.lanes[index].session.as_ref();
        let questions = session.into_iter().flat_map(Session::questions);
        // Those that were put under a new token, too.
        let proposed = self.lanes[index].watch.proposed.iter().copied();
        let tokens = questions.chain(proposed);
        let mut tokens = tokens.filter(|(asked, _)| Some(*asked) == call);
        let store: &dyn Store = &self.store;
        let is_open = |token: &TokenHash| {
            let grant = store.ask(|transaction| transaction.grant(token));
            grant.ok().flatten().is_some_and(|grant| {
                grant.state == GrantState::Open && now_unix_ms < grant.expires_at_unix_ms
            })
        };
        let is_one_open = tokens.any(|(_, token)| is_open(&token));
        drop(tokens);
        if is_one_open {
            let what = format!("the store does not know of the no to {call:?}");
            self.broken(Rule::ANoIsToldWhenItIsStored, what);
        }
    }

    /// What the user has declined is neither to begin without them nor put to them again, before they have said anything more.
    pub(crate) fn a_no_holds(&mut self, index: usize, call: CallNumber, fingerprint: [u8; 32]) {
        let lane = &self.lanes[index];
        let said = (lane.inputs, lane.watch.last_turn);
        if lane.watch.declined.get(&fingerprint) == Some(&said) {
            let what = format!("{call} is about what the user has just declined");
            self.broken(Rule::ANoHolds, what);
        }
    }

    /// What one session's model has read may be in the context of every session of the conversation.
    pub(crate) fn no_start_after_anothers_reading(&mut self, index: usize, call: &AdmittedCall) {
        let number = call.call().call;
        let reservation = self.lanes[index].call(number).reservation.as_ref();
        let is_after = reservation.is_some_and(|reservation| {
            reservation.grant.is_none() && reservation.is_after_anothers_reading
        });
        if is_after && call.tool().writes() {
            let what = format!("{number} runs without consent, and another session had read");
            self.broken(Rule::NoStartAfterAnothersReading, what);
        }
    }

    /// Whether a model has read what others wrote in another session of the conversation.
    pub(crate) fn another_has_read(&self, index: usize) -> bool {
        let lane = &self.lanes[index];
        let mut readers = self.readers.iter();
        readers.any(|(home, number)| *home == lane.home && *number != lane.number)
    }

    /// Notes that the model has read what others wrote.
    pub(crate) fn note_external(&mut self, index: usize, command: &ModelCommand) {
        let (ModelCommand::ToolResponses(answers) | ModelCommand::LateResults(answers)) = command
        else {
            return;
        };
        let reads = answers.iter().any(|answer| {
            &*answer.name == EXTERNAL
                && matches!(answer.projection.body, ProjectionBody::Success { .. })
        });
        if reads {
            let lane = &mut self.lanes[index];
            lane.watch.external_in_context = true;
            self.readers.insert((lane.home, lane.number));
        }
    }
}
