//! The driver of this world: obeys what the core says, with a store that may be down, slow, silent or full. Mints ids and
//! tokens; decides nothing.

use crate::agenda::Due;
use crate::count::{Fault, State};
use crate::lane::Reservation;
use crate::world::{Question, StoreMood, World};
use std::sync::Arc;
use std::time::Duration;
use windlass_session::client::{ClientUpdate, ConfirmationQuestion};
use windlass_session::event::EndReason;
use windlass_session::io::{
    Begun, ConfirmationRequest, EffectLookup, Input, LOOKUP_ATTEMPT, OutcomeRecord, Output,
    Proposed, RateCharge, RateDecision, Remembered, ReservationError, ReservationRefusal,
    ReserveRequest, Spared, TokenHash,
};
use windlass_session::model::LostReason;
use windlass_store::{
    Decline, GrantRefusal, Proposal, Renewal, Reserve, ReserveRefusal, Reserved, Store,
    StoreUnavailable, Transaction,
};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallRef, EffectId};
use windlass_tool::sensitive::Sensitive;

impl World {
    pub(crate) fn obey(&mut self, index: usize, output: Output) {
        match output {
            Output::ReadLedger => self.read_ledger(index),
            Output::RequestConfirmation(request) => self.propose(index, *request),
            Output::DeclineConfirmation { token_hash } => {
                let answer = Decline {
                    token_hash,
                    conversation_id: self.lanes[index].conversation.clone(),
                    user_id: self.lanes[index].user.clone(),
                };
                self.record_again();
                let stored = self.decline(self.lanes[index].home, answer);
                self.answer_of_store(index, Input::Declined { token_hash, stored });
            }
            Output::WithdrawConfirmation { token_hash } => {
                self.withdraw(self.lanes[index].home, token_hash);
            }
            Output::NoteReading => self.note_reading(index),
            Output::Reserve(request) => self.reserve(index, *request),
            Output::RecordOutcome(record) => self.record(index, record),
            Output::MarkAnswered { effect_id } => {
                self.tell_store(|transaction| transaction.mark_answered(&effect_id).map(drop));
            }
            Output::Lookup(lookup) => self.look_up(index, &lookup),
            Output::AwaitEffect { call, effect_id } => {
                self.report.counts.state(State::AwaitedElsewhere);
                let session = self.lanes[index].number;
                self.awaited.push((index, session, call, effect_id));
            }
            Output::FindApproval { token_hash } => self.find_approval(index, token_hash),
            Output::CheckRate { call, charge, .. } => {
                let is_spent = !self.is_calm && self.random.one_in(4);
                if is_spent && charge == RateCharge::Charge {
                    self.fault(Fault::LimitSpent);
                }
                let decision = match is_spent {
                    true => RateDecision::Refused {
                        retry_after: Duration::from_secs(9),
                    },
                    false => RateDecision::Allowed,
                };
                self.answer(index, 0, Input::RateChecked { call, decision });
            }
            Output::StartCall(call) => self.start(index, &call),
            Output::AbortCall { call, drop } => self.abort(index, call, drop),
            Output::SendClient(ClientUpdate::ConfirmationRequest(question)) => {
                self.hand_over_token(index, &question);
            }
            Output::Connect {
                generation, handle, ..
            } => self.open_connection(index, generation, handle.is_some()),
            Output::Close(reason) => self.close(index, &reason),
            Output::SendClient(ClientUpdate::ConfirmationResult { call, response }) => {
                self.a_no_is_told_when_it_is_stored(index, call, response.expose());
            }
            Output::SendModel(_)
            | Output::SendClient(_)
            | Output::DiscardAudio
            | Output::AcceptAudio
            | Output::SuppressAudio(_)
            | Output::HoldMicrophone(_)
            | Output::Event(_) => {}
        }
    }

    fn abort(&mut self, index: usize, call: CallRef, drop: bool) {
        let lane = &mut self.lanes[index];
        if call.attempt == LOOKUP_ATTEMPT {
            lane.lookups.remove(&call.call);
        } else if drop {
            lane.running.remove(&(lane.number, call));
        }
    }

    /// The driver of a session that is over lets go of everything but of what runs.
    fn close(&mut self, index: usize, reason: &EndReason) {
        let lane = &mut self.lanes[index];
        lane.ended = lane.text_ended();
        // A session that ends with its server may go on with the next one.
        if *reason != EndReason::Shutdown {
            lane.saved = None;
        }
        lane.watch.is_closed = true;
        lane.running.retain(|_, run| run.writes);
        lane.disclaim();
        // Attempts that cannot be taken from their threads run on; the others are dropped.
        for run in lane.running.values_mut().filter(|run| !run.will_request) {
            run.claim = None;
        }
    }

