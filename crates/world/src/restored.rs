//! Sessions whose process is killed and whose client comes back with its token: what was saved of each, what the next one is
//! given, and what must hold of it.

use crate::count::{Fault, State};
use crate::lane::{Ended, Lane, Saved, Watch};
use crate::rules::Rule;
use crate::world::{Past, World};
use serde_json::Value;
use std::sync::Arc;
use windlass_session::io::{Continued, FoundQuestion, Input, Remembered, TokenHash};
use windlass_session::snapshot::{KnownQuestion, QuestionState, Restored};
use windlass_store::{Effect, Grant, GrantState, Store};
use windlass_tool::id::CallNumber;
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

impl World {
    /// The store gets what is new of a voice session, or the process is killed before it has.
    pub(crate) fn save(&mut self, index: usize) {
        if !self.lanes[index].is_live() {
            return;
        }
        if self.random.one_in(4) {
            return self.fault(Fault::SaveLost);
        }
        let lane = &mut self.lanes[index];
        let Some(session) = &lane.session else {
            return;
        };
        match lane.mode {
            Mode::Text => lane.ended = lane.text_ended(),
            Mode::Voice => {
                lane.saved = Some(Saved {
                    snapshot: session.snapshot(),
                    starts: lane.watch.starts.clone(),
                    charged: lane.watch.charged.clone(),
                });
            }
        }
    }

    /// A client begins, with the token of the session that it had where there is something to go on with.
    pub(crate) fn begin_or_resume(&mut self, index: usize) {
        let ended = self.lanes[index].ended.take();
        if let Some(ended) = ended.filter(|_| !self.random.one_in(4)) {
            return self.go_on_by_text(index, ended);
        }
        let saved = self.lanes[index].saved.take();
        let saved = saved.filter(|_| !self.random.one_in(4));
        let taken_up = saved.and_then(|saved| Some((self.restored(index, &saved)?, saved)));
        let Some((restored, saved)) = taken_up else {
            return self.begin(index);
        };
        self.fault(Fault::KilledAndResumed);
        self.resume(index, restored, saved);
    }

    fn resume(&mut self, index: usize, restored: Restored, saved: Saved) {
        let form = serde_json::to_value(&restored.snapshot).unwrap_or_default();
        let open_turn = form["open_turn"]["number"].as_u64();
        if open_turn.is_some() {
            self.report.counts.state(State::TurnTakenUp);
        }
        for taken_up in restored.questions.iter().filter(|one| is_open(one)) {
            self.report.counts.state(State::QuestionTakenUp);
            self.take_up(&taken_up.token_hash);
        }
        let watch = Watch {
            starts: saved.starts,
            charged: saved.charged,
            open_turn,
            last_turn: form["turns_begun"].as_u64().unwrap_or(0),
            external_in_context: form["external_in_context"] == Value::Bool(true)
                || restored.has_read,
            calls_before: form["last_call"].as_u64().unwrap_or(0),
            ..Watch::default()
        };
        self.begin_with(index, watch, Past::Restored(Box::new(restored)));
    }

    /// A session goes on with a conversation by text, with what the store has of it, where the store answers.
    pub(crate) fn go_on_by_text(&mut self, index: usize, ended: Ended) {
        let Some((remembered, continued)) = self.inherited(index, &ended) else {
            self.lanes[index].ended = Some(ended);
            return;
        };
        self.fault(Fault::WentOnByText);
        // It knows what the store does, and nothing else of the one before.
        let home = self.lanes[index].home;
        self.forget_refusals(home);
        for taken_up in &continued.questions {
            self.report.counts.state(State::QuestionTakenUp);
            self.take_up(&taken_up.token_hash);
        }
        let open = continued.questions.iter().map(|one| one.token_hash);
        let watch = Watch {
            asked: open.collect(),
            external_in_context: remembered.has_read,
            calls_before: ended.last_call.0,
            ..Watch::default()
        };
        let approved = continued.approved.iter();
        let approved: Vec<_> = approved.map(|one| one.token_hash).collect();
        self.begin_with(index, watch, Past::Inherited(remembered, continued));
        // The user's program may click once more.
        for token_hash in approved {
            if self.random.one_in(2) {
                self.confirm(index, token_hash, true);
            }
        }
    }

    /// A question has a session again, which alone knows what becomes of it.
    fn take_up(&mut self, token_hash: &TokenHash) {
        if let Some(question) = self.questions.get_mut(token_hash) {
            question.is_left_behind = false;
        }
    }

    fn inherited(&mut self, index: usize, ended: &Ended) -> Option<(Remembered, Continued)> {
        let (remembered, questions) = self.left(index)?;
        let (last_call, numbers) = (ended.last_call, &ended.questions);
        let continued = Continued::of(last_call, numbers, questions, &remembered.effects);
        Some((remembered, continued))
    }

    /// What a driver gives the core of the conversation, where the store answers.
    fn restored(&mut self, index: usize, saved: &Saved) -> Option<Restored> {
        let (remembered, questions) = self.left(index)?;
        // As the store gives it back.
        let form = serde_json::to_string(&saved.snapshot).ok()?;
        Some(Restored {
            snapshot: serde_json::from_str(&form).ok()?,
            questions,
            effects: remembered.effects,
            has_read: remembered.has_read,
        })
    }

