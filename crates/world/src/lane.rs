//! One conversation of one user: the session that it is in now, what its people and programs remember, and what the rules
//! have to know of it. Decides nothing.

use crate::prove::Journal;
use crate::random::Random;
use crate::rules::{Heard, Telling};
use crate::tools;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_session::io::{Input, TokenHash};
use windlass_session::limits::Limits;
use windlass_session::model::{AnswerBatching, CallSupport, ModelEvent, ModelProfile};
use windlass_session::news::Membership;
use windlass_session::session::Session;
use windlass_session::snapshot::Snapshot;
use windlass_session::under_way::Claim;
use windlass_tool::arguments::Arguments;
use windlass_tool::id::{CallNumber, CallRef, ConversationId, EffectId, SessionId, UserId};
use windlass_tool::kind::Mode;

/// How a model behaves for the whole of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persona {
    Ordinary,
    /// Asks for the same thing over and over.
    Loops,
    /// Asks again for whatever was refused.
    Deaf,
    /// Makes up tools and arguments.
    Inventive,
}

/// A call that the model has made before.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
}

/// An attempt that a handler is at.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) effect_id: Option<EffectId>,
    pub(crate) writes: bool,
    /// It brings what others wrote.
    pub(crate) reads: bool,
    /// To its effect, for as long as it runs.
    pub(crate) claim: Option<Claim>,
    /// It has still to ask the outside service.
    pub(crate) will_request: bool,
    /// Its result has come in; it may come in once more.
    pub(crate) has_returned: bool,
    pub(crate) started_us: u64,
}

/// How far an effect of the present session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Reserved,
    Started,
    Requested,
    Recorded,
}

/// What the driver was told by the store of one reservation.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) effect_id: EffectId,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) grant: Option<TokenHash>,
    /// The model of another session of the conversation had read what others wrote.
    pub(crate) is_after_anothers_reading: bool,
}

/// A call as the model made it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) generation: u64,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
}

impl Asked {
    /// Whether it asks for what another asked for on a later connection.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.generation < other.generation
            && self.name == other.name
            && self.arguments == other.arguments
    }
}

/// What is known of one call of the present session.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallFacts {
    pub(crate) asked: Option<Asked>,
    /// The model has asked for the same on a later connection, and has its answer.
    pub(crate) is_superseded: bool,
    /// It was read, and is no repeat.
    pub(crate) is_requested: bool,
    pub(crate) asked_at_input: u64,
    /// The model had read what others wrote when it asked.
    pub(crate) after_external: bool,
    pub(crate) started: u32,
    pub(crate) ended: u32,
    /// The user was asked, so that it may end once more.
    pub(crate) questions: u32,
    /// Intents that its handler brings in one result at most.
    pub(crate) intents_brought: usize,
    pub(crate) intents_seen: usize,
    pub(crate) reservation: Option<Reservation>,
}

/// A provider's call id on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Calls that came under it.
    pub(crate) calls: u32,
    pub(crate) is_cancelled: bool,
    /// Asked under again since, by a call of its own.
    pub(crate) is_asked_again: bool,
    pub(crate) answers: u32,
    /// It names no delivery of its own, so that each call under it may be owed an answer.
    pub(crate) names_many: bool,
    /// How many answers may come at most.
    pub(crate) owed: u32,
}

/// What the model has still to say of the answers that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reaction {
    #[default]
    Nothing,
    /// It finishes first what it is saying.
    Later,
    Next,
}