    /// The client is asked, and learns the token with which it can answer.
    fn hand_over_token(&mut self, index: usize, question: &ConfirmationQuestion) {
        let lane = &mut self.lanes[index];
        let newest = lane
            .minted
            .iter()
            .rfind(|(call, _)| *call == question.call)
            .map(|(_, token)| *token);
        if let Some(token) = newest {
            lane.tokens.push(token);
            lane.watch.asked.insert(token);
            if let Some(entry) = self.questions.get_mut(&token) {
                entry.is_warned = question.warning.is_some();
            }
        }
    }

    /// Leaves the old connection, and asks the provider for a new one.
    fn open_connection(&mut self, index: usize, generation: u64, resumes: bool) {
        if self.lanes[index].runs_calls() {
            self.fault(Fault::RotatedUnderCalls);
        }
        self.a_refused_handle_is_thrown_away(index, resumes);
        self.connections_are_bounded(index);
        if !self.is_calm && self.lanes[index].sent_away == 0 && self.random.one_in(12) {
            self.lanes[index].sent_away = 4 + self.random.below(12);
        }
        let outcome = match self.random.below(6) {
            0 | 1 if !self.is_calm => {
                if resumes {
                    self.fault(Fault::ResumeRefused);
                }
                Err(match self.random.below(5) {
                    0 => LostReason::Refused { status: 503 },
                    1 => LostReason::SetupTimeout,
                    2 => LostReason::Network {
                        problem: "unreachable".to_owned(),
                    },
                    3 => {
                        self.fault(Fault::ConnectionDropped);
                        LostReason::Dropped {
                            problem: "cut".to_owned(),
                        }
                    }
                    _ => LostReason::Closed {
                        code: 1008,
                        reason: "refused".to_owned(),
                    },
                })
            }
            _ => Ok(resumes),
        };
        let lane = &mut self.lanes[index];
        lane.is_connected = false;
        lane.opening = generation;
        let due = Due::Connect {
            lane: index,
            session: lane.number,
            generation,
            outcome,
        };
        let after_us = self.random.below(800) * 1_000;
        self.agenda.enter(self.now_us + after_us, due);
    }

    /// Gives the session an answer of the driver's, after a while.
    pub(crate) fn answer(&mut self, index: usize, after_us: u64, input: Input) {
        let session = self.lanes[index].number;
        let due = Due::Feed {
            lane: index,
            session,
            input,
        };
        self.agenda.enter(self.now_us + after_us, due);
    }

    /// One transaction, unless the store refuses to work.
    pub(crate) fn ask_store<T>(
        &mut self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
    ) -> Result<T, ReservationError> {
        match self.mood {
            StoreMood::Up | StoreMood::Slow | StoreMood::Silent => {
                let store: &dyn Store = &self.store;
                store.ask(request).map_err(|error| ReservationError {
                    problem: error.to_string(),
                })
            }
            StoreMood::Down => self.refused_by_store(Fault::StoreDown),
            StoreMood::Full => self.refused_by_store(Fault::StoreFull),
        }
    }

    fn refused_by_store<T>(&mut self, fault: Fault) -> Result<T, ReservationError> {
        self.fault(fault);
        Err(ReservationError {
            problem: format!("the store is {:?}", self.mood),
        })
    }

    /// Tells the store what nobody waits for; one that does not work never learns it.
    pub(crate) fn tell_store(
        &mut self,
        request: impl FnMut(&mut dyn Transaction) -> Result<(), StoreUnavailable>,
    ) -> bool {
        let told = self.ask_store(request);
        if let Err(error) = &told {
            self.trace(|| error.to_string());
        }
        told.is_ok()
    }

    /// Gives the session the store's answer when the store has got round to it; false where it never hears of it.
    pub(crate) fn answer_of_store(&mut self, index: usize, input: Input) -> bool {
        let after_us = match self.mood {
            StoreMood::Up | StoreMood::Down | StoreMood::Full => self.random.below(3) * 1_000,
            StoreMood::Slow => {
                self.fault(Fault::StoreSlow);
                self.random.below(6_000) * 1_000
            }
            StoreMood::Silent => {
                self.fault(Fault::StoreSilent);
                if self.random.one_in(2) {
                    return false;
                }
                20_000_000
            }
        };
        // It answers in the order in which it is asked.
        let lane = &mut self.lanes[index];
        let at_us = (self.now_us + after_us).max(lane.answers_until_us);
        lane.answers_until_us = at_us;
        self.answer(index, at_us - self.now_us, input);
        true
    }

    fn mint_token(&mut self) -> TokenHash {
        self.last_id += 1;
        let mut token = [7; 32];
        token[..8].copy_from_slice(&self.last_id.to_le_bytes());
        token
    }