    /// What the store has of a lane's conversation, and of the questions to its user.
    fn left(&mut self, index: usize) -> Option<(Remembered, Vec<KnownQuestion>)> {
        self.record_again();
        let lane = &self.lanes[index];
        let (conversation, user) = (lane.conversation.clone(), lane.user.clone());
        let now_unix_ms = self.unix_ms();
        let (effects, grants, has_read) = self
            .ask_store(|transaction| {
                Ok((
                    transaction.effects_of(&conversation, 0)?,
                    transaction.grants_of(&conversation, now_unix_ms)?,
                    transaction.has_read(&conversation, now_unix_ms)?,
                ))
            })
            .ok()?;
        let questions = grants.into_iter().filter(|grant| grant.user_id == user);
        let questions = questions.filter_map(known).collect();
        let effects = self.ledger_of(effects);
        Some((Remembered { effects, has_read }, questions))
    }

    /// A question that another session of the conversation has asked, and what came of it. One that is open may be taken up
    /// where the process is dead that asked it: what was taken back in this one the store may not have heard of.
    pub(crate) fn find_approval(&mut self, index: usize, token_hash: TokenHash) {
        self.record_again();
        let now_unix_ms = self.unix_ms();
        let found = self.ask_store(|transaction| {
            let Some(grant) = transaction.grant(&token_hash)? else {
                return Ok(None);
            };
            let effect = transaction.effect(&grant.effect_id)?;
            Ok(Some((grant, effect)))
        });
        let lane = &self.lanes[index];
        let asked = self.questions.get(&token_hash);
        let is_left_behind = asked.is_some_and(|question| question.is_left_behind);
        let is_the_users = |grant: &Grant| {
            (grant.state != GrantState::Open || is_left_behind)
                && grant.conversation_id == lane.conversation
                && grant.user_id == lane.user
                && now_unix_ms < grant.expires_at_unix_ms
        };
        let found = found.map(|found| found.filter(|(grant, _)| is_the_users(grant)));
        let found = found.map(|found| {
            let (grant, effect) = found?;
            self.found(grant, effect).map(Box::new)
        });
        if matches!(found, Ok(Some(_))) {
            self.report.counts.state(State::ApprovalFound);
        }
        if let Ok(Some(found)) = &found
            && let FoundQuestion::Open(question) = &**found
        {
            self.report.counts.state(State::QuestionTakenUp);
            let asked = &mut self.lanes[index].watch.asked;
            asked.insert(question.token_hash);
        }
        self.answer_of_store(index, Input::ApprovalFound { token_hash, found });
    }

    fn found(&self, grant: Grant, effect: Option<Effect>) -> Option<FoundQuestion> {
        let entry = self.ledger_of(effect.into_iter().collect()).pop();
        let response = entry.and_then(|entry| entry.response);
        known(grant).map(|question| FoundQuestion::of(question, response))
    }

    /// What the user was asked can still be answered after a restart.
    pub(crate) fn open_questions_are_taken_up(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let Some(session) = lane.session.as_ref().filter(|_| lane.is_live()) else {
            return;
        };
        let config = session.config();
        let now_unix_ms = self.unix_ms();
        let store: &dyn Store = &self.store;
        let grants =
            store.ask(|transaction| transaction.open_grants(&lane.conversation, now_unix_ms));
        let lost = grants.unwrap_or_default().into_iter().find(|grant| {
            let tool = config.registry.get(grant.tool.as_str());
            let is_same = tool.is_some_and(|tool| *tool.version == *grant.tool_version);
            let is_known = session.call_of_question(&grant.token_hash).is_some();
            is_same && grant.user_id == lane.user && !is_known
        });
        if let Some(grant) = lost {
            let what = format!("{} is not asked for any more", grant.effect_id);
            self.broken(Rule::OpenQuestionsAreTakenUp, what);
        }
    }

    /// The client knows calls by their numbers, so that no number of a saved call is given again.
    pub(crate) fn numbers_go_on(&mut self, index: usize, call: CallNumber) {
        let before = self.lanes[index].watch.calls_before;
        if call.0 <= before {
            let what = format!("{call} comes after call-{before}");
            self.broken(Rule::NumbersGoOn, what);
        }
    }
}

fn is_open(question: &KnownQuestion) -> bool {
    question.state == QuestionState::Open
}

impl Lane {
    /// Where its session by text has got to.
    pub(crate) fn text_ended(&self) -> Option<Ended> {
        let session = self.session.as_ref().filter(|_| self.mode == Mode::Text)?;
        Some(Ended {
            last_call: session.last_call(),
            questions: session
                .questions()
                .map(|(call, hash)| (hash, call))
                .collect(),
        })
    }
}

fn known(grant: Grant) -> Option<KnownQuestion> {
    let arguments = serde_json::from_str(grant.arguments.expose()).ok()?;
    Some(KnownQuestion {
        token_hash: grant.token_hash,
        effect_id: grant.effect_id,
        tool: grant.tool,
        tool_version: grant.tool_version.into(),
        fingerprint: grant.fingerprint,
        arguments: Sensitive(Arc::new(arguments)),
        state: match grant.state {
            GrantState::Open => QuestionState::Open,
            GrantState::Declined => QuestionState::Declined,
            GrantState::Consumed => QuestionState::Consumed,
        },
        expires_at_unix_ms: grant.expires_at_unix_ms,
    })
}
