//! The model and its provider: asks for tools in every good and bad way, speaks, falls silent, takes calls back.

use crate::count::Fault;
use crate::lane::{Past, Persona};
use crate::tools;
use crate::world::World;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_session::io::Input;
use windlass_session::model::{ArgumentsProblem, IncomingCall, ModelEvent};
use windlass_tool::arguments::Arguments;

/// How many of its calls a model remembers.
const PAST_MAX: usize = 24;

impl World {
    pub(crate) fn model_acts(&mut self, index: usize) {
        if !self.lanes[index].is_connected {
            return;
        }
        match self.random.below(20) {
            0..=9 => self.model_calls(index),
            10 | 11 => self.provider_cancels(index),
            12 | 13 => {
                let said = ModelEvent::OutputTranscript {
                    text: "so".to_owned().into(),
                    finished: false,
                };
                self.feed(index, Input::Model(said));
            }
            14 => self.feed(index, Input::Model(ModelEvent::AudioStarted)),
            15 => {
                let unplayed = Duration::from_millis(self.random.below(2_000));
                self.feed(index, Input::Model(ModelEvent::Unplayed(unplayed)));
                self.feed(index, Input::Model(ModelEvent::GenerationComplete));
            }
            16 => {
                self.lanes[index].inputs += 1;
                self.feed(index, Input::Model(ModelEvent::Interrupted));
            }
            _ => {
                let done = ModelEvent::TurnComplete {
                    idle: !self.random.one_in(4),
                    reason: None,
                    unplayed: Duration::from_millis(self.random.below(2_000)),
                };
                self.feed(index, Input::Model(done));
            }
        }
    }

    fn model_calls(&mut self, index: usize) {
        let count = match self.random.below(40) {
            0 => {
                self.fault(Fault::MessageOfManyCalls);
                40
            }
            roll => 1 + roll % 3,
        };
        let calls: Vec<IncomingCall> = (0..count).map(|_| self.one_call(index)).collect();
        self.feed(index, Input::Model(ModelEvent::Calls(calls)));
        if self.random.one_in(6) {
            self.asking_message_ends(index);
        }
    }

    /// The provider ends its turn with the message that asked, and what was answered at once crosses that.
    fn asking_message_ends(&mut self, index: usize) {
        self.fault(Fault::TurnEndBehindCalls);
        for event in [
            ModelEvent::GenerationComplete,
            ModelEvent::TurnComplete {
                idle: true,
                reason: None,
                unplayed: Duration::ZERO,
            },
        ] {
            if self.lanes[index].is_connected {
                self.feed(index, Input::Model(event));
            }
        }
    }

    fn one_call(&mut self, index: usize) -> IncomingCall {
        let persona = self.lanes[index].persona;
        let roll = match persona {
            Persona::Loops if self.random.one_in(2) => {
                self.fault(Fault::ModelLoops);
                12
            }
            Persona::Deaf if self.random.one_in(2) && self.lanes[index].watch.refused.is_some() => {
                self.fault(Fault::ModelIgnoresRefusals);
                let refused = self.lanes[index].watch.refused.clone();
                return self.again(index, refused, None);
            }
            Persona::Inventive if self.random.one_in(2) => 17 + self.random.below(2),
            Persona::Ordinary | Persona::Loops | Persona::Deaf | Persona::Inventive => {
                self.random.below(22)
            }
        };
        let past = self.some_past(index);
        let past_id = past.as_ref().and_then(|past| past.id.clone());
        match roll {
            10 | 11 if past_id.is_some() => {
                self.fault(Fault::ReplayedSameId);
                self.again(index, past, past_id)
            }
            12..=14 if past.is_some() => {
                self.fault(Fault::ReplayedNewId);
                self.again(index, past, None)
            }
            15 if past_id.is_some() => {
                self.fault(Fault::ReplayedChangedArguments);
                self.changed(index, past, past_id)
            }
            16 => {
                self.fault(Fault::CallWithoutId);
                let id = self.random.one_in(2).then(|| "short".into());
                let (name, arguments) = (self.tool_name(), self.arguments());
                self.call(index, id, name, arguments)
            }
            17 => {
                self.fault(Fault::ModelInventsTools);
                let (id, arguments) = (self.new_id(index), self.arguments());
                self.call(index, Some(id), "transfer_everything".into(), arguments)
            }
            18 => {
                self.fault(Fault::ModelInventsConfirmFlags);
                let (id, mut arguments) = (self.new_id(index), self.arguments().to_map());
                arguments.insert("confirmed".to_owned(), json!(true));
                self.call(index, Some(id), "pay".into(), arguments.into())
            }
            19 => {
                self.fault(Fault::CallUnreadable);
                let id = self.new_id(index);
                IncomingCall {
                    name: (!self.random.one_in(3)).then(|| self.tool_name()),
                    arguments: Err(ArgumentsProblem("no JSON".to_owned())),
                    id: Some(id),
                }
            }
            _ => {
                let (id, name, arguments) =
                    (self.new_id(index), self.tool_name(), self.arguments());
                self.call(index, Some(id), name, arguments)
            }
        }
    }

