//! The model and its provider: asks for tools in every good and bad way, says the same in other words, asks again, speaks, falls
//! silent, takes calls back.

use crate::count::Fault;
use crate::intents::{IntentId, UserIntent};
use crate::slot::{PastCall, Persona};
use crate::tools;
use crate::world::World;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::kind::Mode;
use windlass_session::io::Input;
use windlass_session::model::{ArgumentsProblem, IncomingCall, ModelEvent, RequestEvent};
use windlass_session::names_delivery;

/// The number of its calls that a model remembers.
const PAST_MAX: usize = 24;
/// The number of intents back to which a model looks for one to repeat.
const INTENTS_BACK: usize = 6;

impl World {
    pub(crate) fn model_acts(&mut self, slot: usize) {
        if !self.is_connected(slot) {
            return;
        }
        match self.random.below(20) {
            0..=10 => self.model_calls(slot),
            11 => self.provider_cancels(slot),
            12 | 13 => {
                let said = ModelEvent::OutputTranscript {
                    text: "so".to_owned().into(),
                    finished: false,
                };
                self.feed(slot, Input::Model(said));
            }
            14 => self.feed(slot, Input::Model(ModelEvent::AudioStarted)),
            15 => {
                let unplayed = Duration::from_millis(self.random.below(2_000));
                self.feed(slot, Input::Model(ModelEvent::Unplayed(unplayed)));
                self.feed(slot, Input::Model(ModelEvent::GenerationComplete));
            }
            _ => self.model_is_done(slot),
        }
    }

    pub(crate) fn model_is_done(&mut self, slot: usize) {
        let unplayed = Duration::from_millis(self.random.below(2_000));
        let done = ModelEvent::TurnComplete {
            idle: self.is_calm || !self.random.one_in(4),
            reason: None,
            unplayed,
        };
        self.feed(slot, Input::Model(done));
    }

    pub(crate) fn model_calls(&mut self, slot: usize) {
        let count = match self.random.below(60) {
            0 => {
                self.fault(Fault::MessageOfManyCalls);
                40
            }
            roll => 1 + roll % 4 / 2,
        };
        let calls = (0..count).map(|_| self.one_call(slot)).collect();
        self.feed(slot, Input::Model(ModelEvent::Calls(calls)));
        if self.random.one_in(6) {
            self.fault(Fault::TurnEndBehindCalls);
            self.feed(slot, Input::Model(ModelEvent::GenerationComplete));
            self.model_is_done(slot);
        }
    }

    fn one_call(&mut self, slot: usize) -> IncomingCall {
        if let Some(intent) = self.slots[slot].wanted.take() {
            return self.carry_out(slot, intent);
        }
        let roll = match self.slots[slot].persona {
            Persona::Loops if self.random.one_in(2) => {
                self.fault(Fault::ModelLoops);
                12
            }
            Persona::Inventive if self.random.one_in(3) => 26 + self.random.below(2),
            Persona::Ordinary | Persona::Loops | Persona::Inventive => self.random.below(30),
        };
        let past = self.some_past(slot);
        let with_id = past.clone().filter(|past| past.id.is_some());
        match (roll, past, with_id) {
            (0..=9, ..) => self.carry_out_known(slot),
            (10 | 11, _, Some(past)) => {
                self.fault(Fault::ReplayedSameId);
                match self.intents.get(past.intent).wordings <= 1 {
                    true => self.deliver_again(slot, past),
                    false => self.ask_again(slot, &past),
                }
            }
            (12..=19, Some(past), _) => self.ask_again(slot, &past),
            (20, _, Some(past)) => {
                self.fault(Fault::ReplayedChangedArguments);
                let text = format!("{} else", self.random.below(3));
                let intent = match self.intents.get(past.intent).spelled {
                    Some(_) => self.begin_spelled(slot, past.name.clone()),
                    None => self.begin_intent(slot, past.name.clone(), text),
                };
                let arguments = self.arguments_of(slot, intent);
                self.call(slot, past.id, past.name, arguments, intent)
            }
            (21, ..) => {
                self.fault(Fault::CallWithoutId);
                let id = self.random.one_in(2).then(|| "short".into());
                let intent = self.some_intent(slot);
                let arguments = self.arguments_of(slot, intent);
                let name = self.intents.get(intent).tool.clone();
                self.call(slot, id, name, arguments, intent)
            }
            (26, ..) => {
                self.fault(Fault::ModelInventsTools);
                let intent = self.begin_intent(slot, "transfer_everything".into(), "all".into());
                self.carry_out(slot, intent)
            }
            (27, ..) => {
                self.fault(Fault::ModelInventsConfirmFlags);
                let intent = self.begin_intent(slot, "pay".into(), "all".to_owned());
                let mut arguments = self.arguments_of(slot, intent).to_map();
                arguments.insert("confirmed".to_owned(), json!(true));
                let id = self.mint("function-call").into();
                self.call(slot, Some(id), "pay".into(), arguments.into(), intent)
            }
            (28, ..) => {
                self.fault(Fault::CallUnreadable);
                IncomingCall {
                    id: Some(self.mint("function-call").into()),
                    name: (!self.random.one_in(3)).then(|| "book".into()),
                    arguments: Err(ArgumentsProblem("no JSON".to_owned())),
                }
            }
            _ => {
                let intent = self.some_intent(slot);
                self.carry_out(slot, intent)
            }
        }
    }

