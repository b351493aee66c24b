//! A session under a script. A line that starts with `>` is an input; every other line is an output that it must cause.

mod books;
mod parse;
mod render;
mod tools;

use books::Books;
use expect_test::Expect;
use parse::{parse, parse_finding, parse_found};
use render::render_all;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tools::{changed_registry, profile, registry};
use windlass_session::io::{
    FoundQuestion, Input, Output, Proposed, RateDecision, Remembered, Reservation,
    ReservationError, ReservationRefusal,
};
use windlass_session::limits::Limits;
use windlass_session::session::{Session, SessionConfig};
use windlass_session::snapshot::{Snapshot, brings_words, is_worth_saving};
use windlass_session::time::Timestamp;
use windlass_tool::handler::Finding;
use windlass_tool::id::{ConversationId, EffectId, SessionId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::registry::Registry;

/// What the store does with outcomes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    Works,
    Fails,
    Hangs,
}

pub(crate) struct Bench {
    pub(crate) session: Session,
    now: Timestamp,
    effects: u64,
    tokens: u8,
    store_is_down: bool,
    /// It reserves nothing for as long as anybody waits.
    store_is_slow: bool,
    recording: Recording,
    finding: Option<Finding>,
    /// What another session has reserved of the next wish.
    begun_elsewhere: Option<EffectId>,
    /// What the ledger has when it is read again.
    changed_elsewhere: Remembered,
    /// The model of another session has read what others wrote.
    is_read_elsewhere: bool,
    /// How often the store was told that the model has.
    readings: u32,
    /// What the store has of a question that another session asked.
    approval: Option<FoundQuestion>,
    finding_hangs: bool,
    rate: Option<Duration>,
    books: Books,
    /// The newest snapshot, as text; the disk takes no more of them where it is full.
    saved: String,
    is_disk_full: bool,
    /// The turn and the tool of each call that was started.
    pub(crate) starts: Vec<(u64, String)>,
}

