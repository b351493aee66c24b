//! Results that outlive the connection over which they were asked for (`docs/policies.md`, "When a connection ends"): each is
//! told once, unless the model asked again first, took the call back, or the tool wants no words about it.

use crate::count::State;
use crate::lane::{Asked, Lane};
use crate::rules::Rule;
use crate::tools;
use crate::world::World;
use windlass_session::event::CallRecord;
use windlass_session::io::{Input, OutcomeRecord};
use windlass_session::model::{ModelEvent, ModelToolResponse};
use windlass_tool::envelope::{Outcome, ProjectionBody, ToolResponse};
use windlass_tool::id::CallNumber;

/// How far a result has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Sent over this connection, and nothing was heard since that is certain to follow it.
    Sent(u64),
    /// The model has said something since.
    Heard,
}

impl World {
    /// Notes which call has which number, before the session numbers them, in the order of their message.
    pub(crate) fn note_asked(&mut self, index: usize, input: &Input) {
        let Input::Model(ModelEvent::Calls(calls)) = input else {
            return;
        };
        let lane = &mut self.lanes[index];
        let last = lane.session.as_ref().map_or(0, |one| one.last_call().0);
        let generation = lane.generation;
        for (number, call) in (last + 1..).zip(calls) {
            let asked = call.name.clone().zip(call.arguments.as_ref().ok());
            lane.call(CallNumber(number)).asked = asked.map(|(name, arguments)| Asked {
                id: call.id.clone(),
                generation,
                name,
                arguments: arguments.clone(),
            });
        }
    }

    /// The model reacts, so that what was sent has arrived. What still comes of an answer that was interrupted says nothing, nor
    /// does the rest of a message that had begun before.
    pub(crate) fn note_heard(&mut self, index: usize, input: &Input) {
        let generation = self.lanes[index].generation;
        let watch = &mut self.lanes[index].watch;
        let Input::Model(event) = input else {
            return;
        };
        let begins = watch.heard.note(event, watch.is_discarding);
        if begins {
            for telling in watch.tellings.values_mut() {
                if *telling == Telling::Sent(generation) {
                    *telling = Telling::Heard;
                }
            }
        }
    }

    /// The ledger is told what came of an effect, also what a lookup found or what came late.
    pub(crate) fn note_recorded(&mut self, index: usize, record: &OutcomeRecord) {
        let response = record.response.as_ref();
        let tag = response.and_then(|response| tag_of_response(response.expose()));
        let heard = &mut self.lanes[index].watch.heard;
        heard.note_effect(&record.effect_id, tag);
    }

    /// A call has its outcome: where its connection is gone, the model is owed it.
    pub(crate) fn note_outcome(&mut self, index: usize, record: &CallRecord) {
        let tag = tag_of_response(record.response.expose());
        if let Some(effect_id) = &record.effect_id {
            let heard = &mut self.lanes[index].watch.heard;
            heard.note_effect(effect_id, tag);
        }
        let Some(tag) = tag else {
            return;
        };
        let lane = &self.lanes[index];
        let Some(facts) = lane.watch.calls.get(&record.call().0) else {
            return;
        };
        let Some(asked) = &facts.asked else {
            return;
        };
        let is_here = asked.generation == lane.generation && lane.is_connected;
        let place = asked.id.clone().map(|id| (asked.generation, id));
        let place = place.and_then(|place| lane.watch.places.get(&place));
        let is_taken_back = place.is_some_and(|place| place.is_cancelled);
        let grant = facts
            .reservation
            .as_ref()
            .and_then(|reservation| reservation.grant);
        // What was approved is told in a notice, also where it had been done already and nothing was reserved for it.
        let is_approved = grant.is_some() || facts.questions > 0;
        if is_here || is_taken_back || is_approved || lane.watch.is_draining {
            return;
        }
        if facts.is_superseded {
            return self.report.counts.state(State::LateResultSuperseded);
        }
        if lane.is_silent(&asked.name) {
            return self.report.counts.state(State::LateResultSilent);
        }
        let owed = (record.call(), asked.clone());
        self.lanes[index].watch.owed.insert(tag, owed);
    }