    fn read_ledger(&mut self, index: usize) {
        self.record_again();
        let conversation = self.lanes[index].conversation.clone();
        let now_unix_ms = self.unix_ms();
        let found = self.ask_store(|transaction| {
            let effects = transaction.effects_of(&conversation, 0)?;
            Ok((effects, transaction.has_read(&conversation, now_unix_ms)?))
        });
        let remembered = found.map(|(effects, has_read)| Remembered {
            effects: self.ledger_of(effects),
            has_read,
        });
        if remembered
            .as_ref()
            .is_ok_and(|remembered| remembered.has_read)
        {
            self.report.counts.state(State::BeganAfterReading);
        }
        self.answer_of_store(index, Input::Ledger(remembered));
    }

    fn propose(&mut self, index: usize, request: ConfirmationRequest) {
        let token_hash = self.mint_token();
        let effect_id = match &request.effect_id {
            Some(effect_id) => effect_id.clone(),
            None => EffectId::new(self.mint("effect")),
        };
        let now_unix_ms = self.unix_ms();
        let expires_at_unix_ms = now_unix_ms + request.valid_for.as_secs() * 1_000;
        let arguments = request.arguments.expose().to_value();
        let lane = &mut self.lanes[index];
        let proposal = Proposal {
            token_hash,
            effect_id: effect_id.clone(),
            conversation_id: lane.conversation.clone(),
            user_id: lane.user.clone(),
            tool: request.tool.clone(),
            tool_version: request.tool_version.to_string(),
            fingerprint: request.fingerprint,
            arguments: Sensitive(arguments.to_string()),
            preview: request.preview.clone(),
            says_unknown: request.says_unknown,
            expires_at_unix_ms,
            now_unix_ms,
        };
        lane.minted.push((request.call, token_hash));
        let replaces = request.replaces;
        let stored = self.ask_store(|transaction| match replaces {
            Some(old) => transaction
                .renew(&Renewal {
                    token_hash: old,
                    new_token_hash: token_hash,
                    expires_at_unix_ms,
                    now_unix_ms,
                })
                .map(|renewed| match renewed {
                    Some(renewed) => windlass_store::Proposed::Stored(renewed.effect_id),
                    None => windlass_store::Proposed::TooMany,
                }),
            None => transaction.propose(&proposal),
        });
        let is_stored = matches!(stored, Ok(windlass_store::Proposed::Stored(_)));
        if let (true, Some(old)) = (is_stored, replaces)
            && let Some(old) = self.questions.get_mut(&old)
        {
            old.is_replaced = true;
        }
        let outcome = stored.map_err(ReservationRefusal::Unavailable);
        let outcome = outcome.and_then(asked).map(|effect_id| Proposed {
            effect_id,
            token_hash,
            expires_at_unix_ms,
        });
        let put = outcome.as_ref().map(|put| put.effect_id.clone());
        let question = self.question(index, &request, put.unwrap_or(effect_id));
        self.questions.insert(token_hash, question);
        self.answer_of_store(
            index,
            Input::Proposed {
                call: request.call,
                outcome,
            },
        );
    }

    fn question(
        &self,
        index: usize,
        request: &ConfirmationRequest,
        effect_id: EffectId,
    ) -> Question {
        Question {
            lane: self.lanes[index].home,
            effect_id,
            fingerprint: request.fingerprint,
            arguments: request.arguments.expose().to_value().to_string(),
            expires_at_unix_ms: self.unix_ms() + request.valid_for.as_secs() * 1_000,
            asked_us: self.now_us,
            valid_until_us: self.now_us + request.valid_for.as_secs() * 1_000_000,
            is_warned: false,
            is_approved: false,
            is_used: false,
            is_replaced: false,
            is_left_behind: false,
            refusal: None,
        }
    }