impl Bench {
    pub(crate) fn new(mode: Mode) -> (Self, String) {
        Self::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> (Self, String) {
        let (mut bench, mut text) = Self::unread(mode, change);
        text.push_str(&bench.step(Input::Ledger(Ok(Remembered::default()))));
        (bench, text)
    }

    /// A session to which the store has not said yet what was done before.
    pub(crate) fn unread(mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> (Self, String) {
        let mut config = SessionConfig {
            session_id: SessionId::new("s-1"),
            user_id: UserId::new("u-1"),
            conversation_id: ConversationId::new("c-1"),
            mode,
            registry: Arc::new(registry()),
            limits: Arc::new(Limits::of(mode)),
            profile: Arc::new(profile()),
            started_unix_ms: 1_795_000_000_000,
            history: Vec::new(),
            pending_request: None,
        };
        change(&mut config);
        let mut outputs = Vec::new();
        let session = Session::new(config, &mut outputs);
        let saved = saved(&session);
        let bench = Self {
            session,
            now: Timestamp(0),
            effects: 0,
            tokens: 0,
            store_is_down: false,
            store_is_slow: false,
            recording: Recording::Works,
            finding: Some(Finding::Unknown),
            begun_elsewhere: None,
            changed_elsewhere: Remembered::default(),
            is_read_elsewhere: false,
            readings: 0,
            approval: None,
            finding_hangs: false,
            rate: None,
            books: Books::default(),
            saved,
            is_disk_full: false,
            starts: Vec::new(),
        };
        (bench, render_all(&outputs))
    }

    /// Runs one input line and returns the lines that it causes. Questions of the core to store and limiter are answered
    /// at once, as the driver does.
    pub(crate) fn line(&mut self, line: &str) -> String {
        if let Some(how) = line.strip_prefix("store ").filter(|how| !how.contains(' ')) {
            self.store_is_down = how == "down";
            self.store_is_slow = how == "slow";
            assert!(
                ["down", "slow", "up"].contains(&how),
                "a store is not {how}"
            );
            return String::new();
        }
        if let Some(how) = line.strip_prefix("recording ") {
            self.recording = match how {
                "works" => Recording::Works,
                "fails" => Recording::Fails,
                "hangs" => Recording::Hangs,
                other => panic!("recording does not {other}"),
            };
            return String::new();
        }
        if let Some(effect) = line.strip_prefix("begun elsewhere ") {
            self.begun_elsewhere = Some(EffectId::new(effect));
            return String::new();
        }
        if let Some(change) = line.strip_prefix("changed elsewhere ") {
            return self.change_elsewhere(change);
        }
        if line == "read elsewhere" {
            self.is_read_elsewhere = true;
            return String::new();
        }
        if line == "readings" {
            return format!("readings noted: {}\n", self.readings);
        }
        if let Some(known) = line.strip_prefix("store has ") {
            self.approval = Some(parse_found(known));
            return String::new();
        }
        if line == "finding hangs" {
            self.finding_hangs = true;
            return String::new();
        }
        if let Some(what) = line.strip_prefix("lookup finds ") {
            self.finding = parse_finding(what);
            return String::new();
        }
        if let Some(wait) = line.strip_prefix("rate ") {
            self.rate = wait.parse().ok().map(Duration::from_millis);
            return String::new();
        }
        if let Some(millis) = line.strip_prefix("wait ") {
            self.now = self.now + Duration::from_millis(millis.parse().unwrap());
            return self.step(Input::Tick);
        }
        if line == "disk full" {
            self.is_disk_full = true;
            return String::new();
        }
        if line == "killed" {
            return self.restart(self.session.config().registry.clone());
        }
        // The next process has other versions of all tools.
        if line == "killed, tools changed" {
            return self.restart(Arc::new(changed_registry()));
        }
        let input = parse(line);
        self.step(input)
    }

    /// Another session of the conversation has changed something, so many milliseconds ago: `MS STATE EFFECT TOOL ARGUMENTS`.
    fn change_elsewhere(&mut self, change: &str) -> String {
        let (ago_ms, entry) = change.split_once(' ').unwrap();
        let Input::Ledger(Ok(mut ledger)) = parse(&format!("ledger {entry}")) else {
            panic!("no change: {change}");
        };
        for effect in &mut ledger.effects {
            effect.reserved_at_unix_ms = self.now_unix_ms() - ago_ms.parse::<u64>().unwrap();
        }
        self.changed_elsewhere = ledger;
        self.step(Input::ChangedElsewhere)
    }

    /// The process ends, and another session goes on with what was saved, at the same time.
    fn restart(&mut self, registry: Arc<Registry>) -> String {
        let snapshot: Snapshot = serde_json::from_str(&self.saved).unwrap();
        assert!(snapshot.is_current());
        let now_unix_ms = self.now_unix_ms();
        let mut config = self.session.config().clone();
        config.registry = registry;
        config.session_id = SessionId::new("s-2");
        config.started_unix_ms = now_unix_ms;
        config.history.clone_from(&snapshot.history);
        config.pending_request = snapshot.pending_request.clone().map(|request| request.0);
        let restored = self.books.restored(snapshot, now_unix_ms);
        let mut outputs = Vec::new();
        self.session = Session::new(config, &mut outputs);
        self.now = Timestamp(0);
        let mut text = render_all(&outputs);
        // As a journal would give it back.
        let input = serde_json::to_string(&Input::Restored(Box::new(restored))).unwrap();
        text.push_str(&self.step(serde_json::from_str(&input).unwrap()));
        text
    }

    fn now_unix_ms(&self) -> u64 {
        self.session.config().started_unix_ms + self.now.as_millis()
    }

    pub(crate) fn step(&mut self, input: Input) -> String {
        let mut text = String::new();
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let mut outputs = Vec::new();
            let input = inputs.remove(0);
            let is_typed = brings_words(&input);
            self.books.hear(&input);
            self.session.handle(self.now, input, &mut outputs);
            text.push_str(&render_all(&outputs));
            let is_news = is_typed || outputs.iter().any(is_worth_saving);
            if is_news && !self.is_disk_full {
                self.saved = saved(&self.session);
            }
            for output in &outputs {
                // What the store has not heard of is not in its books.
                let is_unheard = matches!(output, Output::DeclineConfirmation { .. })
                    && self.recording != Recording::Works;
                if !is_unheard {
                    self.books.write(output);
                }
                inputs.extend(self.answer(output));
            }
        }
        text
    }

    /// What a driver says to an output that asks.
    fn answer(&mut self, output: &Output) -> Option<Input> {
        match output {
            Output::StartCall(call) => {
                let start = (call.turn(), call.tool().id.to_string());
                self.starts.push(start);
                None
            }
            Output::ReadLedger if self.store_is_slow => None,
            Output::ReadLedger => Some(Input::Ledger(match self.store_is_down {
                true => Err(disk_full()),
                false => Ok(self.changed_elsewhere.clone()),
            })),
            Output::NoteReading => {
                self.readings += 1;
                None
            }
            Output::Reserve(request) if request.minds_reading && self.is_read_elsewhere => {
                Some(Input::Reserved(Reservation {
                    call: request.call,
                    outcome: Err(ReservationRefusal::Read),
                }))
            }
            Output::Reserve(request) if self.begun_elsewhere.is_some() => {
                let begun = self.begun_elsewhere.take()?;
                Some(Input::Reserved(Reservation {
                    call: request.call,
                    outcome: Err(ReservationRefusal::Open(begun)),
                }))
            }
            Output::Reserve(_) if self.store_is_slow => None,
            Output::Reserve(request) => {
                let outcome = self.mint(request.effect_id.as_ref());
                let outcome = outcome.map(|effect_id| self.books.reserved(&effect_id));
                Some(Input::Reserved(Reservation {
                    call: request.call,
                    outcome: outcome.map_err(ReservationRefusal::Unavailable),
                }))
            }
            Output::RequestConfirmation(request) if self.begun_elsewhere.is_some() => {
                let begun = self.begun_elsewhere.take()?;
                Some(Input::Proposed {
                    call: request.call,
                    outcome: Err(ReservationRefusal::Open(begun)),
                })
            }
            Output::RequestConfirmation(_) if self.store_is_slow => None,
            Output::RequestConfirmation(request) => {
                self.tokens += 1;
                let outcome = self.mint(request.effect_id.as_ref());
                let valid_ms = u64::try_from(request.valid_for.as_millis()).unwrap();
                let expires_at_unix_ms = self.now_unix_ms() + valid_ms;
                if let Ok(effect_id) = &outcome {
                    let token = [self.tokens; 32];
                    self.books
                        .proposed(request.call, effect_id, token, expires_at_unix_ms);
                }
                Some(Input::Proposed {
                    call: request.call,
                    outcome: outcome
                        .map(|effect_id| Proposed {
                            effect_id,
                            token_hash: [self.tokens; 32],
                            expires_at_unix_ms,
                        })
                        .map_err(ReservationRefusal::Unavailable),
                })
            }
            Output::RecordOutcome(record) => {
                (self.recording != Recording::Hangs).then(|| Input::Recorded {
                    effect_id: record.effect_id.clone(),
                    state: record.state,
                    stored: self.recording == Recording::Works,
                })
            }
            Output::DeclineConfirmation { token_hash } => (self.recording != Recording::Hangs)
                .then(|| Input::Declined {
                    token_hash: *token_hash,
                    stored: self.recording == Recording::Works,
                }),
            Output::Lookup(lookup) => self.finding.clone().map(|finding| Input::LookedUp {
                call: lookup.call(),
                finding,
            }),
            Output::FindApproval { token_hash } => {
                let known = self.approval.clone();
                let known = known.filter(|known| {
                    *token_hash
                        == match known {
                            FoundQuestion::Open(question) => question.token_hash,
                            FoundQuestion::Approved(question)
                            | FoundQuestion::Declined(question) => question.token_hash,
                        }
                });
                let found = match self.store_is_down {
                    true => Err(disk_full()),
                    false => Ok(known.map(Box::new)),
                };
                let token_hash = *token_hash;
                (!self.finding_hangs).then_some(Input::ApprovalFound { token_hash, found })
            }
            Output::CheckRate { call, .. } => Some(Input::RateChecked {
                call: *call,
                decision: match self.rate {
                    None => RateDecision::Allowed,
                    Some(retry_after) => RateDecision::Refused { retry_after },
                },
            }),
            _ => None,
        }
    }

    fn mint(&mut self, kept: Option<&EffectId>) -> Result<EffectId, ReservationError> {
        if self.store_is_down {
            return Err(disk_full());
        }
        if kept.is_none() {
            self.effects += 1;
        }
        let minted = EffectId::new(format!("effect-{}", self.effects));
        Ok(kept.cloned().unwrap_or(minted))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
}

fn disk_full() -> ReservationError {
    let problem = "disk full".to_owned();
    ReservationError { problem }
}

fn saved(session: &Session) -> String {
    serde_json::to_string(&session.snapshot()).unwrap()
}

/// Runs a script against a fresh session that is connected already, and compares all that it says with what the script
/// says.
pub(crate) fn check(mode: Mode, script: Expect) {
    check_with(mode, |_| {}, script);
}

pub(crate) fn check_with(mode: Mode, change: impl FnOnce(&mut SessionConfig), script: Expect) {
    let (mut bench, _) = Bench::with(mode, change);
    bench.line("connected 1");
    bench.line("ready");
    run(&mut bench, &script);
}

/// The same for a session of which the script tells the beginning.
pub(crate) fn check_from_the_beginning(mode: Mode, script: Expect) {
    let (mut bench, _) = Bench::unread(mode, |_| {});
    run(&mut bench, &script);
}

fn run(bench: &mut Bench, script: &Expect) {
    let mut actual = String::new();
    for line in script.data().lines() {
        if let Some(input) = line.trim().strip_prefix("> ") {
            writeln!(actual, "> {input}").unwrap();
            actual.push_str(&bench.line(input));
        }
    }
    script.assert_eq(&actual);
}
