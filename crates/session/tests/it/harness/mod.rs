//! A session under a script. A line that starts with `>` is an input; every other line is an output that it must cause.

mod parse;
mod render;
mod tools;

use expect_test::Expect;
use parse::parse;
use render::render_all;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tools::{profile, registry};
use windlass_session::io::{Input, Output, RateDecision, Reservation, ReservationError};
use windlass_session::limits::Limits;
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_tool::id::{ConversationId, EffectId, SessionId, UserId};
use windlass_tool::kind::Mode;

pub(crate) struct Bench {
    pub(crate) session: Session,
    now: Timestamp,
    effects: u64,
    store_is_down: bool,
    rate: Option<Duration>,
    /// The turn and the tool of each call that was started.
    pub(crate) starts: Vec<(u64, String)>,
}

impl Bench {
    pub(crate) fn new(mode: Mode) -> (Self, String) {
        Self::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> (Self, String) {
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
        let bench = Self {
            session,
            now: Timestamp(0),
            effects: 0,
            store_is_down: false,
            rate: None,
            starts: Vec::new(),
        };
        (bench, render_all(&outputs))
    }

    /// Runs one input line and returns the lines that it causes. Questions of the core to store and limiter are answered
    /// at once, as the driver does.
    pub(crate) fn line(&mut self, line: &str) -> String {
        if line == "store down" || line == "store up" {
            self.store_is_down = line == "store down";
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
        let input = parse(line);
        self.step(input)
    }

    pub(crate) fn step(&mut self, input: Input) -> String {
        let mut text = String::new();
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let mut outputs = Vec::new();
            self.session
                .handle(self.now, inputs.remove(0), &mut outputs);
            text.push_str(&render_all(&outputs));
            for output in &outputs {
                match output {
                    Output::StartCall(call) => {
                        self.starts.push((call.turn(), call.tool().id.to_string()));
                    }
                    Output::Reserve { call, .. } => {
                        self.effects += 1;
                        let outcome = if self.store_is_down {
                            Err(ReservationError {
                                problem: "disk full".to_owned(),
                            })
                        } else {
                            Ok(EffectId::new(format!("effect-{}", self.effects)))
                        };
                        inputs.push(Input::Reserved(Reservation {
                            call: *call,
                            outcome,
                        }));
                    }
                    Output::CheckRate { call, .. } => {
                        let decision = match self.rate {
                            None => RateDecision::Allowed,
                            Some(retry_after) => RateDecision::Refused { retry_after },
                        };
                        inputs.push(Input::RateChecked {
                            call: *call,
                            decision,
                        });
                    }
                    _ => {}
                }
            }
        }
        text
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
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
    let mut actual = String::new();
    for line in script.data().lines() {
        if let Some(input) = line.trim().strip_prefix("> ") {
            writeln!(actual, "> {input}").unwrap();
            actual.push_str(&bench.line(input));
        }
    }
    script.assert_eq(&actual);
}
