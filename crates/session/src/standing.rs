//! The standing approvals of the conversation that cover calls of this session, and the reports about them to client and audit. The
//! ledger decides which exist, and which call one covers: nothing here lets anything run.

use crate::client::{ClientUpdate, RevokeWay};
use crate::deadlines::Deadline;
use crate::dialogue::Dialogue;
use crate::event::{SessionEvent, StandingNote};
use crate::io::{Output, StandingNews};
use std::time::Duration;
use windlass_contract::id::CallNumber;
use windlass_contract::kind::Mode;
use windlass_store::{
    QuestionNumber, StandingApproval, StandingChange, StandingEnd, StandingEvent, StandingScope,
};

/// The approvals as the ledger had them last, including those whose time is over.
#[derive(Debug, Default)]
pub(crate) struct Standing(Vec<StandingApproval>);

impl Standing {
    /// Takes up the conversation's approvals when the session begins.
    pub(crate) fn restore(&mut self, known: Vec<StandingApproval>, dialogue: &mut Dialogue) {
        self.0 = known;
        self.0.retain(|known| is_for(known, dialogue));
        self.watch(dialogue);
    }

    /// The client is there, or there again, and is told the standing approvals, if there are any.
    pub(crate) fn show(&self, dialogue: &mut Dialogue) {
        if self.shown(dialogue).next().is_some() {
            self.tell(dialogue);
        }
    }

    /// The user has given a standing approval with the approval of a call of this session.
    pub(crate) fn given(
        &mut self,
        call: CallNumber,
        given: StandingApproval,
        dialogue: &mut Dialogue,
    ) {
        dialogue.step.event(SessionEvent::StandingApproval {
            approval: given.question,
            tool: given.tool.clone(),
            note: StandingNote::Given {
                call,
                expires_at_unix_ms: given.expires_at_unix_ms,
            },
        });
        let is_like = |known: &StandingApproval| {
            known.question == given.question
                || (known.tool == given.tool
                    && known.values == given.values
                    && known.scope == given.scope)
        };
        self.0.retain(|known| !is_like(known));
        if !is_for(&given, dialogue) {
            return;
        }
        self.0.push(given);
        self.watch(dialogue);
        self.tell(dialogue);
    }

    /// The ledger's approvals have changed. Only the session whose command ended one writes that down.
    pub(crate) fn learn(&mut self, news: StandingNews, dialogue: &mut Dialogue) {
        for StandingChange {
            question,
            tool,
            event,
        } in news.own
        {
            match event {
                // The session has already reported the changes by its own call or revocation.
                StandingEvent::Ended(why) if self.knows(question) => {
                    dialogue.step.event(SessionEvent::StandingApproval {
                        approval: question,
                        tool,
                        note: StandingNote::Ended { why, way: None },
                    });
                }
                StandingEvent::Given | StandingEvent::Used(_) | StandingEvent::Ended(_) => {}
            }
        }
        let mut known = news.standing;
        known.retain(|known| is_for(known, dialogue));
        let before: Vec<QuestionNumber> = self.shown(dialogue).map(|one| one.question).collect();
        for gone in &self.0 {
            dialogue.step.clear(Deadline::Standing(gone.question));
        }
        self.0 = known;
        self.watch(dialogue);
        let is_the_same = self.shown(dialogue).map(|one| one.question).eq(before);
        if !is_the_same {
            self.tell(dialogue);
        }
    }

    /// The client revokes a standing approval.
    pub(crate) fn revoke(
        &mut self,
        number: QuestionNumber,
        way: RevokeWay,
        dialogue: &mut Dialogue,
    ) {
        if let Some(index) = self.0.iter().position(|known| known.question == number) {
            let revoked = self.0.remove(index);
            dialogue.step.clear(Deadline::Standing(number));
            dialogue.step.event(SessionEvent::StandingApproval {
                approval: number,
                tool: revoked.tool,
                note: StandingNote::Ended {
                    why: StandingEnd::Revoked,
                    way: Some(way),
                },
            });
            dialogue.step.push(Output::Revoke(number));
        }
        // A client that names an unknown approval is told the existing ones.
        self.tell(dialogue);
    }

    /// The approval's time is over.
    pub(crate) fn expired(&mut self, number: QuestionNumber, dialogue: &mut Dialogue) {
        if self.end(number, StandingEnd::Expired, dialogue) {
            self.tell(dialogue);
        }
    }

    /// The session is over for good.
    pub(crate) fn session_ended(&mut self, dialogue: &mut Dialogue) {
        let of_session = |known: &&StandingApproval| match &known.scope {
            StandingScope::Session(_) => known.holds(dialogue.step.unix_ms()),
            StandingScope::Client(_) => false,
        };
        let ended: Vec<QuestionNumber> = self
            .0
            .iter()
            .filter(of_session)
            .map(|known| known.question)
            .collect();
        for number in ended {
            self.end(number, StandingEnd::SessionEnded, dialogue);
        }
    }

    fn end(&mut self, number: QuestionNumber, why: StandingEnd, dialogue: &mut Dialogue) -> bool {
        let Some(index) = self.0.iter().position(|known| known.question == number) else {
            return false;
        };
        let ended = self.0.remove(index);
        dialogue.step.clear(Deadline::Standing(number));
        dialogue.step.event(SessionEvent::StandingApproval {
            approval: number,
            tool: ended.tool,
            note: StandingNote::Ended { why, way: None },
        });
        true
    }

    fn knows(&self, number: QuestionNumber) -> bool {
        self.0.iter().any(|known| known.question == number)
    }

    fn shown<'s>(
        &'s self,
        dialogue: &Dialogue,
    ) -> impl Iterator<Item = &'s StandingApproval> + use<'s> {
        let now_unix_ms = dialogue.step.unix_ms();
        self.0.iter().filter(move |known| known.holds(now_unix_ms))
    }

    fn tell(&self, dialogue: &mut Dialogue) {
        let shown = self.shown(dialogue).cloned().collect();
        dialogue
            .step
            .tell_client(ClientUpdate::StandingApprovals(shown));
    }

    /// A session by voice lasts, so its client sees when an approval's time is over. In text mode the next turn is another session's.
    fn watch(&self, dialogue: &mut Dialogue) {
        if dialogue.step.config.mode == Mode::Text {
            return;
        }
        let now_unix_ms = dialogue.step.unix_ms();
        for known in &self.0 {
            let left_ms = known.expires_at_unix_ms.saturating_sub(now_unix_ms);
            let deadline = Deadline::Standing(known.question);
            dialogue
                .step
                .set_deadline(deadline, Duration::from_millis(left_ms));
        }
    }
}

/// Whether an approval is for calls of this session. In text mode the ledger tells one client from another.
fn is_for(known: &StandingApproval, dialogue: &Dialogue) -> bool {
    let config = &dialogue.step.config;
    match &known.scope {
        StandingScope::Session(leg) => *leg == config.session_id,
        StandingScope::Client(_) => config.mode == Mode::Text,
    }
}