    /// The model does what the user wants, or supposedly wants.
    fn carry_out(&mut self, slot: usize, intent: IntentId) -> IncomingCall {
        let arguments = self.arguments_of(slot, intent);
        let name = self.intents.get(intent).tool.clone();
        let id = self.mint("function-call").into();
        self.call(slot, Some(id), name, arguments, intent)
    }

    /// Carries out an intent of another leg of the conversation, or of an earlier session of this one.
    fn carry_out_known(&mut self, slot: usize) -> IncomingCall {
        let conversation = self.slots[slot].conversation;
        let back = self.random.index(INTENTS_BACK);
        let known = self.intents.latest_of(conversation, back);
        // In other words it would be another effect, and the ledger could not know better.
        let known = known.filter(|intent| &*self.intents.get(*intent).tool != tools::MEMO);
        match known {
            Some(intent) => {
                self.fault(Fault::AskedOnAnotherLeg);
                self.carry_out(slot, intent)
            }
            None => {
                let intent = self.some_intent(slot);
                self.carry_out(slot, intent)
            }
        }
    }

    /// The very message again. An id that has named something else since, or names nothing, begins anew.
    fn deliver_again(&mut self, slot: usize, past: PastCall) -> IncomingCall {
        let mut known = self.slots[slot].past.iter().rev();
        let newest = known.find(|known| known.id == past.id);
        let is_other =
            |newest: &PastCall| (&newest.name, &newest.arguments) != (&past.name, &past.arguments);
        let names_one = past
            .id
            .as_ref()
            .is_some_and(|id| names_delivery(id, &past.name));
        // Ids belong to a leg, and in text mode to a turn.
        let is_by_text = self.slots[slot].mode == Mode::Text;
        let is_own = names_one && !is_by_text && past.leg == self.slots[slot].leg;
        let is_anew = newest.is_none_or(is_other) || !is_own;
        if is_anew {
            return self.call(slot, past.id, past.name, past.arguments, past.intent);
        }
        IncomingCall {
            id: past.id,
            name: Some(past.name),
            arguments: Ok(past.arguments),
        }
    }

