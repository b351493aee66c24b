//! The outputs of the core that concern calls and events, obeyed the same way for every session, with or without sockets.
//! Owns the executor; knows no client and no provider.

mod company;

use crate::effects::{self, Answer, Beside, EffectStore};
use crate::executor::{Executor, Report};
use crate::journal::Journal;
use crate::pump::AudioCounts;
use crate::rate::RateLimiter;
use crate::store_thread::Closing;
use crate::subscriber::{SessionIdentity, Subscriber};
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use windlass_session::event::SessionEvent;
use windlass_session::io::{
    ConfirmationRequest, EffectLookup, Input, LOOKUP_ATTEMPT, OutcomeRecord, OutcomeState, Output,
    Reservation, ReservationRefusal, ReserveRequest, Spared, TokenHash,
};
use windlass_session::news::Membership;
use windlass_session::under_way::Claim;
use windlass_store::StoreUnavailable;
use windlass_tool::handler::World;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::sensitive::Sensitive;

/// What all sessions of one process share.
#[derive(Clone)]
pub struct Shared {
    pub store: Arc<dyn EffectStore>,
    pub rate_limiter: Arc<dyn RateLimiter>,
    pub subscribers: Arc<[Arc<dyn Subscriber>]>,
    /// Where sessions are recorded, if they are.
    pub journal: Option<Arc<Journal>>,
}

/// Tokens of questions that the store has not taken yet, or never takes; the oldest make room. A session has fewer open
/// questions than this.
const TOKENS_MAX: usize = 64;

/// What the store was asked and has not answered.
struct Asked {
    purpose: Purpose,
    answer: Pin<Box<dyn Future<Output = Heard> + Send>>,
}

/// What an answer of the store is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Any,
    /// A call that is about to look its effect up.
    LookUp(CallNumber),
    /// Users who wait for another session's change.
    Await(CallNumber),
}

/// What follows from an answer of the store.
enum Heard {
    Nothing,
    Input(Input),
    /// An effect was reserved, or was not.
    Reserved(Reservation, Claim),
    /// An outcome was stored, or was not.
    Recorded {
        effect_id: EffectId,
        state: OutcomeState,
        stored: bool,
        claim: Option<Claim>,
    },
    LookUp(EffectLookup, Claim),
}

impl From<Option<Input>> for Heard {
    fn from(input: Option<Input>) -> Self {
        input.map_or(Self::Nothing, Self::Input)
    }
}

pub(crate) struct CallDriver {
    pub(crate) identity: SessionIdentity,
    pub(crate) executor: Executor,
    world: Arc<dyn World>,
    shared: Shared,
    /// `None` where no other session is of its conversation, or will be.
    membership: Option<Membership>,
    asked: Vec<Asked>,
    /// This session's effects, from the wish to reserve each until its outcome is stored.
    claims: HashMap<EffectId, Claim>,
    /// Those of which something was found out that the core is being told: what it makes of that, it says at once.
    told_of: Vec<Claim>,
    /// Of confirmations that are stored, and that the client does not know yet.
    tokens: VecDeque<(TokenHash, Sensitive<String>)>,
    /// Tokens of questions that the user was asked in a session which is gone.
    left_behind: VecDeque<TokenHash>,
}

impl CallDriver {
    pub(crate) fn new(
        identity: SessionIdentity,
        registry_version: Arc<str>,
        world: Arc<dyn World>,
        shared: Shared,
    ) -> Self {
        let membership = shared.store.under_way().join(&identity.conversation_id);
        Self {
            executor: Executor::new(identity.clone(), registry_version, world.clone()),
            identity,
            world,
            shared,
            membership: Some(membership),
            asked: Vec::new(),
            claims: HashMap::new(),
            told_of: Vec::new(),
            tokens: VecDeque::new(),
            left_behind: VecDeque::new(),
        }
    }

    fn read_ledger(&mut self, inputs: &mut VecDeque<Input>) {
        let under_way = self.shared.store.under_way().clone();
        let work = effects::ledger(&self.identity, under_way, self.now_unix_ms());
        // A turn by text has its answers marked together with what was said.
        let answer = self.shared.store.ask_behind_all(work);
        let become_input = |answer: Result<Option<Input>, StoreUnavailable>| {
            answer.unwrap_or_else(|error| {
                tracing::error!(%error, "the ledger could not be read, so that no change can start");
                Some(effects::unread(&error))
            })
        };
        self.expect(answer, become_input, inputs);
    }

