//! The commits of the store, for the judge: grants, requests and refusals, also the ones that no session hears of. Knows no rule.

use crate::clock::BEGINNING_UNIX_MS;
use crate::count::{Fault, State};
use crate::judge::Rule;
use crate::tools::{self, Edition};
use crate::world::World;
use serde_json::Value;
use windlass_contract::id::{ConversationId, EffectId, SessionId, ToolId};
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;
use windlass_store::command::{AnswerVerdict, Command, Reply, Request};
use windlass_store::{AttemptNumber, EntryNumber, LegRef, Question, QuestionNumber};

const WEEK_MS: u64 = 7 * 24 * 3_600_000;

/// One thing that was committed.
#[derive(Debug)]
pub(crate) enum LedgerNote {
    /// Something was said or done in the conversation.
    Used,
    /// An attempt was granted to a session.
    Granted(EffectId, AttemptNumber),
    /// The user is asked, by this leg or in place of an earlier request that was answered.
    Asked {
        question: Box<Question>,
        by: Asker,
    },
    Approved {
        question: QuestionNumber,
        run: Option<(EffectId, AttemptNumber)>,
        at_unix_ms: u64,
    },
    /// An attempt was granted that needs consent, and no user was asked about it.
    Covered(Box<CoveredFacts>),
    Revoked(QuestionNumber),
    /// The run that an approval has begun was abandoned.
    Abandoned(QuestionNumber),
    Denied(QuestionNumber),
    /// The tool differs from the approved one.
    Changed(QuestionNumber),
    /// The ledger does not take commands of this leg any more.
    Gone(LegRef, &'static str),
    Left(LegRef),
    /// A process has the leg from now on, whether or not it hears that.
    TakenOver(LegRef),
    /// The leg begins, or is said to have begun before.
    Begun(LegRef),
}

#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Leg(LegRef),
    Answer(QuestionNumber),
    /// It was asked before.
    Again,
}

/// The judge's note of a reply.
pub(crate) fn note_of(command: &Command, reply: &Reply) -> Option<LedgerNote> {
    Some(match (command, reply) {
        (Command::Request(request), Reply::Ask(asked)) => LedgerNote::Asked {
            question: Box::new(asked.question.clone()),
            by: match asked.is_repeated {
                true => Asker::Again,
                false => Asker::Leg(request.leg.clone()),
            },
        },
        (Command::Answer(answer), Reply::Ask(asked)) => LedgerNote::Asked {
            question: Box::new(asked.question.clone()),
            by: Asker::Answer(answer.token.question),
        },
        (Command::Answer(answer), Reply::Run(run)) => LedgerNote::Approved {
            question: answer.token.question,
            run: run
                .effect_id
                .clone()
                .map(|effect_id| (effect_id, run.attempt)),
            at_unix_ms: match &answer.verdict {
                AnswerVerdict::Approved(approval) => {
                    run.lease_end_unix_ms.saturating_sub(approval.lease_ms)
                }
                AnswerVerdict::Denied { .. } => return None,
            },
        },
        (Command::Answer(answer), Reply::Denied(_)) => match answer.verdict {
            AnswerVerdict::Denied { .. } => LedgerNote::Denied(answer.token.question),
            AnswerVerdict::Approved(_) => return None,
        },
        (Command::Request(request), Reply::Run(run)) if request.needs_consent => {
            LedgerNote::Covered(Box::new(CoveredFacts {
                run: run
                    .effect_id
                    .clone()
                    .map(|effect_id| (effect_id, run.attempt)),
                request: (**request).clone(),
                at_unix_ms: run.lease_end_unix_ms.saturating_sub(request.lease_ms),
            }))
        }
        (Command::Revoke { question, .. }, _) => LedgerNote::Revoked(*question),
        (Command::Abandon { question, .. }, _) => LedgerNote::Abandoned((*question)?),
        (_, Reply::Run(run)) => match &run.effect_id {
            Some(effect_id) => LedgerNote::Granted(effect_id.clone(), run.attempt),
            None => LedgerNote::Used,
        },
        (_, Reply::Changed(question)) => LedgerNote::Changed(question.number),
        (command, Reply::Gone) => {
            LedgerNote::Gone(leg_of(command)?, crate::count::kind_of(command))
        }
        (Command::Resume(_), Reply::Resumed(resumed)) => LedgerNote::TakenOver(LegRef {
            leg: resumed.leg.leg.clone(),
            epoch: resumed.leg.epoch,
        }),
        (Command::Leave(leg), Reply::Done) => LedgerNote::Left(leg.clone()),
        (Command::Attach(new), Reply::Attached { epoch }) => LedgerNote::Begun(LegRef {
            leg: new.leg.clone(),
            epoch: *epoch,
        }),
        (_, Reply::Opened(_)) => LedgerNote::Used,
        (_, Reply::Appended(entries)) if !entries.is_empty() => LedgerNote::Used,
        _ => return None,
    })
}