    /// The same once more under a new id, often in other words.
    fn ask_again(&mut self, slot: usize, past: &PastCall) -> IncomingCall {
        self.fault(Fault::ReplayedNewId);
        let is_memo = &*past.name == tools::MEMO;
        // A model that has asked in two wordings and was told of one would repeat the effect by using the other.
        let is_fair =
            self.intents.get(past.intent).wordings <= 1 || self.is_lost(slot, past.intent);
        if is_memo && !is_fair {
            let intent = self.some_intent(slot);
            return self.carry_out(slot, intent);
        }
        let arguments = match self.random.one_in(2) {
            true if is_memo && self.is_lost(slot, past.intent) => {
                self.fault(Fault::ParaphrasedAfterReconnect);
                let words = self.mint("in other words");
                self.intents.words(words.clone(), past.intent);
                Map::from_iter([("text".to_owned(), Value::String(words))]).into()
            }
            true if self.intents.get(past.intent).spelled.is_some() => {
                self.arguments_of(slot, past.intent)
            }
            true if tools::takes_notes(&past.name) => {
                self.fault(Fault::Paraphrased);
                self.arguments_of(slot, past.intent)
            }
            _ => past.arguments.clone(),
        };
        let id = self.mint("function-call").into();
        self.call(slot, Some(id), past.name.clone(), arguments, past.intent)
    }

    /// Whether the model cannot know the outcome of an intent, because the connections of its calls are gone, and no user has spoken
    /// since. In text mode each request to a model holds all its earlier calls.
    fn is_lost(&self, slot: usize, intent: IntentId) -> bool {
        let generation = self.generation(slot);
        let slot = &self.slots[slot];
        let calls = slot.past.iter().filter(|past| past.intent == intent);
        let mut calls = calls.peekable();
        // The connection of a call is forgotten with the oldest calls.
        let is_known = calls.peek().is_some() && slot.mode == Mode::Voice;
        let are_lost = calls.all(|past| {
            past.session == slot.number
                && past.generation < generation
                && past.onsets == slot.onsets
        });
        is_known && are_lost && !self.intents.get(intent).is_answered
    }

    /// In text mode the model is asked once more.
    pub(crate) fn model_begins_anew(&mut self, slot: usize) {
        let live = self.slots[slot].live;
        let Some(live) = live.and_then(|id| self.lives[id].as_deref_mut()) else {
            return;
        };
        live.generation += 1;
        let number = live.generation;
        self.feed(slot, Input::Request(RequestEvent::Sent { number }));
    }

    /// Whether an intent was asked for in the user's current turn, in the present session.
    fn is_of_this_turn(&self, slot: usize, intent: IntentId) -> bool {
        let slot = &self.slots[slot];
        let mut calls = slot.past.iter().filter(|past| past.intent == intent);
        calls.any(|past| past.session == slot.number && past.onsets == slot.onsets)
    }

    /// A model that was cut off repeats its calls without an answer.
    pub(crate) fn model_asks_again(&mut self, slot: usize) {
        let unanswered = |past: &&PastCall| !past.is_answered;
        let past = self.slots[slot].past.iter().rev().filter(unanswered);
        let past: Vec<PastCall> = past.take(3).cloned().collect();
        if past.is_empty() || !self.is_connected(slot) {
            return;
        }
        let calls = past.iter().map(|past| self.ask_again(slot, past));
        let calls = calls.collect();
        self.feed(slot, Input::Model(ModelEvent::Calls(calls)));
    }

    /// A new intent; often the same thing is wanted a second time.
    pub(crate) fn some_intent(&mut self, slot: usize) -> IntentId {
        // A user who need not be asked about such calls often wants more of them.
        if let Some((tool, _)) = self.standing_of(slot)
            && self.random.one_in(3)
        {
            let text = self.mint("thing");
            return self.begin_intent(slot, tool, text);
        }
        let name: Arc<str> = match *self.random.pick(&tools::NAMES) {
            tools::MEET if !self.has_spellings => "book",
            tools::WIRE if !self.has_spellings => "pay",
            name => name,
        }
        .into();
        if matches!(&*name, tools::MEET | tools::WIRE) {
            return self.begin_spelled(slot, name);
        }
        let text = match &*name == tools::MEMO {
            true => self.mint("words"),
            false => self.random.below(3).to_string(),
        };
        self.begin_intent(slot, name, text)
    }

    /// Begins an intent for a tool whose arguments are written in many ways.
    fn begin_spelled(&mut self, slot: usize, tool: Arc<str>) -> IntentId {
        let spelled = self.some_spelled(&tool);
        self.intents.begin(UserIntent {
            conversation: self.slots[slot].conversation,
            tool,
            text: spelled.meaning(),
            spelled: Some(spelled),
            wordings: 0,
            is_answered: false,
        })
    }