    /// Turns an answer of the store into an input, now or when it comes.
    fn expect<T: Send + 'static>(
        &mut self,
        answer: Answer<T>,
        become_input: impl FnOnce(Result<T, StoreUnavailable>) -> Option<Input> + Send + 'static,
        inputs: &mut VecDeque<Input>,
    ) {
        let heard = |answer| become_input(answer).into();
        self.hear(answer, Purpose::Any, heard, inputs);
    }

    fn hear<T: Send + 'static>(
        &mut self,
        answer: Answer<T>,
        purpose: Purpose,
        heard: impl FnOnce(Result<T, StoreUnavailable>) -> Heard + Send + 'static,
        inputs: &mut VecDeque<Input>,
    ) {
        match answer {
            Answer::Ready(answer) => inputs.extend(self.input_of(heard(answer))),
            Answer::Pending(pending) => {
                let answer = Box::pin(async move { heard(pending.await) });
                self.asked.push(Asked { purpose, answer });
            }
        }
    }

    fn input_of(&mut self, heard: Heard) -> Option<Input> {
        match heard {
            Heard::Nothing => None,
            Heard::Input(input) => Some(input),
            Heard::Reserved(reservation, claim) => {
                if reservation.outcome.is_ok() {
                    self.claims.insert(claim.effect_id().clone(), claim);
                }
                Some(Input::Reserved(reservation))
            }
            Heard::Recorded {
                effect_id,
                state,
                stored,
                claim,
            } => {
                // It will be tried again, which must not overwrite what another session has made of the effect by then.
                if let Some(claim) = claim.filter(|_| !stored) {
                    self.claims.entry(effect_id.clone()).or_insert(claim);
                }
                Some(Input::Recorded {
                    effect_id,
                    state,
                    stored,
                })
            }
            Heard::LookUp(lookup, claim) => {
                let (finding, claim) = self.executor.look_up(&lookup, claim)?;
                self.told_of.push(claim);
                let call = lookup.call();
                Some(Input::LookedUp { call, finding })
            }
        }
    }

    pub(crate) fn now_unix_ms(&self) -> u64 {
        self.world.now_unix_ms()
    }

    /// Tells whoever watches what has become of audio.
    pub(crate) fn publish_audio(&self, counts: &AudioCounts) {
        for subscriber in self.shared.subscribers.iter() {
            subscriber.audio(&self.identity, counts);
        }
    }

    /// Obeys an output if it is about calls or events, and queues the inputs that this causes at once. Gives the output
    /// back where it, or what it says, concerns a client or a provider too.
    pub(crate) fn obey(&mut self, output: Output, inputs: &mut VecDeque<Input>) -> Option<Output> {
        match output {
            Output::ReadLedger => self.read_ledger(inputs),
            Output::RequestConfirmation(request) => self.propose(&request, |_| None, inputs),
            Output::DeclineConfirmation { token_hash } => {
                let closing = effects::declined(&self.identity, token_hash);
                let declined = move |stored| Some(Input::Declined { token_hash, stored });
                self.close_question(closing, declined, inputs);
            }
            Output::WithdrawConfirmation { token_hash } => {
                self.close_question(Closing::Withdrawn(token_hash), |_| None, inputs);
            }
            Output::MarkAnswered { effect_id } => {
                let answer = self.shared.store.ask(effects::mark_answered(effect_id));
                self.expect(answer, told("an answer could not be marked"), inputs);
            }
            Output::NoteReading => self.note_reading(inputs),
            Output::Reserve(request) => self.reserve(&request, inputs),
            Output::RecordOutcome(record) => self.record(&record, inputs),
            Output::Lookup(lookup) => self.look_up(lookup, inputs),
            Output::AwaitEffect { call, effect_id } => self.await_effect(call, effect_id),
            Output::FindApproval { token_hash } => self.find_approval(token_hash, inputs),
            Output::CheckRate {
                call,
                tool,
                limit,
                charge,
            } => {
                let (user, now) = (&self.identity.user_id, self.now_unix_ms());
                let limiter = &self.shared.rate_limiter;
                let decision = limiter.charge(user, &tool, limit, charge, now);
                inputs.push_back(Input::RateChecked { call, decision });
            }
            Output::StartCall(call) => {
                let effect_id = call.effect_id();
                let claim = effect_id.and_then(|effect_id| self.claims.get(effect_id).cloned());
                if let Some((call, result)) = self.executor.start(&call, claim) {
                    while let Some((call, message)) = self.executor.take_message() {
                        inputs.push_back(Input::HandlerMessage { call, message });
                    }
                    inputs.push_back(Input::CallFinished { call, result });
                }
            }
            Output::AbortCall { call, drop } => {
                if call.attempt == LOOKUP_ATTEMPT {
                    self.asked
                        .retain(|asked| asked.purpose != Purpose::LookUp(call.call));
                }
                self.executor.abort(call, drop);
            }
            Output::Event(event) => {
                self.publish(&event);
                return Some(Output::Event(event));
            }
            other => return Some(other),
        }
        None
    }

    /// Has a confirmation stored, with what is written down beside it. Its token waits here until the client is asked.
    pub(crate) fn propose(
        &mut self,
        request: &ConfirmationRequest,
        beside: impl FnOnce(TokenHash) -> Option<Beside>,
        inputs: &mut VecDeque<Input>,
    ) {
        let call = request.call;
        match effects::propose(&self.identity, request, self.now_unix_ms()) {
            Err(error) => inputs.push_back(Input::Proposed {
                call,
                outcome: Err(ReservationRefusal::Unavailable(error)),
            }),
            Ok(minted) => {
                let (token_hash, token) = (minted.token_hash, minted.token.clone());
                if self.tokens.len() >= TOKENS_MAX {
                    self.tokens.pop_front();
                }
                self.tokens.push_back((token_hash, token));
                let store = &self.shared.store;
                let answer = match beside(token_hash) {
                    // What was said comes in its order.
                    Some(beside) => store.ask_behind_all(minted.with(beside)),
                    None => store.ask(minted.work),
                };
                let become_input = move |answer: Result<Option<Input>, StoreUnavailable>| {
                    answer.unwrap_or_else(|error| Some(effects::not_proposed(call, &error)))
                };
                self.expect(answer, become_input, inputs);
            }
        }
    }

    fn reserve(&mut self, request: &ReserveRequest, inputs: &mut VecDeque<Input>) {
        let call = request.call;
        match effects::reserve(&self.identity, request, self.now_unix_ms()) {
            Err(error) => inputs.push_back(Input::Reserved(Reservation {
                call,
                outcome: Err(ReservationRefusal::Unavailable(error)),
            })),
            Ok(reserve) => {
                let effect_id = reserve.effect_id.clone();
                let Some(claim) = self.claim(&effect_id) else {
                    return inputs.push_back(Input::Reserved(Reservation {
                        call,
                        outcome: Err(ReservationRefusal::Open(effect_id)),
                    }));
                };
                let answer = self.shared.store.reserve(reserve);
                self.tell_others();
                let heard = move |answer| {
                    Heard::Reserved(effects::reserved(call, effect_id, answer), claim)
                };
                self.hear(answer, Purpose::Any, heard, inputs);
            }
        }
    }

    /// `closed` makes the input of whether it is stored.
    fn close_question(
        &mut self,
        closing: Closing,
        closed: impl FnOnce(bool) -> Option<Input> + Send + 'static,
        inputs: &mut VecDeque<Input>,
    ) {
        let answer = self.shared.store.close_question(closing);
        let become_input = |answer: Result<(), StoreUnavailable>| {
            if let Err(error) = &answer {
                tracing::error!(%error, "that a question may not be approved any more is not stored yet");
            }
            closed(answer.is_ok())
        };
        self.expect(answer, become_input, inputs);
    }

    fn record(&mut self, record: &OutcomeRecord, inputs: &mut VecDeque<Input>) {
        let (effect_id, state) = (record.effect_id.clone(), record.state);
        let claim = self.claims.remove(&effect_id).or_else(|| {
            let mut told_of = self.told_of.iter();
            told_of
                .find(|claim| *claim.effect_id() == effect_id)
                .cloned()
        });
        let outcome = effects::outcome(record, self.now_unix_ms());
        let answer = self.shared.store.record(outcome);
        self.tell_others();
        // An effect that the store does not know, or knows better, has nothing left to be stored.
        let heard = move |answer: Result<_, _>| Heard::Recorded {
            effect_id,
            state,
            stored: answer.is_ok(),
            claim,
        };
        self.hear(answer, Purpose::Any, heard, inputs);
    }

    fn claim(&self, effect_id: &EffectId) -> Option<Claim> {
        let under_way = self.shared.store.under_way();
        under_way.claim(effect_id, &self.identity.session_id)
    }

    /// Has a handler asked, unless another session is at the effect or has settled it by now.
    fn look_up(&mut self, lookup: EffectLookup, inputs: &mut VecDeque<Input>) {
        let call = lookup.call();
        let Some(claim) = self.claim(lookup.effect_id()) else {
            let reason = Spared::UnderWay;
            return inputs.push_back(Input::LookupSpared { call, reason });
        };
        let work = effects::settled(call, lookup.effect_id().clone());
        // A store that does not answer has nothing to say of it: the handler may know.
        let heard = move |answer: Result<Option<Input>, StoreUnavailable>| match answer {
            Ok(Some(input)) => Heard::Input(input),
            Ok(None) | Err(_) => Heard::LookUp(lookup, claim),
        };
        let answer = self.shared.store.ask(work);
        self.hear(answer, Purpose::LookUp(call), heard, inputs);
    }

    /// Waits for another session's change, and reads what came of it; once, however often users lose patience and ask anew.
    fn await_effect(&mut self, call: CallNumber, effect_id: EffectId) {
        let purpose = Purpose::Await(call);
        if self.asked.iter().any(|asked| asked.purpose == purpose) {
            return;
        }
        let free = self.shared.store.under_way().free(&effect_id);
        let store = self.shared.store.clone();
        let answer = Box::pin(async move {
            free.await;
            let answer = store.ask(effects::awaited(call, effect_id)).wait().await;
            Heard::from(answer.unwrap_or(Some(Input::EffectAwaited { call, entry: None })))
        });
        self.asked.push(Asked { purpose, answer });
    }

    /// A question of another session's that is open may be taken up by this one: it was put to the user, and whoever asked it
    /// is gone.
    pub(crate) fn may_take_up(&mut self, token_hash: TokenHash) {
        if self.left_behind.len() >= TOKENS_MAX {
            self.left_behind.pop_front();
        }
        self.left_behind.push_back(token_hash);
    }

    fn find_approval(&mut self, token_hash: TokenHash, inputs: &mut VecDeque<Input>) {
        let is_left_behind = self.left_behind.contains(&token_hash);
        self.left_behind.retain(|left| *left != token_hash);
        let now = self.now_unix_ms();
        let work = effects::approval(&self.identity, token_hash, is_left_behind, now);
        let answer = self.shared.store.ask(work);
        let become_input = move |answer: Result<Option<Input>, StoreUnavailable>| {
            answer.unwrap_or_else(|error| Some(effects::unsought(token_hash, &error)))
        };
        self.expect(answer, become_input, inputs);
    }

    /// The token of a confirmation that the client is being asked for, once.
    pub(crate) fn take_token(&mut self, token_hash: &TokenHash) -> Option<Sensitive<String>> {
        let index = self.tokens.iter().position(|(own, _)| own == token_hash)?;
        self.tokens.remove(index).map(|(_, token)| token)
    }

    pub(crate) fn publish(&self, event: &SessionEvent) {
        if let SessionEvent::HandlerProblem {
            call,
            tool,
            problem,
        } = event
        {
            let session = &self.identity.session_id;
            tracing::error!(%session, %call, %tool, problem, "a tool broke");
        }
        let now_unix_ms = self.now_unix_ms();
        for subscriber in self.shared.subscribers.iter() {
            subscriber.event(&self.identity, now_unix_ms, event);
        }
    }

    /// Whether no call runs, and the store has answered everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.executor.is_idle()
    }

    /// The next input that the store or a running call causes.
    pub(crate) fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        // The core has heard of these, and what it has made of it is on its way to the store.
        self.told_of.clear();
        let mut index = 0;
        while let Some(asked) = self.asked.get_mut(index) {
            match asked.answer.as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(heard) => {
                    drop(self.asked.remove(index));
                    if let Some(input) = self.input_of(heard) {
                        return Poll::Ready(input);
                    }
                }
            }
        }
        self.executor
            .poll_report(context)
            .map(|report| match report {
                Report::Message(call, message) => Input::HandlerMessage { call, message },
                Report::LookedUp(call, finding, claim) => {
                    self.told_of.push(claim);
                    Input::LookedUp { call, finding }
                }
                Report::Finished(call, result, claim) => {
                    self.told_of.extend(claim);
                    Input::CallFinished { call, result }
                }
            })
    }
}

/// For answers that the core does not wait for: a failure is for the log.
fn told(
    problem: &'static str,
) -> impl FnOnce(Result<Option<Input>, StoreUnavailable>) -> Option<Input> + Send {
    move |answer| {
        answer.unwrap_or_else(|error| {
            tracing::error!(%error, "{problem}");
            None
        })
    }
}
