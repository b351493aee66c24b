//! Sessions of one conversation under a script, with the real ledger in memory. A line that starts with `>` is an input; every
//! other line is an output that it must cause. The first session has no name; lines of another begin with its name and a colon.

mod ledger;
mod leg;
mod names;
mod parse;
mod render;
pub(crate) mod tools;

use expect_test::Expect;
use ledger::{Ledger, Purpose, Recording, SentAnswer, SentRequest, Takes};
use leg::Leg;
use names::Names;
use parse::{parse, parse_finding};
use render::{render_all, render_entry};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tools::{
    changed_registry, profile, registry, registry_of_other_version, registry_with_other_version,
};
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::{CallNumber, ClientId, SessionId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::sensitive::Sensitive;
use windlass_session::event::EndReason;
use windlass_session::io::{Input, Output, RateCharge, RateDecision};
use windlass_session::journal::texts_of;
use windlass_session::limits::Limits;
use windlass_session::log_text::{self, KeptState, Said};
use windlass_session::saved::{Began, Saved};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_store::command::{AnswerVerdict, CalledBack, Command, NewLeg, Reply};
use windlass_store::{
    AttemptOutcome, Beginner, Effect, EffectState, Entry, EntryEvent, EntryNumber, Epoch, LegRef,
    Presented, StandingApproval, Store, Token, denial_reason,
};

const STARTED_UNIX_MS: u64 = 1_795_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// When, the input as JSON, and what came out.
pub(crate) type Step = (Timestamp, String, Vec<String>);

pub(crate) struct Bench {
    legs: Vec<Leg>,
    ledger: Ledger,
    names: Names,
    now: Timestamp,
    rate: Option<Duration>,
    /// Entries that the script has seen.
    shown: EntryNumber,
    /// The turn and the tool of each call that the first session started without an approval.
    pub(crate) starts: Vec<(u64, String)>,
    /// Every step of the first session, for a run of the same, where somebody wants that.
    pub(crate) journal: Option<Vec<Step>>,
}

impl Bench {
    pub(crate) fn new(mode: Mode) -> (Self, String) {
        Self::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> (Self, String) {
        let mut bench = Self {
            legs: Vec::new(),
            ledger: Ledger::new(STARTED_UNIX_MS),
            names: Names::default(),
            now: Timestamp(0),
            rate: None,
            shown: EntryNumber(0),
            starts: Vec::new(),
            journal: None,
        };
        let text = bench.open("", mode, change);
        (bench, text)
    }

    /// A session of the conversation begins.
    fn open(&mut self, name: &str, mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> String {
        let mut config = SessionConfig {
            session_id: SessionId::new(if name.is_empty() { "s-1" } else { name }),
            epoch: Epoch(1),
            tenant: self.ledger.of.tenant.clone(),
            user_id: self.ledger.of.user_id.clone(),
            rights: windlass_contract::rights::Rights::Anonymous,
            given: windlass_contract::condition::Given::default(),
            conversation_id: self.ledger.of.conversation_id.clone(),
            mode,
            registry: Arc::new(registry()),
            limits: Arc::new(Limits::of(mode)),
            profile: Arc::new(profile()),
            model: "model".into(),
            estimate: None,
            started_unix_ms: STARTED_UNIX_MS + self.now.as_millis(),
            history: Vec::new(),
            last_call: CallNumber(0),
            can_ask: true,
            can_ask_input: false,
            pending_request: None,
        };
        change(&mut config);
        let began = self.found();
        let log = self
            .ledger
            .store
            .entries(&self.ledger.of, EntryNumber(0), 1_000);
        config.last_call = last_call(&log.unwrap());
        let leg = config.leg();
        self.ledger.commit(Command::Open(Beginner::default()));
        self.ledger.commit(Command::Attach(Box::new(NewLeg {
            leg: leg.leg.clone(),
            mode,
            client_id: ClientId::new(client_of(name)),
            resume_token: resume_token(&leg.leg),
            expires_in_ms: HOUR_MS,
        })));
        let text = self.begin(name, config, leg, began);
        if name.is_empty() {
            return text;
        }
        let leg = self.legs.len() - 1;
        let heard = opening(mode).iter().map(|line| self.step(leg, parse(line)));
        text + &heard.collect::<String>()
    }

    /// What a session that begins is given.
    fn found(&mut self) -> Began {
        let store = &self.ledger.store;
        let mut live = (self.legs.iter()).filter(|known| !known.session.is_ending());
        let live: Vec<&SessionId> = live.by_ref().map(|known| &known.leg.leg).collect();
        let is_nobodys = |leg: &SessionId| !live.contains(&leg);
        let mut asked = store.open_questions(&self.ledger.of).unwrap();
        asked.retain(|asked| is_nobodys(&asked.question.leg));
        for asked in &asked {
            self.ledger.remember(asked.token.clone());
        }
        let store = &self.ledger.store;
        let mut unheard = store.unheard(&self.ledger.of).unwrap();
        unheard.retain(|effect| is_nobodys(&effect.leg));
        let log = store.entries(&self.ledger.of, EntryNumber(0), 1_000);
        let state = KeptState::of_log(log.as_ref().unwrap());
        let warned_models = log_text::warned_models(log.as_ref().unwrap());
        let mut at_work: Vec<Effect> = Vec::new();
        for entry in log.unwrap() {
            if let EntryEvent::Effect(change) = entry.event {
                let found = store.effect(&self.ledger.of.tenant, &change.effect_id);
                let (_, effect) = found.unwrap().unwrap();
                let is_known = at_work.contains(&effect);
                if effect.state == EffectState::Running && is_nobodys(&effect.leg) && !is_known {
                    at_work.push(effect);
                }
            }
        }
        Began {
            questions: asked.into_iter().map(|asked| asked.question).collect(),
            unheard,
            at_work,
            state,
            warned_models,
            standing: self.standing(),
            ..Began::default()
        }
    }

    /// The standing approvals of the conversation.
    fn standing(&self) -> Vec<StandingApproval> {
        let of = &self.ledger.of;
        let known = self
            .ledger
            .store
            .conversation(&of.tenant, &of.conversation_id);
        known
            .unwrap()
            .map(|known| known.standing)
            .unwrap_or_default()
    }

    fn begin(&mut self, name: &str, config: SessionConfig, leg: LegRef, began: Began) -> String {
        let mut outputs = Vec::new();
        let session = Session::new(config, &mut outputs);
        let mut text = String::new();
        render_all(name, &outputs, &mut self.names, &mut text);
        let entries = self
            .ledger
            .store
            .conversation(&self.ledger.of.tenant, &self.ledger.of.conversation_id);
        let last = entries.unwrap().unwrap().last_entry;
        // What it begins with is what a next process goes on with.
        self.ledger.commit(Command::Save {
            leg: leg.clone(),
            body: Sensitive(serde_json::to_vec(&session.saved()).unwrap()),
            expires_in_ms: HOUR_MS,
        });
        let client = client_of(name);
        self.legs
            .push(Leg::new((name, client), session, self.now, leg, last));
        let Began {
            saved,
            questions,
            unheard,
            unheard_questions,
            at_work,
            state,
            warned_models,
            standing,
            ..
        } = &began;
        let is_empty = saved.is_none()
            && questions.is_empty()
            && unheard.is_empty()
            && at_work.is_empty()
            && state.is_none()
            && warned_models.is_empty()
            && standing.is_empty()
            && unheard_questions.is_empty();
        if !is_empty {
            // As a journal would give it back.
            let input = serde_json::to_string(&Input::Began(Box::new(began))).unwrap();
            text += &self.step(self.legs.len() - 1, serde_json::from_str(&input).unwrap());
        }
        text
    }

    /// Runs one input line and returns the lines that it causes.
    pub(crate) fn line(&mut self, line: &str) -> String {
        let (leg, line) = match line.split_once(": ") {
            Some((name, line)) if self.leg_of(name).is_some() => (self.leg_of(name).unwrap(), line),
            Some(_) | None => (0, line),
        };
        if let Some(text) = self.switch(line) {
            return text;
        }
        if let Some(millis) = line.strip_prefix("wait ") {
            self.now = self.now + Duration::from_millis(millis.parse().unwrap());
            self.ledger.set_time(self.now_unix_ms());
            let mut text = String::new();
            for leg in 0..self.legs.len() {
                if !self.legs[leg].is_asleep {
                    text += &self.step(leg, Input::Tick);
                }
            }
            return text;
        }
        // Its process is stopped: no time passes for it.
        if line == "sleeps" {
            self.legs[leg].is_asleep = true;
            return String::new();
        }
        if let Some(token) = line.strip_prefix("remember ") {
            return self.answer(leg, token, (true, true), None);
        }
        let answer = line.strip_prefix("confirm ").map(|token| (token, true));
        let answer = answer.or(line.strip_prefix("decline ").map(|token| (token, false)));
        if let Some((answer, approved)) = answer {
            let (token, reason) = match answer.split_once(' ') {
                Some((token, reason)) => (token, denial_reason(reason)),
                None => (answer, None),
            };
            return self.answer(leg, token, (approved, false), reason);
        }
        self.step(leg, parse(line))
    }

    fn leg_of(&self, name: &str) -> Option<usize> {
        self.legs.iter().position(|leg| leg.name == name)
    }

    /// Lines that no session is given.
    fn switch(&mut self, line: &str) -> Option<String> {
        if let Some(name) = line.strip_prefix("opens ") {
            let (name, mode) = name.split_once(" by ").unwrap();
            let mode = match mode {
                "voice" => Mode::Voice,
                "text" => Mode::Text,
                other => panic!("nobody speaks by {other}"),
            };
            let wait_ms = self.legs[0].session.config().limits.result_wait_ms;
            return Some(self.open(name, mode, |config| {
                Arc::make_mut(&mut config.limits).result_wait_ms = wait_ms;
            }));
        }
        if let Some(what) = line.strip_prefix("lookup finds ") {
            self.ledger.finding = parse_finding(what);
            return Some(String::new());
        }
        if let Some(what) = line.strip_prefix("lookup brings ") {
            let finding = parse_finding(what).unwrap();
            let mut text = String::new();
            let answers = self
                .ledger
                .finish_lookup(finding, &mut self.names, &mut text);
            let inputs = self.inputs_of(answers);
            self.run(inputs, &mut text);
            return Some(text);
        }
        if let Some(of) = line.strip_prefix("task ") {
            return Some(self.task(of));
        }
        if let Some(wait) = line.strip_prefix("rate ") {
            self.rate = wait.parse().ok().map(Duration::from_millis);
            return Some(String::new());
        }
        match line {
            "store down" => self.ledger.takes = Takes::Nothing,
            "store slow" => self.ledger.takes = Takes::Slow,
            "store up" => self.ledger.takes = Takes::Everything,
            "recording works" => self.ledger.recording = Recording::Works,
            "recording fails" => self.ledger.recording = Recording::Fails,
            "recording hangs" => self.ledger.recording = Recording::Hangs,
            "disk full" => self.ledger.is_disk_full = true,
            "sweep" => self.ledger.sweep(),
            "log" => return Some(self.show_log()),
            "killed" => {
                let registry = self.legs[0].session.config().registry.clone();
                return Some(self.restart(registry));
            }
            // The next process has other code of all tools.
            "killed, tools changed" => return Some(self.restart(Arc::new(changed_registry()))),
            // In the next process the user has other versions of all tools, beside which those from before are there still.
            "killed, other versions" => {
                return Some(self.restart(Arc::new(registry_with_other_version())));
            }
            // The first versions are gone, and there are the others alone.
            "killed, first versions gone" => {
                return Some(self.restart(Arc::new(registry_of_other_version())));
            }
            _ => return None,
        }
        let mut text = String::new();
        let answers = self.ledger.run(&mut self.names, &mut text);
        let inputs = self.inputs_of(answers);
        self.run(inputs, &mut text);
        Some(text)
    }

    /// `task 1` shows a task; with `cancelled` it is cancelled by its id, and with `brought {…}` or `failed` its service tells its end.
    fn task(&mut self, line: &str) -> String {
        let (number, what) = line.split_once(' ').unwrap_or((line, ""));
        let effect_id = self.names.effect(number);
        let tenant = self.ledger.of.tenant.clone();
        let found = self.ledger.store.effect(&tenant, &effect_id).unwrap();
        let (_, effect) = found.unwrap();
        let command = match what {
            "" => return format!("{:?} {:?}\n", effect.state, effect.task.unwrap()),
            "cancelled" => Command::CancelTask { effect_id },
            told => {
                let tool = effect.tool.as_str();
                let mut meta = meta_without_tool(tool, "1.0.test0000".into(), 1);
                meta.duration_ms = 1;
                let data = told.strip_prefix("brought ");
                let data: Option<Value> = data.map(|data| serde_json::from_str(data).unwrap());
                let (outcome, attempt_outcome) = match data {
                    Some(data) => (
                        Outcome::Success {
                            data: Some(data.into()),
                            content: Vec::new(),
                        },
                        AttemptOutcome::Succeeded,
                    ),
                    None => (
                        Outcome::Failure(CallError::new(ErrorType::Permanent, "it failed").into()),
                        AttemptOutcome::Failed,
                    ),
                };
                let response = ToolResponse {
                    outcome,
                    intents: Vec::new(),
                    meta,
                };
                Command::CalledBack(Box::new(CalledBack {
                    effect_id,
                    outcome: attempt_outcome,
                    receipt: Some(Sensitive(serde_json::to_string(&response).unwrap())),
                    values: None,
                }))
            }
        };
        let reply = self.ledger.commit(command);
        let mut text = match reply {
            Reply::Recorded(effect) => format!("recorded: {:?}\n", effect.state),
            Reply::TooLate(effect) => format!("too late: {:?}\n", effect.state),
            other => format!("{other:?}\n"),
        };
        self.run(Vec::new(), &mut text);
        text
    }

    /// Entries of the log since it was shown last.
    fn show_log(&mut self) -> String {
        let entries = self
            .ledger
            .store
            .entries(&self.ledger.of, self.shown, 1_000);
        let mut text = String::new();
        for entry in entries.unwrap() {
            self.shown = entry.number;
            writeln!(text, "{}", render_entry(&entry, &mut self.names)).unwrap();
        }
        text
    }

    /// A client answers a question, as the driver takes it.
    fn answer(
        &mut self,
        leg: usize,
        token: &str,
        (approved, remember): (bool, bool),
        reason: Option<Sensitive<String>>,
    ) -> String {
        let number = token
            .strip_prefix("token-")
            .and_then(|token| token.parse().ok());
        let known: Option<Token> = number.and_then(|number| self.ledger.token(number));
        let question = known.and_then(|token| {
            let found = self.ledger.store.question(&self.ledger.of, &token);
            found.unwrap().map(Box::new)
        });
        self.step(
            leg,
            Input::Answered {
                question,
                approved,
                reason,
                remember,
                input: None,
            },
        )
    }

    /// The process ends, and another goes on with the first session, at the same time.
    fn restart(&mut self, registry: Arc<Registry>) -> String {
        self.ledger.restart();
        let before = std::mem::take(&mut self.legs);
        let leg = &before[0].leg.leg;
        let reply = self.ledger.commit(Command::Resume(Presented {
            resume_token: resume_token(leg),
            client_id: ClientId::new("client-1"),
            user_id: self.ledger.of.user_id.clone(),
        }));
        let Reply::Resumed(resumed) = reply else {
            panic!("the session cannot be resumed: {reply:?}");
        };
        let saved: Saved = serde_json::from_slice(resumed.leg.body.expose()).unwrap();
        assert!(saved.is_current());
        let mut config = before[0].session.config().clone();
        config.registry = registry;
        config.epoch = resumed.leg.epoch;
        config.started_unix_ms = self.now_unix_ms();
        config.history = log_text::history(
            &resumed.log,
            Some((leg, saved.open_from())),
            config.limits.transcript_characters_max,
        );
        config.pending_request = saved.pending_request.clone().map(Sensitive::into_inner);
        config.last_call = last_call(&resumed.log).max(saved.last_call);
        let asked = resumed.questions;
        for asked in &asked {
            self.ledger.remember(asked.token.clone());
        }
        let began = Began {
            saved: Some(saved),
            questions: asked.into_iter().map(|asked| asked.question).collect(),
            unheard: resumed.unheard,
            unheard_questions: resumed.unheard_questions,
            state: KeptState::of_log(&resumed.log),
            warned_models: log_text::warned_models(&resumed.log),
            standing: resumed.conversation.standing,
            ..Began::default()
        };
        let leg = config.leg();
        self.begin("", config, leg, began)
    }

    fn now_unix_ms(&self) -> u64 {
        STARTED_UNIX_MS + self.now.as_millis()
    }

    fn step(&mut self, leg: usize, input: Input) -> String {
        let mut text = String::new();
        self.run(vec![(leg, input)], &mut text);
        text
    }

    /// Gives the sessions these inputs, and all that follow from them at once.
    fn run(&mut self, inputs: Vec<(usize, Input)>, text: &mut String) {
        let mut inputs = VecDeque::from(inputs);
        loop {
            while let Some((leg, input)) = inputs.pop_front() {
                let answered = self.handle(leg, input, text);
                inputs.extend(answered);
            }
            if self.ledger.takes != Takes::Nothing {
                for (place, leg) in self.legs.iter_mut().enumerate() {
                    let news = leg.read(&self.ledger);
                    if !news.is_empty() {
                        inputs.push_back((place, Input::News(news)));
                    }
                }
            }
            if inputs.is_empty() {
                return;
            }
        }
    }

    fn handle(&mut self, leg: usize, input: Input, text: &mut String) -> Vec<(usize, Input)> {
        let mut outputs = Vec::new();
        let is_typed = input.brings_words();
        let of = &mut self.legs[leg];
        let at = Timestamp(self.now.0 - of.zero.0);
        let recorded = self.journal.as_ref().filter(|_| leg == 0);
        let recorded = recorded.map(|_| serde_json::to_string(&input).unwrap());
        of.session.handle(at, input, &mut outputs);
        if let (Some(journal), Some(input)) = (&mut self.journal, recorded) {
            journal.push((at, input, texts_of(&outputs)));
        }
        let name = of.name.clone();
        let is_news = is_typed || outputs.iter().any(Output::is_worth_saving);
        let saved = is_news.then(|| serde_json::to_vec(&of.session.saved()).unwrap());
        let mut inputs = Vec::new();
        for output in outputs {
            render_all(&name, std::slice::from_ref(&output), &mut self.names, text);
            inputs.extend(self.perform(leg, output));
        }
        if let Some(saved) = saved.filter(|_| !self.ledger.is_disk_full) {
            let command = Command::Save {
                leg: self.legs[leg].leg.clone(),
                body: Sensitive(saved),
                expires_in_ms: HOUR_MS,
            };
            self.tell(leg, command);
        }
        let answers = self.ledger.run(&mut self.names, text);
        inputs.extend(self.inputs_of(answers));
        inputs
    }

    /// What a driver does about an output.
    fn perform(&mut self, leg: usize, output: Output) -> Option<(usize, Input)> {
        let leg_ref = self.legs[leg].leg.clone();
        match output {
            Output::Append(entries) => self.tell(
                leg,
                Command::Append {
                    leg: leg_ref,
                    entries,
                },
            ),
            Output::Taint => self.tell(leg, Command::Taint),
            Output::Request { call, request } => self.ledger.ask(SentRequest {
                leg,
                purpose: Purpose::Decision(call),
                nonce: Some(request.nonce),
                command: Command::Request(request),
            }),
            Output::Answer {
                call,
                question,
                mut answer,
            } => {
                if let AnswerVerdict::Approved(approval) = &mut answer.verdict
                    && let Some(remember) = &mut approval.remember
                {
                    remember.client_id = Some(ClientId::new(self.legs[leg].client));
                }
                let token = self.ledger.token(question.0).unwrap();
                self.ledger.ask(SentRequest {
                    leg,
                    purpose: Purpose::Decision(call),
                    nonce: Some(answer.nonce),
                    command: Command::Answer(Box::new(answer.with_token(token))),
                });
            }
            Output::Abandon {
                nonce,
                effect_id,
                question,
            } => self.ledger.ask(SentRequest {
                leg,
                purpose: Purpose::Abandon(effect_id.clone()),
                nonce: None,
                command: Command::Abandon {
                    nonce,
                    effect_id,
                    question,
                },
            }),
            Output::Record { call, record } => {
                self.legs[leg].records(&record.effect_id, record.attempt);
                self.ledger.ask(SentRequest {
                    leg,
                    purpose: Purpose::Record(call, record.effect_id.clone()),
                    nonce: None,
                    command: Command::Record(record),
                });
            }
            Output::Withdraw(questions) => self.tell(
                leg,
                Command::Withdraw {
                    leg: leg_ref,
                    questions,
                },
            ),
            Output::Revoke(question) => {
                let leg_ref = Some(leg_ref.leg);
                self.tell(
                    leg,
                    Command::Revoke {
                        question,
                        leg: leg_ref,
                    },
                );
            }
            Output::Heard { effects, questions } => {
                self.tell(leg, Command::Heard { effects, questions });
            }
            Output::Progress(told) => self.tell(leg, Command::Progress(told)),
            Output::CancelTask(effect_id) => self.tell(leg, Command::CancelTask { effect_id }),
            Output::CheckRate {
                charge: RateCharge::Note,
                ..
            } => {}
            Output::CheckRate { call, .. } => {
                let decision = match self.rate {
                    None => RateDecision::Allowed,
                    Some(retry_after) => RateDecision::Refused { retry_after },
                };
                return Some((leg, Input::RateChecked { call, decision }));
            }
            Output::StartCall(call) => {
                let start = (call.turn(), call.tool().id.to_string());
                let question = call.run().and_then(|run| run.question);
                if leg == 0 && question.is_none() && start.1 != "peek" {
                    self.starts.push(start);
                }
            }
            Output::Close(reason) if reason != EndReason::Shutdown => {
                self.tell(leg, Command::Leave(leg_ref));
            }
            _ => {}
        }
        None
    }

    fn tell(&mut self, leg: usize, command: Command) {
        self.ledger.ask(SentRequest {
            leg,
            purpose: Purpose::Nothing,
            nonce: None,
            command,
        });
    }

    /// What the ledger's answers are to the sessions.
    fn inputs_of(&mut self, answers: Vec<SentAnswer>) -> Vec<(usize, Input)> {
        let mut inputs = Vec::new();
        for SentAnswer {
            leg,
            purpose,
            reply,
        } in answers
        {
            let Some(of) = self.legs.get_mut(leg) else {
                continue;
            };
            match purpose {
                Purpose::Decision(call) => {
                    if let Ok(reply) = &reply {
                        of.granted(reply, false);
                    }
                    let reply = reply.map(Box::new);
                    inputs.push((leg, Input::Decided { call, reply }));
                }
                Purpose::Record(call, effect_id) => {
                    of.recorded(&effect_id, reply.as_ref().ok());
                    let reply = reply.map(Box::new);
                    inputs.push((leg, Input::Recorded { call, reply }));
                }
                Purpose::Abandon(effect_id) => of.recorded(&effect_id, reply.as_ref().ok()),
                Purpose::Abandoned => {
                    if let Ok(reply) = &reply {
                        of.granted(reply, true);
                    }
                }
                Purpose::Nothing => {}
            }
        }
        inputs
    }

    /// The first session.
    pub(crate) fn session(&self) -> &Session {
        &self.legs[0].session
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
}

fn last_call(log: &[Entry]) -> CallNumber {
    let calls = log.iter().filter_map(|entry| match Said::of(entry) {
        Some(Said::Call { call, .. }) => Some(call),
        _ => None,
    });
    calls.max().unwrap_or(CallNumber(0))
}

/// A session whose name says so is another client's.
fn client_of(name: &str) -> &'static str {
    match name.starts_with("stranger") {
        true => "client-2",
        false => "client-1",
    }
}

fn resume_token(leg: &SessionId) -> [u8; 32] {
    let mut token = [0; 32];
    for (place, byte) in token.iter_mut().zip(leg.as_str().bytes()) {
        *place = byte;
    }
    token
}

/// After these the model can be heard.
fn opening(mode: Mode) -> &'static [&'static str] {
    match mode {
        Mode::Voice => &["connected 1", "ready"],
        Mode::Text => &["requests 1"],
    }
}

/// Runs a script against a fresh session that is connected already, and compares all that it says with what the script
/// says.
pub(crate) fn check(mode: Mode, script: Expect) {
    check_with(mode, |_| {}, script);
}

pub(crate) fn check_with(mode: Mode, change: impl FnOnce(&mut SessionConfig), script: Expect) {
    let (mut bench, _) = Bench::with(mode, change);
    for line in opening(mode) {
        bench.line(line);
    }
    bench.line("log");
    let mut actual = String::new();
    for line in script.data().lines() {
        if let Some(input) = line.trim().strip_prefix("> ") {
            writeln!(actual, "> {input}").unwrap();
            actual.push_str(&bench.line(input));
        }
    }
    script.assert_eq(&actual);
}