fn leg_of(command: &Command) -> Option<LegRef> {
    match command {
        Command::Save { leg, .. }
        | Command::Leave(leg)
        | Command::Append { leg, .. }
        | Command::Withdraw { leg, .. } => Some(leg.clone()),
        Command::Request(request) => Some(request.leg.clone()),
        _ => None,
    }
}

impl World {
    pub(crate) fn note_committed(
        &mut self,
        place: usize,
        conversation: &ConversationId,
        note: LedgerNote,
    ) {
        let mut known = self.conversations.iter();
        let Some(of) = known.position(|known| known.conversation_id == *conversation) else {
            return;
        };
        match note {
            LedgerNote::Used => self.note_used(of),
            LedgerNote::Granted(effect_id, attempt) => {
                self.note_used(of);
                self.judge.granted.insert((effect_id, attempt));
            }
            LedgerNote::Asked { question, by } => {
                self.note_used(of);
                self.note_asked(of, *question, &by);
            }
            LedgerNote::Covered(covered) => {
                self.note_used(of);
                self.judge_covered(of, *covered);
            }
            LedgerNote::Revoked(number) => {
                let standing = &mut self.judge.standing;
                standing
                    .retain(|known| (known.conversation, known.question.number) != (of, number));
            }
            LedgerNote::Abandoned(number) => {
                self.judge.remembered.remove(&(of, number));
            }
            LedgerNote::Approved {
                question,
                run,
                at_unix_ms,
            } => {
                self.note_used(of);
                self.judge.granted.extend(run);
                self.note_remembered(of, question, at_unix_ms);
                if let Some(question) = self.judge.questions.get_mut(&(of, question)) {
                    question.is_approved = true;
                }
            }
            LedgerNote::Denied(number) => {
                self.note_used(of);
                if let Some(question) = self.judge.questions.get_mut(&(of, number)) {
                    question.is_denied = true;
                }
            }
            LedgerNote::Changed(number) => {
                self.note_used(of);
                if let Some(question) = self.judge.questions.get_mut(&(of, number)) {
                    question.is_changed = true;
                }
            }
            LedgerNote::Left(leg) => {
                let standing = &mut self.judge.standing;
                standing.retain(|known| {
                    known.question.mode == Mode::Text || known.question.leg != leg.leg
                });
                self.judge.left.insert(leg.leg);
            }
            LedgerNote::TakenOver(leg) => {
                self.note_used(of);
                let newest = self.judge.epochs.entry(leg.leg).or_insert(leg.epoch);
                *newest = leg.epoch.max(*newest);
            }
            LedgerNote::Begun(leg) => {
                self.note_used(of);
                self.judge_begun(&leg);
            }
            LedgerNote::Gone(leg, kind) => self.judge_gone(place, &leg, kind),
        }
    }

    /// A command that comes again takes no leg from the process that has resumed it.
    fn judge_begun(&mut self, leg: &LegRef) {
        let newest = self.judge.epochs.get(&leg.leg);
        if let Some(newest) = newest.filter(|newest| leg.epoch > **newest) {
            let what = format!("{leg:?} begins, and the last that had it was {newest:?}");
            self.broken(Rule::NoLegIsTakenBack, what);
        }
    }

    /// An approval has let its call run for the first time, and its user wanted it remembered: it may stand for the calls that follow.
    fn note_remembered(&mut self, of: usize, number: QuestionNumber, given_unix_ms: u64) {
        let place = (of, number);
        let is_first = self.judge.remembered.insert(place);
        let is_wanted = self.judge.remembers.contains(&place);
        let asked = self.judge.questions.get(&place).cloned();
        let Some(asked) = asked.filter(|_| is_wanted && is_first) else {
            return;
        };
        // The user saw a hazard, and was asked about that one call.
        let is_consent = asked.question.input.is_none();
        let has_places = tools::has_places(asked.question.tool.as_str());
        if is_consent && asked.question.hazards.is_empty() && has_places {
            self.judge.standing.push(StandingFacts {
                conversation: of,
                edition: asked.edition,
                question: asked.question,
                given_unix_ms,
            });
        }
    }

    /// The user's approval for calls such as this one, if it was not revoked.
    fn standing_for(&self, of: usize, call: &PlacedCall<'_>) -> Option<&StandingFacts> {
        let place = place_of(call.arguments);
        let offer = self.judge.offers.get(call.leg);
        let edition = offer.map(|offer| offer.edition());
        self.judge.standing.iter().find(|known| {
            let question = &known.question;
            let minutes = Limits::of(question.mode).standing_approval_minutes;
            known.conversation == of
                && question.tool == *call.tool
                && known.place() == place
                && edition == Some(known.edition)
                && question.mode == call.mode
                && (question.mode == Mode::Text || question.leg == *call.leg)
                && call.at_unix_ms < known.given_unix_ms + minutes * 60_000
        })
    }