/// What the rules remember of the present session.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) calls: BTreeMap<u64, CallFacts>,
    pub(crate) places: BTreeMap<(u64, Arc<str>), Place>,
    /// Starts that no consent allowed: retrieval, all.
    pub(crate) starts: BTreeMap<u64, (u32, u32)>,
    pub(crate) external_in_context: bool,
    pub(crate) has_unrecorded: bool,
    pub(crate) is_closed: bool,
    /// An answer was sent, and nothing was heard since.
    pub(crate) is_answer_unheard: bool,
    /// What still comes of the answer under way is thrown away.
    pub(crate) is_discarding: bool,
    /// Tools of which a call was a repeat: one answer of several may have waited for others when the rest was told.
    pub(crate) repeated: BTreeSet<Arc<str>>,
    /// How far each result has come that was sent, by its number.
    pub(crate) tellings: BTreeMap<u64, Telling>,
    /// What the model may have heard, result by result.
    pub(crate) heard: Heard,
    /// Results whose connection is gone, and that have still to be told.
    pub(crate) owed: BTreeMap<u64, (CallNumber, Asked)>,
    /// Effects whose calls have ended.
    pub(crate) told: BTreeSet<EffectId>,
    /// Over but for started changes: the model is not heard any more.
    pub(crate) is_draining: bool,
    pub(crate) open_turn: Option<u64>,
    /// The same before the present input.
    pub(crate) turn_at_input: Option<u64>,
    /// The number of the last turn that began.
    pub(crate) last_turn: u64,
    /// Something has happened since it began that another may begin for.
    pub(crate) has_cause: bool,
    /// What is told now ends a turn, so that another may begin for it.
    pub(crate) ends_turn: bool,
    /// The model was given an answer in it that it has still to speak of.
    pub(crate) reaction: Reaction,
    /// The model has finished what it was saying.
    pub(crate) is_generation_over: bool,
    /// Calls that each turn has paid for: those that started, and those that were refused on their way.
    pub(crate) charged: BTreeMap<u64, BTreeSet<u64>>,
    pub(crate) open_questions: BTreeSet<u64>,
    /// What this session has asked the user about.
    pub(crate) asked_about: BTreeMap<CallNumber, [u8; 32]>,
    /// What the user has declined, what they had said until then, and the turn that it was in: what was typed before may begin
    /// the next.
    pub(crate) declined: BTreeMap<[u8; 32], (u64, u64)>,
    /// How often the client has answered the question about each call, and how often it was told what came of that; `None` where
    /// no question is known by then.
    pub(crate) answers: BTreeMap<Option<CallNumber>, (usize, usize)>,
    /// Tokens of which the present session has heard that its questions have them in the store.
    pub(crate) proposed: Vec<(CallNumber, TokenHash)>,
    /// Tokens with which the present session has asked.
    pub(crate) asked: BTreeSet<TokenHash>,
    pub(crate) stages: BTreeMap<EffectId, Stage>,
    pub(crate) refused: Option<Past>,
    /// The newest connection was to take up where an earlier one was left.
    pub(crate) is_resuming: bool,
    /// How many of those in a row came to nothing, once the provider had taken them.
    pub(crate) refused_resumes: u32,
    /// Connections that were asked for since the last that held or brought an answer.
    pub(crate) connections: u32,
    /// The provider has ended a turn on the newest connection.
    pub(crate) is_proved: bool,
    /// The number of the last call that the session before this one had when it was saved.
    pub(crate) calls_before: u64,
}

impl Watch {
    /// The call of an effect has ended: between its outcome's record and its answer there is nothing any more.
    pub(crate) fn tell(&mut self, effect_id: &EffectId) {
        self.told.insert(effect_id.clone());
        if self.stages.get(effect_id) == Some(&Stage::Recorded) {
            self.stages.remove(effect_id);
        }
    }

    pub(crate) fn note_recorded(&mut self, effect_id: &EffectId) {
        if self.told.contains(effect_id) {
            self.stages.remove(effect_id);
        } else {
            self.stages.insert(effect_id.clone(), Stage::Recorded);
        }
    }

    /// It begins once more.
    pub(crate) fn note_reserved(&mut self, effect_id: &EffectId) {
        self.told.remove(effect_id);
        self.stages.insert(effect_id.clone(), Stage::Reserved);
    }
}

