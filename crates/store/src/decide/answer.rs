//! Row 20 of the table: the user's answer to an approval request.

use super::{
    Begin, DecisionBuilder, EARLIER_MAX, NewEffect, await_end, covers, is_of_tool, keep_newest,
};
use crate::command::{AnswerVerdict, Approval, ApprovalAnswer, Refusal, Reply, Run, ToolFacts};
use crate::effect::{AttemptOutcome, Effect, LookupState};
use crate::id::{AttemptNumber, QuestionNumber};
use crate::log::{EffectState, QuestionState};
use crate::question::{Earlier, Hazards, Question};
use windlass_contract::id::EffectId;

impl DecisionBuilder<'_> {
    pub(super) fn answer(&mut self, answer: &ApprovalAnswer) -> Reply {
        let number = answer.token.question;
        let mut questions = self.questions.iter();
        let question = questions
            .find(|question| question.number == number)
            .cloned();
        let Some(question) = question.filter(|_| self.question == Some(number)) else {
            return Reply::Expired;
        };
        let is_meant = self.token(&question) == answer.token
            && question.user_id == self.context.conversation.user_id;
        if !is_meant {
            return Reply::Expired;
        }
        if self.rows.is_abandoned {
            return Reply::Refused(Refusal::Abandoned);
        }
        self.continue_paused(|effect| {
            let newest = effect.newest_attempt();
            newest.question == Some(number) && answer.again == Some(newest.number)
        });
        let reply = self.judge_answer(answer, question);
        self.end_continued();
        reply
    }

    fn judge_answer(&mut self, answer: &ApprovalAnswer, question: Question) -> Reply {
        let number = question.number;
        if let Some(reply) = self.answered_before(answer, &question) {
            return reply;
        }
        let approval = match &answer.verdict {
            AnswerVerdict::Denied { reason } => {
                self.change_question(number, QuestionState::Denied, None);
                let mut questions = self.questions.iter_mut();
                if let Some(denied) = questions.find(|denied| denied.number == number) {
                    denied.reason.clone_from(reason);
                }
                self.give_up_asking(&question);
                return self.denial(&question);
            }
            AnswerVerdict::Approved(approval) => approval,
        };
        let tool = approval.tool.as_ref();
        let Some(tool) = tool.filter(|tool| is_of_tool(&question, tool)) else {
            self.close_question(number, None);
            self.answered_with(number, answer);
            self.give_up_asking(&question);
            return Reply::Changed(Box::new(question));
        };
        self.settle_lapsed();
        if let Some(input) = &question.input {
            return self.answer_input(answer, approval, (&question, tool), input.run.as_ref());
        }
        // Effects of a repeatable tool are independent of each other.
        let is_read_task = tool.is_background && !tool.writes;
        let newest = self.newest();
        let newest = newest.filter(|_| !tool.repeatable || is_read_task).cloned();
        if let Some(running) = newest
            .as_ref()
            .filter(|effect| effect.state == EffectState::Running)
        {
            return await_end(running);
        }
        let mut hazards = self.hazards(tool);
        if !tool.repeatable && tool.has_hazards() {
            let mut begun = self.begun_meanwhile(&question, tool);
            begun.retain(|begun| !hazards.names(&begun.effect_id));
            keep_newest(&mut begun, EARLIER_MAX);
            hazards.earlier.extend(begun);
        }
        if !covers(&question.hazards, &hazards) {
            return self.ask_anew(&question, answer, approval, hazards);
        }
        if !approval.may_run {
            return Reply::Refused(Refusal::NotAllowed);
        }
        if !tool.writes && !tool.is_background {
            self.change_question(number, QuestionState::Approved, None);
            self.answered_with(number, answer);
            self.give_standing(&question, approval);
            return self.run_without_effect(&question, approval);
        }
        // A tool that changes nothing begins anew, whatever its earlier outcome.
        let newest = newest.filter(|_| !is_read_task);
        let newest = newest.filter(|effect| match effect.state {
            // An approval of a request that named the effect approves another try at it.
            EffectState::NotDone | EffectState::Unknown => true,
            EffectState::Running | EffectState::Done => false,
        });
        let newest = newest.map(|effect| effect.effect_id);
        // An approval that is used already is tried again at the effect that it began.
        let again = match question.state {
            QuestionState::Approved => question.effect_id.clone(),
            QuestionState::Open | QuestionState::Denied | QuestionState::Closed => newest,
        };
        self.begin_approved(answer, approval, (&question, tool), again)
    }

    /// The user has answered what a run wanted to know: it goes on in the next attempt. That is no approval of anything, so that nothing
    /// has to be named.
    fn answer_input(
        &mut self,
        answer: &ApprovalAnswer,
        approval: &Approval,
        (question, tool): (&Question, &ToolFacts),
        run: Option<&(EffectId, AttemptNumber)>,
    ) -> Reply {
        let Some((effect_id, attempt)) = run else {
            if !approval.may_run {
                return Reply::Refused(Refusal::NotAllowed);
            }
            self.change_question(question.number, QuestionState::Approved, None);
            self.answered_with(question.number, answer);
            return self.run_without_effect(question, approval);
        };
        let effect = self.place_of(effect_id).map(|index| &self.effects[index]);
        let asks = effect.is_some_and(|effect| {
            effect.state == EffectState::Running
                && effect.is_asking()
                && effect.newest_attempt().number == *attempt
        });
        if !asks {
            return self.what_came_of(effect_id);
        }
        if !approval.may_run {
            return Reply::Refused(Refusal::NotAllowed);
        }
        self.begin_approved(answer, approval, (question, tool), Some(effect_id.clone()))
    }

    /// Gives up a run that waits for the answer to its question. Its outcome is unknown.
    fn give_up_asking(&mut self, question: &Question) {
        let run = question.input.as_ref().and_then(|input| input.run.as_ref());
        let index = run.and_then(|(effect_id, _)| self.place_of(effect_id));
        let Some(index) = index.filter(|index| self.effects[*index].is_asking()) else {
            return;
        };
        self.effects[index].lookup = LookupState::NONE;
        self.settle(index, EffectState::Unknown);
    }

    /// Effects of another connection in the same user turn, and effects begun since the approval request was put: a model that lost its
    /// connection may have asked for the same change in other words, and the approval request could not name it.
    fn begun_meanwhile(&self, question: &Question, tool: &ToolFacts) -> Vec<Earlier> {
        let may_be_same = |effect: &&Effect| {
            let is_lost = effect.leg == question.leg
                && effect.onset == question.onset
                && effect.generation != question.generation;
            effect.key != question.key
                && effect.parent.is_none()
                && (is_lost || effect.near == question.near)
                && self.may_happen(effect, tool)
        };
        let begun = self.rows.begun_since.iter().filter(may_be_same);
        begun.map(Earlier::of).collect()
    }

    fn begin_approved(
        &mut self,
        answer: &ApprovalAnswer,
        approval: &Approval,
        (question, tool): (&Question, &ToolFacts),
        again: Option<EffectId>,
    ) -> Reply {
        let task = Self::task_of(tool, false);
        if let Some(refused) = self.refused_task(task.as_deref()) {
            return refused;
        }
        let new = NewEffect {
            effect_id: &answer.effect_id,
            key: question.key,
            near: question.near,
            key_spec: &tool.key_spec,
            tool: &question.tool,
            tool_version: &question.tool_version,
            arguments: &question.arguments,
            leg: &question.leg,
            generation: question.generation,
            onset: question.onset,
            parent: None,
            task,
            intent: &approval.intent,
            now_unix_ms: self.now_unix_ms,
        };
        let new = new.build();
        if let Some(index) = again
            .as_ref()
            .and_then(|effect_id| self.place_of(effect_id))
        {
            let effect = &mut self.effects[index];
            effect.leg = question.leg.clone();
            effect.generation = question.generation;
            effect.onset = question.onset;
            effect.arguments = question.arguments.clone();
            effect.tool_version = question.tool_version.clone();
            effect.intent = approval.intent.clone();
            effect.task.clone_from(&new.task);
            effect.is_audited = false;
        }
        let reply = self.run(Begin {
            again,
            new,
            nonce: answer.nonce,
            lease_ms: approval.lease_ms,
            question: Some(question.number),
            standing: None,
        });
        let Reply::Run(mut run) = reply else {
            return reply;
        };
        if question.state != QuestionState::Approved {
            let effect_id = run.effect_id.clone();
            self.change_question(question.number, QuestionState::Approved, effect_id);
            run.standing = self.give_standing(question, approval);
        }
        run.question = Some(question.clone());
        Reply::Run(run)
    }

    /// The reply to an answer if its approval request does not wait any more.
    fn answered_before(&mut self, answer: &ApprovalAnswer, question: &Question) -> Option<Reply> {
        // The reply to this very answer was lost.
        for effect in &self.effects {
            let mut attempts = effect.attempts.iter();
            if let Some(attempt) = attempts.find(|attempt| attempt.nonce == answer.nonce) {
                return Some(Reply::Run(Box::new(Run {
                    effect_id: Some(effect.effect_id.clone()),
                    attempt: attempt.number,
                    lease_end_unix_ms: attempt.lease_end_unix_ms,
                    question: Some(question.clone()),
                    standing: self.standing_of(question.number),
                })));
            }
        }
        let approval = match &answer.verdict {
            AnswerVerdict::Approved(approval) => Some(approval),
            AnswerVerdict::Denied { .. } => None,
        };
        // The reply to this answer was a further approval request, and was lost.
        let mut questions = self.questions.iter();
        let anew = questions.find(|other| {
            other.nonce == answer.nonce
                && other.number != question.number
                && other.is_open(self.now_unix_ms)
        });
        if let Some(anew) = anew {
            return Some(self.asked(anew.number, false));
        }
        match question.state {
            QuestionState::Open if question.is_open(self.now_unix_ms) => None,
            QuestionState::Denied => Some(self.denial(question)),
            QuestionState::Approved if self.is_to_be_tried_again(answer, question) => None,
            QuestionState::Approved => Some(match (&question.effect_id, approval) {
                (Some(effect_id), _) => self.what_came_of(effect_id),
                (None, Some(approval)) if question.nonce == answer.nonce => {
                    self.run_without_effect(question, approval)
                }
                (None, _) => Reply::Answered,
            }),
            QuestionState::Open | QuestionState::Closed => {
                let done_since = question.effect_id.clone();
                Some(match done_since {
                    Some(effect_id) => self.what_came_of(&effect_id),
                    None if question.nonce == answer.nonce => {
                        Reply::Changed(Box::new(question.clone()))
                    }
                    None => Reply::Expired,
                })
            }
        }
    }

    /// Whether the one attempt that this approval has begun has failed for certain, and no other was made since. The approval holds for
    /// the next attempt, too.
    fn is_to_be_tried_again(&self, answer: &ApprovalAnswer, question: &Question) -> bool {
        let effect_id = question.effect_id.as_ref();
        let place = effect_id.and_then(|effect_id| self.place_of(effect_id));
        let effect = place.map(|place| &self.effects[place]);
        effect.is_some_and(|effect| {
            let newest = effect.newest_attempt();
            effect.state == EffectState::NotDone
                && newest.question == Some(question.number)
                && newest.outcome == Some(AttemptOutcome::Failed)
                && answer.again == Some(newest.number)
        })
    }

    /// Keeps the answer's nonce with its approval request, if no attempt keeps it.
    fn answered_with(&mut self, number: QuestionNumber, answer: &ApprovalAnswer) {
        let mut questions = self.questions.iter_mut();
        if let Some(question) = questions.find(|question| question.number == number) {
            question.nonce = answer.nonce;
        }
    }

    fn run_without_effect(&self, question: &Question, approval: &Approval) -> Reply {
        Reply::Run(Box::new(Run {
            effect_id: None,
            attempt: AttemptNumber(1),
            lease_end_unix_ms: self.now_unix_ms.saturating_add(approval.lease_ms),
            question: Some(question.clone()),
            standing: self.standing_of(question.number),
        }))
    }

    fn denial(&self, question: &Question) -> Reply {
        let mut questions = self.questions.iter();
        let known = questions.find(|known| known.number == question.number);
        Reply::Denied(Box::new(known.unwrap_or(question).clone()))
    }

    fn what_came_of(&mut self, effect_id: &EffectId) -> Reply {
        self.settle_lapsed();
        let Some(index) = self.place_of(effect_id) else {
            return Reply::Expired;
        };
        let effect = Box::new(self.effects[index].clone());
        match effect.state {
            EffectState::Running => await_end(&effect),
            EffectState::Done | EffectState::NotDone => Reply::Replay(effect),
            EffectState::Unknown => Reply::Unknown(effect),
        }
    }

    /// Asks again, because the approval request did not name an effect that has happened, or may have. The earlier hazards are named
    /// again.
    fn ask_anew(
        &mut self,
        question: &Question,
        answer: &ApprovalAnswer,
        approval: &Approval,
        mut hazards: Hazards,
    ) -> Reply {
        let named = question.hazards.earlier.iter();
        let others = named.filter(|named| !hazards.names(&named.effect_id));
        let mut others: Vec<Earlier> = others.cloned().collect();
        others.append(&mut hazards.earlier);
        hazards.earlier = others;
        self.ask(Question {
            hazards,
            nonce: answer.nonce,
            asked_at_unix_ms: self.now_unix_ms,
            expires_at_unix_ms: self.now_unix_ms.saturating_add(approval.question_ms),
            ..question.clone()
        })
    }
}