    /// A call that needs consent runs unasked. That is right only if its user has approved such calls, and has not revoked that.
    fn judge_covered(&mut self, of: usize, covered: CoveredFacts) {
        let CoveredFacts {
            run,
            request,
            at_unix_ms,
        } = covered;
        // The same request again, whose reply was lost.
        let is_known = |run: &(EffectId, AttemptNumber)| self.judge.covered.contains_key(run);
        if run.as_ref().is_some_and(is_known) {
            return;
        }
        let standing = self.standing_for(
            of,
            &PlacedCall {
                tool: &request.tool.id,
                arguments: request.arguments.expose(),
                leg: &request.leg.leg,
                mode: request.mode,
                at_unix_ms,
            },
        );
        let Some(edition) = standing.map(|standing| standing.edition) else {
            let what = format!("nobody approved such calls as {request:?}");
            return self.broken(Rule::NothingWithoutConsent, what);
        };
        if request.tool.is_background {
            self.report.counts.state(State::TaskByStanding);
        }
        if let Some(run) = run {
            self.judge.covered.insert(run.clone(), edition);
            self.judge.granted.insert(run);
        }
    }

    /// A forgotten conversation begins anew: its earlier facts are not looked for any more.
    fn note_used(&mut self, of: usize) {
        let reference = &self.conversations[of];
        let store = self.any_store();
        let known = store
            .inner()
            .conversation(&reference.tenant, &reference.conversation_id);
        let known = known.ok().flatten();
        let begun_unix_ms = known.as_ref().map(|known| known.begun_at_unix_ms);
        // A conversation in which nothing was said is over with its last session.
        let is_empty = known.is_none_or(|known| known.last_entry == EntryNumber(0));
        let facts = &mut self.judge.conversations[of];
        let was_empty = std::mem::replace(&mut facts.is_empty, is_empty);
        let before = std::mem::replace(&mut facts.begun_unix_ms, begun_unix_ms);
        let idle_us = self.now_us.saturating_sub(facts.used_us);
        facts.used_us = self.now_us;
        if before.is_some() && before != begun_unix_ms {
            facts.begun_us = self.now_us;
            self.report.counts.state(State::ConversationForgotten);
            self.judge.forget(of);
            self.tokens.retain(|token| token.conversation != of);
            let kept_ms = self.limits.conversation_ms.max(self.limits.effect_ms);
            if !was_empty && idle_us / 1_000 < self.surely(kept_ms) {
                let what = format!(
                    "conversation {of} was forgotten after {} s",
                    idle_us / 1_000_000
                );
                self.broken(Rule::NothingIsForgottenEarly, what);
            }
        }
        let age_ms = (self.now_us - self.judge.conversations[of].begun_us) / 1_000;
        self.fault_if(age_ms > WEEK_MS, Fault::UsedInSecondWeek);
    }

    fn note_asked(&mut self, of: usize, question: Question, by: &Asker) {
        let place = (of, question.number);
        let number = question.number;
        let known = &self.judge.questions;
        let edition = match by {
            Asker::Leg(leg) => self.judge.offers.get(&leg.leg).map(|offer| offer.edition()),
            Asker::Answer(earlier) => known.get(&(of, *earlier)).map(|known| known.edition),
            Asker::Again => known.get(&place).map(|known| known.edition),
        };
        self.note_asked_by_service(&question);
        let edition = self.edition_of_service(&question).or(edition);
        let edition = edition.unwrap_or(Edition::First);
        let now_us = self.now_us;
        let asked = self
            .judge
            .questions
            .entry(place)
            .or_insert_with(|| AskedFacts {
                question: question.clone(),
                edition,
                is_approved: false,
                is_denied: false,
                is_changed: false,
                is_asked_anew: false,
                replaced_us: None,
                changed_us: now_us,
            });
        if !matches!(by, Asker::Again) {
            asked.edition = edition;
        }
        if asked.question.expires_at_unix_ms != question.expires_at_unix_ms {
            asked.changed_us = now_us;
        }
        asked.question = question;
        let asked = asked.clone();
        match by {
            Asker::Leg(leg) => {
                self.note_asked_beside_standing(of, &asked.question, leg);
                self.note_replaced(of, &asked);
            }
            Asker::Answer(earlier) => {
                if let Some(earlier) = self.judge.questions.get_mut(&(of, *earlier)) {
                    earlier.is_asked_anew = true;
                }
            }
            Asker::Again => {}
        }
        self.trace(|| format!("the ledger ASKS {number:?} of {edition:?}"));
    }