pub(crate) struct Lane {
    /// Of the seat that the conversation has; another place is that of a session which its client has left.
    pub(crate) home: usize,
    pub(crate) user: UserId,
    pub(crate) conversation: ConversationId,
    pub(crate) mode: Mode,
    pub(crate) profile: Arc<ModelProfile>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) persona: Persona,
    pub(crate) session: Option<Session>,
    /// Counts the sessions of the conversation.
    pub(crate) number: u32,
    pub(crate) started_us: u64,
    pub(crate) generation: u64,
    pub(crate) is_connected: bool,
    /// When the newest connection came about.
    pub(crate) connected_us: Option<u64>,
    /// Further connections whose end is announced as they begin.
    pub(crate) sent_away: u64,
    /// The newest connection that was asked for.
    pub(crate) opening: u64,
    /// When the store has answered what it was asked so far.
    pub(crate) answers_until_us: u64,
    /// When the provider closes the connection, by its own last word.
    pub(crate) closes_us: Option<u64>,
    /// An id that the provider took back before its call came.
    pub(crate) promised: Option<Arc<str>>,
    pub(crate) past: Vec<Past>,
    /// Tokens that were minted, and that the client may not know yet.
    pub(crate) minted: Vec<(CallNumber, TokenHash)>,
    /// Tokens that the client knows.
    pub(crate) tokens: Vec<TokenHash>,
    /// Counts whatever the user might have said.
    pub(crate) inputs: u64,
    pub(crate) running: BTreeMap<(u32, CallRef), Running>,
    /// What the present session's driver holds: of effects that it reserved, and of those that a handler is asked about.
    pub(crate) claims: BTreeMap<EffectId, Claim>,
    pub(crate) lookups: BTreeMap<CallNumber, Claim>,
    /// Of outcomes that the store has been given, and of which the session has not heard.
    pub(crate) recording: Vec<(EffectId, Option<Claim>)>,
    /// The process dies after so many more outputs.
    pub(crate) crash_in: Option<u32>,
    pub(crate) is_client_here: bool,
    /// The user can speak, so that the model may have heard what the session has not.
    pub(crate) has_microphone: bool,
    /// What the store has of the present session, for one that takes its place.
    pub(crate) saved: Option<Saved>,
    /// The same of one by text.
    pub(crate) ended: Option<Ended>,
    /// Of the present session, where the world is compared.
    pub(crate) journal: Option<Journal>,
    /// That the present session is of the conversation.
    pub(crate) membership: Option<Membership>,
    pub(crate) watch: Watch,
}

/// A session as it was saved, with what the rules knew of it then.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) snapshot: Snapshot,
    pub(crate) starts: BTreeMap<u64, (u32, u32)>,
    pub(crate) charged: BTreeMap<u64, BTreeSet<u64>>,
}

/// Where a session by text has got to, for one that goes on with its conversation.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) last_call: CallNumber,
    /// Each question's token, and the number by which the client knows its call.
    pub(crate) questions: Vec<(TokenHash, CallNumber)>,
}

/// The name of a conversation's session.
pub(crate) fn session_id(home: usize, number: u32) -> SessionId {
    SessionId::new(format!("session-{home}-{number}"))
}

/// The default limits, or ones that are soon reached.
fn limits(mode: Mode, random: &mut Random) -> Limits {
    let limits = Limits::of(mode);
    if random.one_in(2) {
        return limits;
    }
    Limits {
        open_confirmations_max: 1 + random.index(2),
        open_calls_max: 2 + random.index(8),
        calls_per_message_max: 2 + random.index(8),
        recorded_responses_max: 2 + random.index(8),
        transcript_characters_max: 20 + random.index(40),
        trail_entries_max: 1 + random.index(8),
        citations_max: 1,
        ..limits
    }
}

impl Lane {
    /// The session hears whether an outcome is stored. One that is not stays its own.
    pub(crate) fn recorded(&mut self, effect_id: &EffectId, stored: bool) -> Option<Claim> {
        let mut recording = self.recording.iter();
        let index = recording.position(|(recorded, _)| recorded == effect_id)?;
        let claim = self.recording.remove(index).1?;
        if stored {
            return Some(claim);
        }
        self.claims.entry(effect_id.clone()).or_insert(claim);
        None
    }

    /// The store has been told of something that other sessions of the conversation do not know.
    pub(crate) fn tell_others(&mut self) {
        if let Some(membership) = &mut self.membership {
            membership.tell_others();
        }
    }

    /// Whether the driver has something to tell before this, because it may make the session change something.
    pub(crate) fn hears_news_before(&mut self, input: &Input) -> bool {
        let may_change = matches!(input, Input::Model(ModelEvent::Calls(_)));
        let membership = self.membership.as_mut().filter(|_| may_change);
        membership.is_some_and(Membership::take_news)
    }

    /// No effect is its own any more.
    pub(crate) fn disclaim(&mut self) {
        self.claims.clear();
        self.lookups.clear();
        self.recording.clear();
    }