    /// The model wants once more what it asked for last.
    pub(crate) fn model_asks_again(&mut self, index: usize) {
        let past = self.lanes[index].past.iter().rev().take(3);
        let past: Vec<Past> = past.cloned().collect();
        let calls = past.into_iter();
        let calls = calls
            .map(|past| self.again(index, Some(past), None))
            .collect();
        self.fault(Fault::ReplayedNewId);
        self.feed(index, Input::Model(ModelEvent::Calls(calls)));
    }

    fn again(&mut self, index: usize, past: Option<Past>, id: Option<Arc<str>>) -> IncomingCall {
        let id = match id {
            Some(id) => id,
            None => self.new_id(index),
        };
        match past {
            Some(past) => self.call(index, Some(id), past.name, past.arguments),
            None => {
                let (name, arguments) = (self.tool_name(), self.arguments());
                self.call(index, Some(id), name, arguments)
            }
        }
    }

    /// The id of an earlier call with other arguments than it had.
    fn changed(&mut self, index: usize, past: Option<Past>, id: Option<Arc<str>>) -> IncomingCall {
        let Some(past) = past else {
            return self.again(index, None, id);
        };
        let mut arguments = self.arguments();
        while arguments == past.arguments {
            arguments = self.arguments();
        }
        self.call(index, id, past.name, arguments)
    }

    fn call(
        &mut self,
        index: usize,
        id: Option<Arc<str>>,
        name: Arc<str>,
        arguments: Arguments,
    ) -> IncomingCall {
        let past = &mut self.lanes[index].past;
        if past.len() >= PAST_MAX {
            past.remove(0);
        }
        past.push(Past {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
        });
        IncomingCall {
            id,
            name: Some(name),
            arguments: Ok(arguments),
        }
    }

    /// One of the latest calls, the newest most often.
    fn some_past(&mut self, index: usize) -> Option<Past> {
        let past = &self.lanes[index].past;
        let back = self.random.index(PAST_MAX).min(self.random.index(PAST_MAX));
        past.len()
            .checked_sub(1 + back.min(past.len().saturating_sub(1)))
            .and_then(|place| past.get(place).cloned())
    }

    fn new_id(&mut self, index: usize) -> Arc<str> {
        match self.lanes[index].promised.take() {
            Some(id) => id,
            None => self.mint("function-call").into(),
        }
    }

    fn tool_name(&mut self) -> Arc<str> {
        (*self.random.pick(&tools::NAMES)).into()
    }

    fn arguments(&mut self) -> Arguments {
        let text = self.random.below(3).to_string();
        Map::from_iter([("text".to_owned(), Value::String(text))]).into()
    }

    fn provider_cancels(&mut self, index: usize) {
        let generation = self.lanes[index].generation;
        let open: Vec<Arc<str>> = self.lanes[index]
            .watch
            .places
            .iter()
            .filter(|((of, _), _)| *of == generation)
            .map(|((_, id), _)| id.clone())
            .collect();
        if open.is_empty() || self.random.one_in(6) {
            let id: Arc<str> = if self.random.one_in(2) {
                let id = self.new_id(index);
                self.lanes[index].promised = Some(id.clone());
                id
            } else {
                self.fault(Fault::CancelledUnknown);
                "function-call-nobody".into()
            };
            return self.feed(index, Input::Model(ModelEvent::CallsCancelled(vec![id])));
        }
        // The newest are most likely to be still open.
        let back = self.random.index(3).min(open.len() - 1);
        let id = open[open.len() - 1 - back].clone();
        let place = self.lanes[index]
            .watch
            .places
            .get(&(generation, id.clone()))
            .copied()
            .unwrap_or_default();
        self.fault(if place.is_cancelled {
            Fault::CancelledTwice
        } else if place.answers > 0 {
            Fault::CancelledAfter
        } else {
            Fault::CancelledDuring
        });
        self.feed(
            index,
            Input::Model(ModelEvent::CallsCancelled(vec![id.clone()])),
        );
        if place.names_many && self.random.one_in(2) {
            self.asks_under_it_again(index, &id);
        }
    }

    /// An id that names no delivery comes again with the very call that was taken back.
    fn asks_under_it_again(&mut self, index: usize, id: &Arc<str>) {
        let mut past = self.lanes[index].past.iter().rev();
        let past = past.find(|past| past.id.as_ref() == Some(id)).cloned();
        if past.is_some() {
            let call = self.again(index, past, Some(id.clone()));
            self.feed(index, Input::Model(ModelEvent::Calls(vec![call])));
        }
    }
}