    /// A standing approval lets no call run if its user has to be told of a hazard first.
    fn note_asked_beside_standing(&mut self, of: usize, question: &Question, leg: &LegRef) {
        let standing = self.standing_for(
            of,
            &PlacedCall {
                tool: &question.tool,
                arguments: question.arguments.expose(),
                leg: &leg.leg,
                mode: question.mode,
                at_unix_ms: question.asked_at_unix_ms,
            },
        );
        if standing.is_some() && !question.hazards.is_empty() {
            self.report.counts.state(State::HazardAskedBesideStanding);
        }
    }

    /// The ledger refuses the commands of a session that people are talking to.
    fn judge_gone(&mut self, place: usize, leg: &LegRef, kind: &str) {
        // The session is told that its further entries are not kept.
        self.judge.set_values.retain(|set| set.leg != *leg);
        // If two processes have served, each took the other one for dead and wrote over it.
        if self.had_two_owners || self.serving().len() > 1 {
            return;
        }
        let lives = self.lives.iter().enumerate();
        let mut heard = lives.filter_map(|(id, live)| {
            let live = live.as_deref()?;
            let is_it = live.process == place && live.driver.leg() == leg;
            (is_it && !live.is_left && !live.is_over()).then_some(id)
        });
        let Some(id) = heard.next() else {
            return;
        };
        // A process has taken it over, or it was ended.
        let is_newest = self.judge.epochs.get(&leg.leg) == Some(&leg.epoch);
        if is_newest && !self.judge.left.contains(&leg.leg) {
            let what =
                format!("{kind} of life {id}, which is {leg:?}, is answered that it is gone");
            self.broken(Rule::ASessionInUseIsHeard, what);
        }
    }

    /// The time for which something is surely kept by any clock, if a right clock keeps it for `kept_ms`.
    pub(crate) fn surely(&self, kept_ms: u64) -> u64 {
        match self.has_odd_clocks {
            true => kept_ms.saturating_sub(2 * crate::clock::ERROR_MS_MAX),
            false => kept_ms.saturating_sub(1_000),
        }
    }

    /// The latest possible time in a conversation: the latest of the ledger's, and of the clocks of all processes that may write into
    /// it.
    pub(crate) fn conversation_time(&self, of: usize) -> u64 {
        let of = &self.conversations[of];
        let store = self.any_store();
        let known = store.inner().conversation(&of.tenant, &of.conversation_id);
        let used = known.ok().flatten().map(|known| known.used_at_unix_ms);
        let running = (0..self.processes.len()).filter(|place| self.processes[*place].is_up);
        let latest = running.map(|place| self.time_of(place)).max();
        latest
            .unwrap_or(0)
            .max(used.unwrap_or(0))
            .max(BEGINNING_UNIX_MS)
    }
}

/// An attempt that the ledger has granted, and the request for it.
#[derive(Debug)]
pub(crate) struct CoveredFacts {
    run: Option<(EffectId, AttemptNumber)>,
    request: Request,
    at_unix_ms: u64,
}

/// A call, as far as a standing approval looks at it.
struct PlacedCall<'c> {
    tool: &'c ToolId,
    arguments: &'c str,
    leg: &'c SessionId,
    mode: Mode,
    at_unix_ms: u64,
}

/// A user's approval for all calls that put things in one place.
#[derive(Clone, Debug)]
pub(crate) struct StandingFacts {
    pub(crate) conversation: usize,
    pub(crate) question: Question,
    /// The edition of the session that asked.
    edition: Edition,
    given_unix_ms: u64,
}

impl StandingFacts {
    /// The place where its calls put things.
    pub(crate) fn place(&self) -> Option<String> {
        place_of(self.question.arguments.expose())
    }
}

/// The place where a call puts things.
fn place_of(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    Some(arguments.get("note")?.as_str()?.to_owned())
}

/// The judge's observations of an approval request.
#[derive(Clone, Debug)]
pub(crate) struct AskedFacts {
    pub(crate) question: Question,
    /// The edition of the session that asked.
    pub(crate) edition: Edition,
    pub(crate) is_approved: bool,
    pub(crate) is_denied: bool,
    /// An approval of it came after the tool had changed.
    pub(crate) is_changed: bool,
    /// Its answer led to another request.
    pub(crate) is_asked_anew: bool,
    /// The time when another request took its place.
    pub(crate) replaced_us: Option<u64>,
    /// The time when its end was last set.
    pub(crate) changed_us: u64,
}

/// The judge's observations of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationFacts {
    pub(crate) begun_unix_ms: Option<u64>,
    /// Nothing was said in it at the last look.
    pub(crate) is_empty: bool,
    pub(crate) begun_us: u64,
    pub(crate) used_us: u64,
}