    pub(crate) fn new(index: usize, shares_user: bool, random: &mut Random) -> Self {
        let user = if shares_user { 0 } else { index };
        let calls = *random.pick(&[
            CallSupport::Both,
            CallSupport::Both,
            CallSupport::BlockingOnly,
            CallSupport::NonBlockingOnly,
        ]);
        let answers = *random.pick(&[AnswerBatching::Together, AnswerBatching::AsReady]);
        let mode = *random.pick(&[Mode::Voice, Mode::Text]);
        Self {
            home: index,
            user: UserId::new(format!("user-{user}")),
            conversation: ConversationId::new(format!("conversation-{index}")),
            mode,
            profile: Arc::new(tools::profile(calls, answers, !random.one_in(4))),
            limits: Arc::new(limits(mode, random)),
            persona: *random.pick(&[
                Persona::Ordinary,
                Persona::Ordinary,
                Persona::Loops,
                Persona::Deaf,
                Persona::Inventive,
            ]),
            session: None,
            number: 0,
            started_us: 0,
            generation: 0,
            is_connected: false,
            connected_us: None,
            answers_until_us: 0,
            sent_away: 0,
            opening: 0,
            closes_us: None,
            promised: None,
            past: Vec::new(),
            minted: Vec::new(),
            tokens: Vec::new(),
            inputs: 0,
            running: BTreeMap::new(),
            claims: BTreeMap::new(),
            lookups: BTreeMap::new(),
            recording: Vec::new(),
            crash_in: None,
            is_client_here: true,
            has_microphone: false,
            saved: None,
            ended: None,
            journal: None,
            membership: None,
            watch: Watch::default(),
        }
    }

    /// The same conversation, of which its people remember everything, without a session.
    pub(crate) fn anew(&self) -> Self {
        Self {
            home: self.home,
            user: self.user.clone(),
            conversation: self.conversation.clone(),
            mode: self.mode,
            profile: self.profile.clone(),
            limits: self.limits.clone(),
            persona: self.persona,
            session: None,
            number: self.number,
            started_us: 0,
            generation: 0,
            is_connected: false,
            connected_us: None,
            answers_until_us: 0,
            sent_away: 0,
            opening: 0,
            closes_us: None,
            promised: None,
            past: self.past.clone(),
            minted: Vec::new(),
            tokens: self.tokens.clone(),
            inputs: self.inputs,
            running: BTreeMap::new(),
            claims: BTreeMap::new(),
            lookups: BTreeMap::new(),
            recording: Vec::new(),
            crash_in: None,
            is_client_here: true,
            has_microphone: false,
            saved: None,
            ended: None,
            journal: None,
            membership: None,
            watch: Watch::default(),
        }
    }

    /// The name of the present session.
    pub(crate) fn session_id(&self) -> SessionId {
        session_id(self.home, self.number)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.session.is_some() && !self.watch.is_closed
    }

    /// Whether a handler is at something that others wrote.
    pub(crate) fn reads_now(&self) -> bool {
        let mut running = self.running.iter();
        running.any(|((number, _), run)| *number == self.number && run.reads && !run.has_returned)
    }

    /// Whether a call of the present session runs.
    pub(crate) fn runs_calls(&self) -> bool {
        let mut running = self.running.iter();
        running.any(|((number, _), run)| *number == self.number && !run.has_returned)
    }

    /// Whether whatever its model waits for was written by others.
    pub(crate) fn only_reads(&self) -> bool {
        let calls = self.watch.calls.values();
        let open = calls.filter(|call| call.is_requested && call.ended == 0);
        let asked = open.filter_map(|call| call.asked.as_ref());
        asked
            .map(|asked| &*asked.name)
            .all(|name| name == tools::EXTERNAL)
    }

    pub(crate) fn call(&mut self, number: CallNumber) -> &mut CallFacts {
        self.watch.calls.entry(number.0).or_default()
    }

    /// Whether an attempt has still to ask the outside service for this effect.
    pub(crate) fn is_in_flight(&self, effect_id: &EffectId) -> bool {
        self.running
            .values()
            .any(|run| run.will_request && run.effect_id.as_ref() == Some(effect_id))
    }
}
