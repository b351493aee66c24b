//! Rows 1 to 19 of the table: the decision about a request. The first match wins.

use super::{
    Begin, DecisionBuilder, EARLIER_MAX, NewEffect, await_end, covers, is_of_tool, keep_newest,
};
use crate::Hash;
use crate::command::{Refusal, Reply, Request, RequestOrigin, Run, ToolFacts};
use crate::effect::{AttemptOutcome, Effect};
use crate::id::{AttemptNumber, EffectKey, QuestionNumber};
use crate::leg::{Became, Delivery};
use crate::log::{EffectState, QuestionState};
use crate::question::{Certainty, Earlier, Hazards, Question, QuestionInput};
use sha2::{Digest, Sha256};
use windlass_contract::id::EffectId;

/// Whether a request belongs with the earlier ones of its key, or is a new one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Same,
    /// The user has begun another turn since.
    Later,
}

impl DecisionBuilder<'_> {
    pub(super) fn request(&mut self, request: &Request) -> Reply {
        // Row 1.
        if self.live_leg(&request.leg).is_none() {
            return Reply::Gone;
        }
        if self.rows.is_abandoned {
            return Reply::Refused(Refusal::Abandoned);
        }
        let Some(key) = self.key else {
            return Reply::Missing;
        };
        // Row 2.
        if let Some(reply) = self.acknowledged_before(request) {
            return reply;
        }
        if let Some(input) = &request.input {
            return self.ask_input(request, key, input);
        }
        self.end_lapsed_standing(Some(request));
        let (delivery, generation) = match &request.origin {
            RequestOrigin::Handler { parent, ordinal } => {
                return self.nested(request, key, parent, *ordinal);
            }
            RequestOrigin::Model {
                delivery,
                generation,
            } => (delivery, *generation),
        };
        let arguments = arguments_hash(request);
        let known = self.rows.delivery.take();
        // Row 3.
        let known = match known {
            Some(known) if known.arguments != arguments && known.generation == generation => {
                return Reply::Conflict;
            }
            // Ids of another connection may begin anew.
            Some(known) if known.arguments != arguments => None,
            known => known,
        };
        self.settle_lapsed();
        if let Some(Became::Effect(effect_id)) = known.as_ref().map(|known| &known.became) {
            self.continue_paused(|effect| effect.effect_id == *effect_id);
        }
        let onset = self.rows.onset;
        let turn = match onset {
            Some(onset) if onset > self.last_entry() => Turn::Later,
            Some(_) | None => Turn::Same,
        };
        // Row 4.
        let reply = match known.as_ref().map(|known| &known.became) {
            Some(Became::Effect(effect_id)) => {
                let effect_id = effect_id.clone();
                self.delivered_effect(request, key, &effect_id, generation)
            }
            Some(Became::Question(number)) => {
                self.delivered_question(request, key, *number, generation)
            }
            None => self.judge(request, key, turn, generation),
        };
        self.end_continued();
        let became = match &reply {
            Reply::Run(run) => run.effect_id.clone().map(Became::Effect),
            Reply::Attach(effect) | Reply::Replay(effect) | Reply::Unknown(effect) => {
                Some(Became::Effect(effect.effect_id.clone()))
            }
            Reply::Ask(asked) => Some(Became::Question(asked.question.number)),
            Reply::Denied(question) => Some(Became::Question(question.number)),
            _ => None,
        };
        if let Some(became) = became {
            self.deliver(Delivery {
                leg: request.leg.leg.clone(),
                id: delivery.clone(),
                generation,
                key,
                arguments,
                became,
            });
        }
        reply
    }

    /// Row 2: the reply to the same command was lost.
    fn acknowledged_before(&self, request: &Request) -> Option<Reply> {
        for effect in &self.effects {
            let mut attempts = effect.attempts.iter();
            if let Some(attempt) = attempts.find(|attempt| attempt.nonce == request.nonce) {
                return Some(Reply::Run(Box::new(Run {
                    effect_id: Some(effect.effect_id.clone()),
                    attempt: attempt.number,
                    lease_end_unix_ms: attempt.lease_end_unix_ms,
                    question: None,
                    standing: attempt.standing.and_then(|number| self.standing_of(number)),
                })));
            }
        }
        // The delivery decides about an approval request that is not open any more.
        let is_open = |question: &&Question| question.is_open(self.now_unix_ms);
        let mut questions = self.questions.iter().filter(is_open);
        let asked = questions.find(|question| question.nonce == request.nonce)?;
        Some(self.asked(asked.number, false))
    }

    /// Row 5.
    fn nested(
        &mut self,
        request: &Request,
        key: EffectKey,
        parent: &EffectId,
        ordinal: u32,
    ) -> Reply {
        self.settle_lapsed();
        let child = self.effects.first().cloned();
        if let Some(child) = &child {
            let is_same = child.tool == request.tool.id && child.arguments == request.arguments;
            if !is_same {
                return Reply::Conflict;
            }
            match child.state {
                EffectState::Running => return await_end(child),
                EffectState::Done => return self.replay(&child.effect_id, &request.leg.leg),
                EffectState::Unknown if self.may_look_up(child, request) => {
                    return self.look_up_at(0);
                }
                EffectState::Unknown => return Reply::Unknown(Box::new(child.clone())),
                // An earlier request may still land, and the user is not asked about a nested call.
                EffectState::NotDone if self.may_arrive(child, &request.tool) => {
                    return Reply::Unknown(Box::new(child.clone()));
                }
                EffectState::NotDone => {}
            }
        }
        if request.needs_consent {
            return Reply::Refused(Refusal::NestedConsent);
        }
        if !request.may_run {
            return Reply::Refused(Refusal::NotAllowed);
        }
        let again = child.map(|child| child.effect_id);
        let parent = Some((parent.clone(), ordinal));
        self.begin(request, key, (again, parent), (0, None))
    }

    fn may_look_up(&self, effect: &Effect, request: &Request) -> bool {
        request.tool.has_lookup && effect.lookup.is_due(self.now_unix_ms)
    }

    /// Row 4, for an effect: the same message again.
    fn delivered_effect(
        &mut self,
        request: &Request,
        key: EffectKey,
        effect_id: &EffectId,
        generation: u64,
    ) -> Reply {
        let state = self
            .place_of(effect_id)
            .map(|index| self.effects[index].state);
        match state {
            Some(EffectState::Running) => self.attach_to(effect_id),
            Some(EffectState::Done) => self.replay(effect_id, &request.leg.leg),
            // The same message asks for no further effect of a repeatable tool.
            Some(EffectState::Unknown) if request.tool.repeatable => {
                self.known_unknown(request, effect_id)
            }
            Some(EffectState::NotDone | EffectState::Unknown) | None => {
                self.judge(request, key, Turn::Same, generation)
            }
        }
    }

    /// A message that is known has an effect of unknown outcome.
    fn known_unknown(&mut self, request: &Request, effect_id: &EffectId) -> Reply {
        let Some(index) = self.place_of(effect_id) else {
            return Reply::Missing;
        };
        let effect = self.effects[index].clone();
        match self.may_look_up(&effect, request) {
            true => self.look_up_at(index),
            false => Reply::Unknown(Box::new(effect)),
        }
    }

    /// Row 4, for an approval request.
    fn delivered_question(
        &mut self,
        request: &Request,
        key: EffectKey,
        number: QuestionNumber,
        generation: u64,
    ) -> Reply {
        let mut questions = self.questions.iter();
        let question = questions
            .find(|question| question.number == number)
            .cloned();
        match question {
            Some(question) if question.state == QuestionState::Denied => {
                self.denied(question, request)
            }
            Some(Question {
                effect_id: Some(effect_id),
                ..
            }) => self.delivered_effect(request, key, &effect_id, generation),
            Some(_) | None => self.judge(request, key, Turn::Same, generation),
        }
    }

    /// Rows 6 to 19.
    fn judge(&mut self, request: &Request, key: EffectKey, turn: Turn, generation: u64) -> Reply {
        let newest = self.newest().cloned();
        // Row 6. A background tool that changes nothing runs once at a time.
        let is_read_task = request.tool.is_background && !request.tool.writes;
        let runs = |effect: &&Effect| effect.state == EffectState::Running;
        if let Some(running) = newest.as_ref().filter(|_| is_read_task).filter(runs) {
            return self.attach_to(&running.effect_id.clone());
        }
        if request.tool.repeatable || is_read_task {
            return self.repeat(request, key, turn, generation, newest);
        }
        // Row 7; row 8 was applied when the rows were read.
        if let Some(running) = newest
            .as_ref()
            .filter(|effect| effect.state == EffectState::Running)
        {
            return self.attach_to(&running.effect_id.clone());
        }
        // Rows 9 and 10.
        if let Some(reply) = self.open_question(request, key) {
            return reply;
        }
        // Row 11.
        if let Some(reply) = self.denied_before(request, turn) {
            return reply;
        }
        match newest {
            Some(effect) => self.after(request, key, turn, generation, effect),
            None => self.ask_or_run(request, key, generation, None),
        }
    }

    /// Rows 12 to 16: the key has an effect that is not running.
    fn after(
        &mut self,
        request: &Request,
        key: EffectKey,
        turn: Turn,
        generation: u64,
        newest: Effect,
    ) -> Reply {
        let hazards = self.hazards(&request.tool);
        match newest.state {
            EffectState::Running => self.attach_to(&newest.effect_id),
            EffectState::Unknown if self.may_look_up(&newest, request) => {
                match self.place_of(&newest.effect_id) {
                    Some(index) => self.look_up_at(index),
                    None => Reply::Missing,
                }
            }
            EffectState::Unknown => match request.can_ask {
                true => self.ask_naming(request, key, hazards),
                false => Reply::Unknown(Box::new(newest)),
            },
            EffectState::Done if turn == Turn::Same || !newest.is_heard => {
                self.replay(&newest.effect_id, &request.leg.leg)
            }
            EffectState::Done => match request.can_ask {
                true => self.ask_naming(request, key, hazards),
                false => self.replay(&newest.effect_id, &request.leg.leg),
            },
            EffectState::NotDone if !hazards.earlier.is_empty() => {
                self.after_older(request, key, hazards)
            }
            EffectState::NotDone => {
                self.ask_or_run(request, key, generation, Some(newest.effect_id))
            }
        }
    }

    /// Row 16: the newest effect has not happened, and an older one has, or may have; or the request of the newest may still land.
    fn after_older(&mut self, request: &Request, key: EffectKey, hazards: Hazards) -> Reply {
        if request.can_ask {
            return self.ask_naming(request, key, hazards);
        }
        let mut earlier = hazards.earlier.iter();
        let in_doubt = earlier.find(|earlier| earlier.certainty == Certainty::MayHaveHappened);
        let told = in_doubt.or(hazards.earlier.last());
        let Some(index) = told.and_then(|earlier| self.place_of(&earlier.effect_id)) else {
            // An effect near the key is not certainly the same.
            return Reply::Refused(Refusal::NobodyToAsk);
        };
        match self.effects[index].state {
            EffectState::Done => {
                self.replay(&self.effects[index].effect_id.clone(), &request.leg.leg)
            }
            EffectState::Running | EffectState::NotDone | EffectState::Unknown => {
                Reply::Unknown(Box::new(self.effects[index].clone()))
            }
        }
    }

    /// Row 6: only deliveries are recognised, and requests that were lost with a connection.
    fn repeat(
        &mut self,
        request: &Request,
        key: EffectKey,
        turn: Turn,
        generation: u64,
        newest: Option<Effect>,
    ) -> Reply {
        let lost = newest.filter(|effect| {
            effect.leg == request.leg.leg && effect.generation < generation && !effect.is_heard
        });
        match lost.map(|effect| (effect.state, effect.effect_id)) {
            Some((EffectState::Running, effect_id)) => return self.attach_to(&effect_id),
            Some((EffectState::Done, effect_id)) => {
                return self.replay(&effect_id, &request.leg.leg);
            }
            Some((EffectState::NotDone | EffectState::Unknown, _)) | None => {}
        }
        if let Some(reply) = self.open_question(request, key) {
            return reply;
        }
        if let Some(reply) = self.denied_before(request, turn) {
            return reply;
        }
        self.ask_or_run(request, key, generation, None)
    }

    /// Rows 9 and 10: an approval request of the key waits. If it is shown it can be answered: within one user turn it stays, even if
    /// the arguments differ now, unless an approval of it would not count.
    fn open_question(&mut self, request: &Request, key: EffectKey) -> Option<Reply> {
        let hazards = self.hazards(&request.tool);
        let mut questions = self.questions.iter();
        let open = questions.find(|question| question.is_open(self.now_unix_ms))?;
        if let Some(effect_id) = self.settled_doubt(open, &request.tool) {
            let number = open.number;
            self.close_question(number, Some(effect_id));
            return None;
        }
        let (number, ends_at_unix_ms) = (open.number, open.expires_at_unix_ms);
        // It runs already, and no further call changes what it asks.
        if open.input.is_some() {
            return Some(self.asked(number, true));
        }
        let is_same = open.arguments == request.arguments;
        let still_holds = is_of_tool(open, &request.tool) && covers(&open.hazards, &hazards);
        let is_of_turn = self.rows.onset.is_none_or(|onset| onset <= open.last_entry);
        if !request.can_ask {
            return Some(Reply::Refused(Refusal::NobodyToAsk));
        }
        if still_holds && is_same {
            let expires_at_unix_ms = self.now_unix_ms.saturating_add(request.question_ms);
            self.repeat_question(number, expires_at_unix_ms);
            return Some(self.asked(number, true));
        }
        if still_holds && is_of_turn {
            self.repeat_question(number, ends_at_unix_ms);
            return Some(self.asked(number, true));
        }
        Some(self.ask_naming(request, key, hazards))
    }

    /// The effect that a question names as one that may have happened, if its outcome is known by now. Such a question is closed: the repeated
    /// request gets the outcome, or the effect is tried again.
    fn settled_doubt(&self, question: &Question, tool: &ToolFacts) -> Option<EffectId> {
        let earlier = question.hazards.earlier.iter();
        let mut doubts = earlier.filter(|earlier| earlier.certainty == Certainty::MayHaveHappened);
        let settled = doubts.find_map(|doubt| {
            let effect = &self.effects[self.place_of(&doubt.effect_id)?];
            let is_settled = match effect.state {
                EffectState::Done => true,
                EffectState::NotDone => !self.may_happen(effect, tool),
                EffectState::Running | EffectState::Unknown => false,
            };
            is_settled.then_some(effect)
        })?;
        Some(settled.effect_id.clone())
    }

    /// Row 11: the user has denied it, and nothing has happened since.
    fn denied_before(&mut self, request: &Request, turn: Turn) -> Option<Reply> {
        let last = self.last_entry();
        let mut questions = self.questions.iter();
        let newest = questions.find(|question| {
            question.state == QuestionState::Denied && question.last_entry == last
        });
        let denied = newest.cloned().filter(|_| turn == Turn::Same)?;
        Some(self.denied(denied, request))
    }

    fn denied(&mut self, question: Question, request: &Request) -> Reply {
        let mut questions = self.questions.iter_mut();
        if let Some(known) = questions.find(|known| known.number == question.number)
            && known.leg == request.leg.leg
            && !std::mem::replace(&mut known.is_heard, true)
        {
            self.changed_questions.push(question.number);
        }
        Reply::Denied(Box::new(question))
    }

    /// Rows 17 to 19.
    fn ask_or_run(
        &mut self,
        request: &Request,
        key: EffectKey,
        generation: u64,
        again: Option<EffectId>,
    ) -> Reply {
        // Row 17.
        let lost = self.asked_before_reconnect(request, key, generation);
        let is_near = self.near(&request.tool).next().is_some();
        if (is_near || !lost.is_empty()) && !request.tool.repeatable && request.tool.writes {
            // The request may be the same change in other words, and only a person can tell.
            if !request.can_ask {
                return Reply::Refused(Refusal::NobodyToAsk);
            }
            let mut hazards = self.hazards(&request.tool);
            let lost = lost
                .into_iter()
                .filter(|lost| !hazards.names(&lost.effect_id));
            let mut lost: Vec<Earlier> = lost.collect();
            keep_newest(&mut lost, EARLIER_MAX);
            hazards.earlier.extend(lost);
            return self.ask_naming(request, key, hazards);
        }
        // Row 18.
        let external = self.conversation.has_external_content
            && !request.ignores_external_content
            && request.tool.writes;
        let standing = match request.needs_consent {
            true => self.standing_for(request),
            false => None,
        };
        if external || (request.needs_consent && standing.is_none()) {
            return match request.can_ask {
                true => self.ask_naming(request, key, self.hazards(&request.tool)),
                false => Reply::Refused(Refusal::NobodyToAsk),
            };
        }
        // Row 19.
        if !request.may_run {
            return Reply::Refused(Refusal::NotAllowed);
        }
        if !request.tool.writes && !request.tool.is_background {
            if let Some(standing) = &standing {
                self.use_standing(standing, None, &request.leg.leg);
            }
            return Reply::Run(Box::new(Run {
                effect_id: None,
                attempt: AttemptNumber(1),
                lease_end_unix_ms: self.now_unix_ms.saturating_add(request.lease_ms),
                question: None,
                standing: standing.map(Box::new),
            }));
        }
        let number = standing.as_ref().map(|standing| standing.question);
        let again = again.or_else(|| self.continued.clone());
        let mut reply = self.begin(request, key, (again, None), (generation, number));
        if let (Reply::Run(run), Some(standing)) = (&mut reply, standing) {
            self.use_standing(&standing, run.effect_id.clone(), &request.leg.leg);
            run.standing = Some(Box::new(standing));
        }
        reply
    }

    /// Effects of the same tool that were asked for on another connection, and not heard of: a model that lost its connection may ask
    /// for the same in other words, and the older request may be decided last.
    fn asked_before_reconnect(
        &self,
        request: &Request,
        key: EffectKey,
        generation: u64,
    ) -> Vec<Earlier> {
        let is_lost = |effect: &&Effect| {
            effect.key != key
                && effect.parent.is_none()
                && effect.leg == request.leg.leg
                && effect.onset == self.rows.onset
                && effect.generation != generation
                && !effect.is_heard
                && self.may_happen(effect, &request.tool)
        };
        self.rows
            .unheard
            .iter()
            .filter(is_lost)
            .map(Earlier::of)
            .collect()
    }

    fn attach_to(&mut self, effect_id: &EffectId) -> Reply {
        // The effect waits for the user's answer, if it has an open question.
        let mut questions = self.questions.iter();
        let open = questions.find(|question| {
            let run = question.input.as_ref().and_then(|input| input.run.as_ref());
            question.is_open(self.now_unix_ms) && run.is_some_and(|(of, _)| of == effect_id)
        });
        if let Some(number) = open.map(|question| question.number) {
            return self.asked(number, true);
        }
        match self.place_of(effect_id) {
            Some(index) => await_end(&self.effects[index]),
            None => Reply::Missing,
        }
    }

    /// Asks the user the question of a run's service. The effect stays begun, and goes on by the answer.
    fn ask_input(&mut self, request: &Request, key: EffectKey, input: &QuestionInput) -> Reply {
        self.settle_lapsed();
        let place = match &input.run {
            Some((effect_id, attempt)) => {
                let Some(index) = self.place_of(effect_id) else {
                    return Reply::Missing;
                };
                let effect = &self.effects[index];
                let newest = effect.newest_attempt();
                let runs = effect.state == EffectState::Running
                    && newest.number == *attempt
                    && newest.outcome.is_none();
                if !runs {
                    return Reply::Unknown(Box::new(effect.clone()));
                }
                Some(index)
            }
            None => None,
        };
        if !request.can_ask {
            return Reply::Refused(Refusal::NobodyToAsk);
        }
        if input.asked.expose().len() > self.context.limits.question_bytes_max {
            return Reply::Refused(Refusal::TooLong);
        }
        let question = Question {
            input: Some(Box::new(input.clone())),
            ..self.question_of(request, key, Hazards::default())
        };
        let until_unix_ms = question.expires_at_unix_ms;
        let open = self.open_input(request).filter(|_| place.is_none());
        let reply = match open {
            Some(number) => self.asked(number, true),
            None => self.ask(question),
        };
        if let (Reply::Ask(asked), Some(index)) = (&reply, place) {
            let effect = &mut self.effects[index];
            if let Some(attempt) = effect.attempts.last_mut() {
                attempt.outcome = Some(AttemptOutcome::Asked { until_unix_ms });
                attempt.lease_end_unix_ms = until_unix_ms;
            }
            self.changed_effects.push(effect.effect_id.clone());
            return Reply::Ask(asked.clone());
        }
        if let (
            Reply::Ask(asked),
            RequestOrigin::Model {
                delivery,
                generation,
            },
        ) = (&reply, &request.origin)
        {
            // The same message again is answered by what comes of the question.
            self.deliver(Delivery {
                leg: request.leg.leg.clone(),
                id: delivery.clone(),
                generation: *generation,
                key,
                arguments: arguments_hash(request),
                became: Became::Question(asked.question.number),
            });
        }
        reply
    }

    /// The open question of a service to a reading call that is the same: the user may be answering it, and needs no second one.
    fn open_input(&self, request: &Request) -> Option<QuestionNumber> {
        let mut questions = self.questions.iter();
        let open = questions.find(|question| {
            let reads = |input: &QuestionInput| input.run.is_none();
            question.is_open(self.now_unix_ms)
                && question.input.as_deref().is_some_and(reads)
                && is_of_tool(question, &request.tool)
        })?;
        Some(open.number)
    }

    fn ask_naming(&mut self, request: &Request, key: EffectKey, hazards: Hazards) -> Reply {
        if !request.may_run {
            return Reply::Refused(Refusal::NotAllowed);
        }
        let question = self.question_of(request, key, hazards);
        self.ask(question)
    }

    fn question_of(&self, request: &Request, key: EffectKey, hazards: Hazards) -> Question {
        Question {
            number: QuestionNumber(0),
            key,
            near: self.near_key.unwrap_or(key),
            tool: request.tool.id.clone(),
            tool_version: request.tool.version.clone(),
            handler_hash: request.tool.handler_hash.clone(),
            arguments: request.arguments.clone(),
            preview: request.preview.clone(),
            hazards,
            because: request.because.clone(),
            clock: request.clock.clone(),
            mode: request.mode,
            user_id: self.conversation.user_id.clone(),
            leg: request.leg.leg.clone(),
            call: request.call,
            generation: match &request.origin {
                RequestOrigin::Model { generation, .. } => *generation,
                RequestOrigin::Handler { .. } => 0,
            },
            onset: self.rows.onset,
            nonce: request.nonce,
            state: QuestionState::Open,
            reason: None,
            effect_id: None,
            last_entry: Default::default(),
            is_heard: true,
            input: None,
            asked_at_unix_ms: self.now_unix_ms,
            expires_at_unix_ms: self.now_unix_ms.saturating_add(request.question_ms),
        }
    }

    fn begin(
        &mut self,
        request: &Request,
        key: EffectKey,
        (again, parent): (Option<EffectId>, Option<(EffectId, u32)>),
        (generation, standing): (u64, Option<QuestionNumber>),
    ) -> Reply {
        let task = Self::task_of(&request.tool, parent.is_some());
        if let Some(refused) = self.refused_task(task.as_deref()) {
            return refused;
        }
        let new = NewEffect {
            effect_id: &request.effect_id,
            key,
            near: self.near_key.unwrap_or(key),
            key_spec: &request.tool.key_spec,
            tool: &request.tool.id,
            tool_version: &request.tool.version,
            arguments: &request.arguments,
            leg: &request.leg.leg,
            generation,
            onset: self.rows.onset,
            parent,
            task,
            intent: &request.intent,
            now_unix_ms: self.now_unix_ms,
        };
        let new = new.build();
        if let Some(index) = again
            .as_ref()
            .and_then(|effect_id| self.place_of(effect_id))
        {
            // A new try belongs to this leg, with the arguments of the present request.
            let effect = &mut self.effects[index];
            effect.leg = new.leg.clone();
            effect.generation = generation;
            effect.onset = new.onset;
            effect.tool_version = new.tool_version.clone();
            effect.arguments = new.arguments.clone();
            effect.intent = new.intent.clone();
            effect.task.clone_from(&new.task);
            effect.is_audited = false;
        }
        self.run(Begin {
            again,
            new,
            nonce: request.nonce,
            lease_ms: request.lease_ms,
            question: None,
            standing,
        })
    }
}

/// Tells two deliveries under one id apart.
fn arguments_hash(request: &Request) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(request.tool.id.as_str().as_bytes());
    hasher.update([0]);
    hasher.update(request.arguments.expose().as_bytes());
    hasher.finalize().into()
}