    /// The tool and the place of the newest approval that its user has remembered in the slot's conversation.
    fn standing_of(&self, slot: usize) -> Option<(Arc<str>, Arc<str>)> {
        let conversation = self.slots[slot].conversation;
        let standing = self.judge.standing.iter().rev();
        let mut own = standing.filter(|known| known.conversation == conversation);
        let known = own.next()?;
        let place = known.place()?;
        Some((known.question.tool.as_str().into(), place.into()))
    }

    fn begin_intent(&mut self, slot: usize, tool: Arc<str>, text: String) -> IntentId {
        let is_memo = &*tool == tools::MEMO;
        let intent = self.intents.begin(UserIntent {
            conversation: self.slots[slot].conversation,
            tool,
            text: text.clone(),
            spelled: None,
            wordings: 0,
            is_answered: false,
        });
        if is_memo {
            self.intents.words(text, intent);
        }
        intent
    }

    fn arguments_of(&mut self, slot: usize, intent: IntentId) -> Arguments {
        let wanted = self.intents.get(intent).clone();
        if let Some(spelled) = wanted.spelled {
            let is_one_turn = self.is_of_this_turn(slot, intent);
            return self.spell(spelled, is_one_turn);
        }
        let mut arguments = Map::from_iter([("text".to_owned(), Value::String(wanted.text))]);
        if tools::has_places(&wanted.tool) {
            let known = self.standing_of(slot).map(|(_, place)| place.to_string());
            let place = match known {
                Some(place) if !self.random.one_in(4) => place,
                _ => (*self.random.pick(&tools::PLACES)).to_owned(),
            };
            arguments.insert("note".to_owned(), Value::String(place));
        }
        if tools::takes_notes(&wanted.tool) && !self.random.one_in(4) {
            let note = self.mint("note");
            self.intents.words(note.clone(), intent);
            arguments.insert("note".to_owned(), Value::String(note));
        }
        arguments.into()
    }

    fn call(
        &mut self,
        slot: usize,
        id: Option<Arc<str>>,
        name: Arc<str>,
        arguments: Arguments,
        intent: IntentId,
    ) -> IncomingCall {
        let conversation = self.slots[slot].conversation;
        let meaning = self.intents.get(intent).text.clone();
        let meaning = match self.intents.get(intent).spelled {
            Some(_) => meaning,
            // In other words it may be another effect.
            None => arguments
                .get("text")
                .and_then(|text| Some(text.as_str()?.to_owned()))
                .unwrap_or_default(),
        };
        self.intents.note_asked(conversation, &name, &meaning);
        let generation = self.generation(slot);
        let slot = &mut self.slots[slot];
        if slot.past.len() >= PAST_MAX {
            slot.past.remove(0);
        }
        slot.past.push(PastCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
            intent,
            session: slot.number,
            leg: slot.leg.clone(),
            generation,
            onsets: slot.onsets,
            is_answered: false,
        });
        IncomingCall {
            id,
            name: Some(name),
            arguments: Ok(arguments),
        }
    }

    /// One of the latest calls, the newest most often.
    fn some_past(&mut self, slot: usize) -> Option<PastCall> {
        let back = self.random.index(PAST_MAX).min(self.random.index(PAST_MAX));
        let past = &self.slots[slot].past;
        let back = back.min(past.len().saturating_sub(1));
        past.iter().rev().nth(back).cloned()
    }

    fn provider_cancels(&mut self, slot: usize) {
        let past = self.slots[slot].past.iter().rev();
        let ids = past.filter_map(|past| past.id.clone()).take(3);
        let ids: Vec<Arc<str>> = ids.collect();
        let id = match ids.is_empty() || self.random.one_in(6) {
            true => {
                self.fault(Fault::CancelledUnknown);
                "function-call-nobody".into()
            }
            false => {
                self.fault(Fault::Cancelled);
                self.random.pick(&ids).clone()
            }
        };
        self.feed(slot, Input::Model(ModelEvent::CallsCancelled(vec![id])));
    }
}