    fn reserve(&mut self, index: usize, request: ReserveRequest) {
        let effect_id = match &request.effect_id {
            Some(effect_id) => effect_id.clone(),
            None => EffectId::new(self.mint("effect")),
        };
        let lane = &self.lanes[index];
        let call = request.call;
        let Some(claim) = self.under_way.claim(&effect_id, &lane.session_id()) else {
            let outcome = Err(ReservationRefusal::Open(effect_id));
            let refused = windlass_session::io::Reservation { call, outcome };
            return self.answer(index, 0, Input::Reserved(refused));
        };
        let reserve = Reserve {
            effect_id: effect_id.clone(),
            conversation_id: lane.conversation.clone(),
            user_id: lane.user.clone(),
            tool: request.tool.clone(),
            tool_version: request.tool_version.to_string(),
            fingerprint: request.fingerprint,
            grant: request.grant,
            read_by_none_but: request.minds_reading.then(|| lane.session_id()),
            intent: Sensitive(serde_json::to_string(&request.wish).unwrap_or_default()),
            now_unix_ms: self.unix_ms(),
        };
        self.record_again();
        self.lanes[index].tell_others();
        let outcome = match self.ask_store(|transaction| transaction.reserve(&reserve)) {
            Err(error) => Err(ReservationRefusal::Unavailable(error)),
            Ok(Reserved::Refused(refusal)) => {
                if refusal == ReserveRefusal::Read {
                    self.report.counts.state(State::ReadElsewhere);
                }
                Err(self.refusal(refusal))
            }
            Ok(reserved @ (Reserved::Reserved | Reserved::ReservedAgain)) => {
                let is_after_anothers_reading = self.another_has_read(index);
                let lane = &mut self.lanes[index];
                lane.claims.insert(effect_id.clone(), claim);
                lane.watch.note_reserved(&effect_id);
                lane.call(request.call).reservation = Some(Reservation {
                    effect_id: effect_id.clone(),
                    fingerprint: request.fingerprint,
                    grant: request.grant,
                    is_after_anothers_reading,
                });
                self.its_own_unexpired_grant_used_once(index, &request, &effect_id);
                Ok(Begun {
                    effect_id,
                    may_be_done: reserved == Reserved::ReservedAgain,
                })
            }
        };
        let reservation = windlass_session::io::Reservation { call, outcome };
        self.answer_of_store(index, Input::Reserved(reservation));
    }

    fn refusal(&self, refusal: ReserveRefusal) -> ReservationRefusal {
        let response = |effect: &windlass_store::Effect| -> Option<Arc<ToolResponse>> {
            let is_kept = effect.response.is_some();
            let response = self.responses.get(&effect.effect_id);
            response.filter(|_| is_kept).cloned()
        };
        match refusal {
            ReserveRefusal::Open(effect) => ReservationRefusal::Open(effect.effect_id),
            ReserveRefusal::Done(effect) => ReservationRefusal::Done(response(&effect)),
            ReserveRefusal::Full => ReservationRefusal::Full,
            ReserveRefusal::Read => ReservationRefusal::Read,
            ReserveRefusal::Grant(refusal) => match refusal {
                GrantRefusal::Unknown | GrantRefusal::Foreign => ReservationRefusal::GrantUnknown,
                GrantRefusal::Expired => ReservationRefusal::GrantExpired,
                GrantRefusal::Declined => ReservationRefusal::GrantDeclined,
                GrantRefusal::Consumed(effect) => ReservationRefusal::GrantConsumed(
                    effect.as_ref().and_then(|effect| response(effect)),
                ),
            },
        }
    }

    fn record(&mut self, index: usize, record: OutcomeRecord) {
        let (effect_id, state) = (record.effect_id.clone(), record.state);
        self.note_recorded(index, &record);
        self.record_again();
        let stored = self.store_outcome(index, &record);
        self.lanes[index].tell_others();
        let lane = &mut self.lanes[index];
        let claim = lane.claims.remove(&effect_id);
        lane.recording.push((effect_id.clone(), claim));
        if !stored {
            self.unstored.keep(index, record);
        }
        let answer = Input::Recorded {
            effect_id: effect_id.clone(),
            state,
            stored,
        };
        // Until it is known what has become of that, it stays this session's.
        self.answer_of_store(index, answer);
    }

    /// Has a handler asked, unless another session is at the effect or has settled it by now.
    fn look_up(&mut self, index: usize, lookup: &EffectLookup) {
        let (call, effect_id) = (lookup.call(), lookup.effect_id());
        let session = self.lanes[index].session_id();
        let Some(claim) = self.under_way.claim(effect_id, &session) else {
            self.report.counts.state(State::LookupUnderWay);
            let reason = Spared::UnderWay;
            return self.answer(index, 0, Input::LookupSpared { call, reason });
        };
        self.record_again();
        let effect = self.ask_store(|transaction| transaction.effect(effect_id));
        let settled = effect.ok().flatten();
        let Some(effect) = settled.filter(|effect| !effect.state.is_open()) else {
            return self.ask_handler(index, lookup, claim);
        };
        self.report.counts.state(State::LookupSettled);
        for entry in self.ledger_of(vec![effect]) {
            let reason = Spared::Settled(Box::new(entry));
            self.answer_of_store(index, Input::LookupSpared { call, reason });
        }
    }
}

/// The effect that the user is asked about, or why nobody is asked.
fn asked(answer: windlass_store::Proposed) -> Result<EffectId, ReservationRefusal> {
    match answer {
        windlass_store::Proposed::Stored(effect_id) => Ok(effect_id),
        windlass_store::Proposed::Begun(begun) => Err(ReservationRefusal::Open(begun.effect_id)),
        windlass_store::Proposed::TooLong
        | windlass_store::Proposed::TooMany
        | windlass_store::Proposed::TokenTaken => Err(ReservationRefusal::TooManyQuestions),
    }
}
