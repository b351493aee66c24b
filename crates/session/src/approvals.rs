//! The questions that this session has put to its client, and answers that need no run. Everything else of a question is the
//! ledger's. Knows no token.

use crate::facts::Slot;
use windlass_store::{Nonce, Question, QuestionNumber};
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId, ToolId};

/// An approval request whose end the client has not heard.
#[derive(Clone, Debug)]
pub(crate) struct AskedQuestion {
    pub(crate) number: QuestionNumber,
    /// The call's number, as the client knows it.
    pub(crate) call: CallNumber,
    pub(crate) tool: ToolId,
    pub(crate) turn: u64,
    /// The effect that its approval began, once that is known.
    pub(crate) effect_id: Option<EffectId>,
    /// What is recorded of its call where nothing comes of it.
    pub(crate) slot: Slot,
    /// Why an approval of it did not count yet.
    pub(crate) refused: Option<ErrorType>,
}

/// An answer that the ledger is asked about, and for which nothing can run.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    /// Under which the ledger answers.
    pub(crate) number: CallNumber,
    pub(crate) question: Box<Question>,
    pub(crate) nonce: Nonce,
    pub(crate) effect_id: EffectId,
    pub(crate) approved: bool,
}

/// Questions of one session that its client is shown; of more the oldest is forgotten here, and stays in the ledger.
const ASKED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Approvals {
    asked: Vec<AskedQuestion>,
    pending: Vec<PendingAnswer>,
    /// Further approvals of a request whose call is open. Each is told what comes of it.
    clicks: Vec<(QuestionNumber, u32)>,
}

impl Approvals {
    pub(crate) fn ask(&mut self, asked: AskedQuestion) {
        self.asked.retain(|known| known.number != asked.number);
        if self.asked.len() >= ASKED_MAX {
            self.asked.remove(0);
        }
        self.asked.push(asked);
    }

    pub(crate) fn get(&self, number: QuestionNumber) -> Option<&AskedQuestion> {
        self.asked.iter().find(|asked| asked.number == number)
    }

    pub(crate) fn approved(&mut self, number: QuestionNumber, effect_id: Option<EffectId>) {
        let mut asked = self.asked.iter_mut();
        if let Some(asked) = asked.find(|asked| asked.number == number) {
            asked.effect_id = effect_id;
        }
    }

    pub(crate) fn take(&mut self, number: QuestionNumber) -> Option<AskedQuestion> {
        let index = self.asked.iter().position(|asked| asked.number == number)?;
        Some(self.asked.remove(index))
    }

    /// The question whose approval, given anywhere, began this effect.
    pub(crate) fn of_effect(&self, effect_id: &EffectId) -> Option<&AskedQuestion> {
        let mut asked = self.asked.iter();
        asked.find(|asked| asked.effect_id.as_ref() == Some(effect_id))
    }

    /// Those that nobody has answered, as far as this session knows.
    pub(crate) fn open(&self) -> impl Iterator<Item = &AskedQuestion> {
        self.asked.iter().filter(|asked| asked.effect_id.is_none())
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.pending.len()
    }

    pub(crate) fn wait(&mut self, pending: PendingAnswer) {
        self.pending.push(pending);
    }

    pub(crate) fn take_pending(&mut self, number: CallNumber) -> Option<PendingAnswer> {
        let index = self.pending.iter().position(|one| one.number == number)?;
        Some(self.pending.remove(index))
    }

    pub(crate) fn click(&mut self, number: QuestionNumber) {
        match self.clicks.iter_mut().find(|(known, _)| *known == number) {
            Some((_, clicks)) => *clicks = clicks.saturating_add(1),
            None => self.clicks.push((number, 1)),
        }
    }

    pub(crate) fn take_clicks(&mut self, number: QuestionNumber) -> u32 {
        let found = self.clicks.iter().position(|(known, _)| *known == number);
        found.map_or(0, |index| self.clicks.swap_remove(index).1)
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether an approval is refused for a reason that it was not refused for before.
    pub(crate) fn is_refused_anew(&mut self, number: QuestionNumber, reason: ErrorType) -> bool {
        let mut asked = self.asked.iter_mut();
        asked
            .find(|asked| asked.number == number)
            .is_none_or(|asked| asked.refused.replace(reason) != Some(reason))
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Delivered, DeliveryKey};

    fn asked(number: u32) -> AskedQuestion {
        AskedQuestion {
            number: QuestionNumber(number),
            call: CallNumber(u64::from(number)),
            tool: ToolId::parse("order").unwrap(),
            turn: 1,
            effect_id: None,
            slot: Slot::unreadable(Delivered {
                number: CallNumber(u64::from(number)),
                batch: 0,
                key: DeliveryKey::Question(CallNumber(u64::from(number))).into(),
                unstable_id: None,
                name: "order".into(),
                turn: 1,
                generation: 0,
            }),
            refused: None,
        }
    }

    #[test]
    fn an_approval_is_refused_anew_for_another_reason_alone() {
        let mut approvals = Approvals::default();
        approvals.ask(asked(1));
        let mut is_new = |reason| approvals.is_refused_anew(QuestionNumber(1), reason);
        assert!(is_new(ErrorType::RateLimit));
        assert!(!is_new(ErrorType::RateLimit));
        assert!(is_new(ErrorType::BudgetExceeded));
    }

    #[test]
    fn a_question_is_taken_once_and_the_oldest_make_room() {
        let mut approvals = Approvals::default();
        approvals.ask(asked(1));
        assert!(approvals.take(QuestionNumber(1)).is_some());
        assert!(approvals.take(QuestionNumber(1)).is_none());
        for number in 1..=100 {
            approvals.ask(asked(number));
        }
        assert_eq!(approvals.open().count(), ASKED_MAX);
        assert!(approvals.get(QuestionNumber(1)).is_none());
    }

    #[test]
    fn an_approved_question_is_found_by_its_effect() {
        let mut approvals = Approvals::default();
        approvals.ask(asked(7));
        let effect = EffectId::new("e-1");
        approvals.approved(QuestionNumber(7), Some(effect.clone()));
        assert_eq!(
            approvals.of_effect(&effect).unwrap().number,
            QuestionNumber(7)
        );
        assert_eq!(approvals.open().count(), 0);
    }
}