    /// Answers over a connection that knows their calls: they stand for what was asked before them, too.
    pub(crate) fn note_answers(&mut self, index: usize, answers: &[ModelToolResponse]) {
        for answer in answers {
            let lane = &mut self.lanes[index];
            let generation = lane.generation;
            if let Some(tag) = tag_of(answer) {
                let is_waited_for = lane.waits_for(&answer.name);
                lane.watch.heard.sent(tag, is_waited_for);
                lane.watch.tellings.insert(tag, Telling::Sent(generation));
                lane.watch.owed.remove(&tag);
            }
            let asked = lane.watch.calls.values().filter_map(|facts| {
                facts.asked.clone().filter(|asked| {
                    asked.generation == generation
                        && asked.id == answer.id
                        && asked.name == answer.name
                })
            });
            for asked in asked.collect::<Vec<Asked>>() {
                for facts in lane.watch.calls.values_mut() {
                    facts.is_superseded |= facts
                        .asked
                        .as_ref()
                        .is_some_and(|earlier| earlier.is_before(&asked));
                }
                let before = lane.watch.owed.len();
                lane.watch
                    .owed
                    .retain(|_, (_, earlier)| !earlier.is_before(&asked));
                for _ in lane.watch.owed.len()..before {
                    self.report.counts.state(State::LateResultSuperseded);
                }
            }
        }
    }

    pub(crate) fn a_late_result_is_told_once(&mut self, index: usize, late: &[ModelToolResponse]) {
        let rule = Rule::ALateResultIsToldOnce;
        for answer in late {
            self.report.counts.state(State::LateResultTold);
            let lane = &mut self.lanes[index];
            let generation = lane.generation;
            if lane.is_silent(&answer.name) {
                let what = format!("{} is spoken of, and wants silence", answer.name);
                return self.broken(rule, what);
            }
            let Some(tag) = tag_of(answer) else {
                continue;
            };
            lane.watch.heard.sent(tag, false);
            lane.watch.owed.remove(&tag);
            let sent = Telling::Sent(generation);
            let before = lane.watch.tellings.insert(tag, sent);
            let is_one_call = !lane.watch.repeated.contains(&answer.name);
            if (before == Some(Telling::Heard) && is_one_call) || before == Some(sent) {
                let what = format!("result {tag} of {} is told once more", answer.name);
                return self.broken(rule, what);
            }
        }
    }

    /// Neither side speaks, and nothing is to come: what was owed has been told.
    pub(crate) fn nothing_is_owed(&mut self, index: usize) {
        let lane = &self.lanes[index];
        if let (true, Some((call, asked))) = (lane.is_connected, lane.watch.owed.values().next()) {
            let what = format!("the result of {call} ({}) was never told", asked.name);
            self.broken(Rule::ALateResultIsToldOnce, what);
        }
    }
}

impl Lane {
    /// Whether this model says nothing before it has a result of this tool.
    fn waits_for(&self, name: &str) -> bool {
        let registry = tools::registry(false);
        let tool = registry.get(name);
        tool.is_some_and(|tool| self.profile.calls.blocks(tool.behavior))
    }

    /// Whether this model is told results of a tool without being asked for words.
    fn is_silent(&self, name: &str) -> bool {
        let registry = tools::registry(false);
        let tool = registry.get(name).filter(|_| name == tools::SILENT);
        tool.is_some_and(|tool| {
            self.profile.scheduling && !self.profile.calls.blocks(tool.behavior)
        })
    }
}

/// Each result has a number of its own, which its answers show.
fn tag_of(answer: &ModelToolResponse) -> Option<u64> {
    match &answer.projection.body {
        ProjectionBody::Success { data, .. } => {
            data.as_ref()?.as_object()?.get(tools::TAG)?.as_u64()
        }
        ProjectionBody::Failure { message, .. } => tag_in(message),
    }
}

fn tag_of_response(response: &ToolResponse) -> Option<u64> {
    match &response.outcome {
        Outcome::Success { data, .. } => data.as_ref()?.as_object()?.get(tools::TAG)?.as_u64(),
        Outcome::Failure(error) => tag_in(&error.message),
    }
}

fn tag_in(message: &str) -> Option<u64> {
    message.split_once('#')?.1.parse().ok()
}
