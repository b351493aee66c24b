//! Performs a program: sends each action as its frames. Knows the protocol's rules for answers; the content comes from the script or the
//! demo model.

use super::calls::OpenCall;
use super::context::Context;
use super::ears::Heard;
use super::frames;
use super::program::{Program, Step, Wait};
use super::session::Session;
use super::speech::Speech;
use crate::demo::{self, World};
use crate::runner::Output;
use crate::script::{Action, CallForm, CallId, Delivery, Exchange, When};
use crate::template::Scope;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The transcription of speech without a known text.
const UNRECOGNISED: &str = "(speech)";
/// The thinking that a model of the 2.5 generation shows before its answer.
const THOUGHT: &str =
    "**Considering the Answer**\n\nThe simulator has settled on what to say next.\n\n\n";

/// The most characters of a spoken sentence; a result that makes it longer is cut there.
const SAID_CHARACTERS_MAX: usize = 10_000;
/// The most bytes of arguments; larger ones are sent empty, so that no frame reaches the service's limit.
const ARGUMENT_BYTES_MAX: usize = 12 << 10;

enum Progress {
    Next,
    Blocked,
    /// The program waits for non-blocking calls, and other programs may speak meanwhile.
    Parked,
    Done,
}

impl Session {
    /// Begins the model's turn after the user's.
    pub(crate) fn answer(&mut self, context: &mut Context<'_>, heard: Heard) {
        self.ears.forget_pending();
        self.memory.turns = self.memory.turns.saturating_add(1);
        let turn = self.memory.turns;
        let is_demo = context.shared.is_demo();
        let exchanges = context.shared.exchanges();
        let found = exchanges
            .iter()
            .find(|exchange| matches(exchange, &heard, turn));
        let text = match (&heard, found.map(|exchange| &exchange.when)) {
            (Heard::Text(text), _) => text.clone(),
            (Heard::Speech, Some(When::Speech(text))) => text.clone(),
            (Heard::Speech, _) if is_demo => demo::SPEECH_TRANSCRIPT.to_owned(),
            (Heard::Speech, _) => UNRECOGNISED.to_owned(),
        };
        let steps: Vec<Step> = match found {
            Some(exchange) => exchange.actions.iter().cloned().map(Step::Do).collect(),
            None if is_demo => {
                let world = World::read(&self.setup.instruction, &self.setup.declarations);
                let replies = match heard {
                    Heard::Text(_) => self.memory.demo.hear(&text, &world),
                    Heard::Speech => self.memory.demo.hear_speech(),
                };
                replies.into_iter().flat_map(steps_of).collect()
            }
            None => vec![Step::Do(Action::Say(
                "The script has no answer to this.".to_owned(),
            ))],
        };
        if heard == Heard::Speech {
            self.memory.user_said(&text);
            self.transcribe(context, &text);
        }
        let program = self.program(text, steps);
        self.open_turn(context);
        self.turn.thought_due = self.setup.profile.thoughts;
        self.foreground = Some(program);
    }

    /// Continues the program; `false` where it waits in the foreground.
    pub(crate) fn carry_out(&mut self, context: &mut Context<'_>, mut program: Program) -> bool {
        loop {
            match self.step(context, &mut program) {
                Progress::Next => {}
                Progress::Blocked => {
                    self.foreground = Some(program);
                    return false;
                }
                Progress::Parked => {
                    self.parked.push(program);
                    return true;
                }
                Progress::Done => return true,
            }
            if self.over {
                return false;
            }
        }
    }

    fn step(&mut self, context: &mut Context<'_>, program: &mut Program) -> Progress {
        if !self.is_ready(context, program) {
            return Progress::Blocked;
        }
        program.wait = Wait::Nothing;
        match program.steps.pop_front() {
            Some(Step::Do(action)) => self.act(context, program, action),
            Some(Step::Say(text)) => {
                self.begin_to_say(context);
                program.wait = Wait::Speech(Speech::of_text(&text, context.now));
                Progress::Next
            }
            Some(Step::Consult) => {
                let results = std::mem::take(&mut program.results);
                let world = World::read(&self.setup.instruction, &self.setup.declarations);
                let replies = self.memory.demo.consult(&results, &world);
                program.steps.extend(replies.into_iter().flat_map(steps_of));
                Progress::Next
            }
            None if self
                .calls
                .of_program(program.number)
                .any(|call| call.blocking) =>
            {
                program.wait = Wait::Responses;
                Progress::Blocked
            }
            None if self.turn.open => {
                self.complete_generation(context);
                program.wait = Wait::TurnEnd;
                Progress::Next
            }
            None => Progress::Done,
        }
    }

    /// Whether the event that the program waits for has come.
    fn is_ready(&mut self, context: &mut Context<'_>, program: &mut Program) -> bool {
        match &mut program.wait {
            Wait::Nothing => true,
            Wait::Until(time) => *time <= context.now,
            Wait::Responses => self.calls.of_program(program.number).next().is_none(),
            Wait::TurnEnd => {
                if context.now < self.turn.play_until {
                    return false;
                }
                self.end_turn(context);
                true
            }
            Wait::Speech(speech) => {
                let transcribes = self.setup.transcribes_output;
                let (now, speed) = (context.now, context.shared.settings.speed);
                let out = &mut *context.out;
                let sent_ms =
                    speech.advance(now, speed, &self.setup.profile, transcribes, &mut |frame| {
                        out.push(Output::Send(frame));
                    });
                let over = speech.is_over();
                if over {
                    self.memory.model_said(speech.said());
                }
                self.sent_audio(context, sent_ms);
                over
            }
        }
    }

    fn act(
        &mut self,
        context: &mut Context<'_>,
        program: &mut Program,
        action: Action,
    ) -> Progress {
        match action {
            Action::Say(text) => {
                let text = self.filled(program, &text);
                self.begin_to_say(context);
                program.wait = Wait::Speech(Speech::of_text(&text, context.now));
            }
            Action::AudioMs(length) => {
                self.open_turn(context);
                self.turn.generated = true;
                program.wait = Wait::Speech(Speech::of_length(length, context.now));
            }
            Action::Think(text) => {
                self.open_turn(context);
                self.turn.thought_due = false;
                let text = self.filled(program, &text);
                self.think(context, &text);
            }
            Action::Call(form) => self.call(context, program, vec![form]),
            Action::Calls(forms) => self.call(context, program, forms),
            Action::Search(search) => {
                if self.setup.searches {
                    self.open_turn(context);
                    let body = json!({"groundingMetadata": search.grounding()});
                    context.send(frames::content(body));
                }
            }
            Action::ExpectResponse => return self.expect(context, program),
            Action::Cancel => {
                let ids = self.calls.cancel(program.number, false);
                if !ids.is_empty() {
                    context.send(frames::cancellation(&ids));
                }
            }
            Action::EndTurn => {
                self.complete_generation(context);
                program.wait = Wait::TurnEnd;
            }
            Action::LeaveOpen => return Progress::Done,
            Action::WaitMs(length) => {
                program.wait = Wait::Until(context.now + Duration::from_millis(length));
            }
            Action::StallMs(length) => {
                let until = context.now + Duration::from_millis(length);
                context.out.push(Output::StopReading { until });
            }
            Action::GoAwayMs(length) => {
                context.send(frames::go_away(length));
                let announced = context.now + Duration::from_millis(length);
                self.ends_at = Some(self.ends_at.map_or(announced, |end| end.min(announced)));
            }
            Action::Close(closing) => {
                self.close(context, closing.code, closing.reason);
                return Progress::Done;
            }
            Action::Drop => {
                self.drop_connection(context);
                return Progress::Done;
            }
            Action::HalfFrame(value) => {
                context.out.push(Output::DropWithin(frames::bytes(&value)));
                self.over = true;
                return Progress::Done;
            }
            Action::RefuseConnects(count) => context.shared.refusals.turn_away(count),
            Action::Raw(value) => self.send_raw(context, program, &value),
            Action::RawText(text) => context.send(text.into_bytes()),
            Action::Flood(count) => self.flood(context, count),
            // Actions for text models do nothing here.
            Action::Fail(_) | Action::Endless | Action::HalfACharacter => {}
        }
        Progress::Next
    }

    fn begin_to_say(&mut self, context: &mut Context<'_>) {
        self.open_turn(context);
        self.turn.generated = true;
        if std::mem::take(&mut self.turn.thought_due) {
            self.think(context, THOUGHT);
        }
    }

    fn filled(&self, program: &Program, text: &str) -> String {
        let mut filled = self.with_scope(program, |scope| scope.fill(text));
        if let Some((end, _)) = filled.char_indices().nth(SAID_CHARACTERS_MAX) {
            filled.truncate(end);
        }
        filled
    }

    fn with_scope<T>(&self, program: &Program, fill: impl FnOnce(&Scope<'_>) -> T) -> T {
        let remembered = self.memory.remembered(&program.heard);
        fill(&Scope {
            result: self.memory.latest.as_ref(),
            results: &self.memory.results,
            heard: &program.heard,
            remembered: &remembered,
        })
    }

    fn expect(&mut self, context: &mut Context<'_>, program: &mut Program) -> Progress {
        let waits = self.calls.of_program(program.number).next().is_some();
        let blocks = self
            .calls
            .of_program(program.number)
            .any(|call| call.blocking);
        if blocks {
            program.wait = Wait::Responses;
            return Progress::Next;
        }
        let spoke = self.turn.open && self.turn.generated;
        if (waits && self.turn.open) || (program.in_background && spoke) {
            // Non-blocking calls do not keep a turn open; their result is spoken in a turn of its own.
            program.steps.push_front(Step::Do(Action::ExpectResponse));
            self.complete_generation(context);
            program.wait = Wait::TurnEnd;
            return Progress::Next;
        }
        if waits {
            program.wait = Wait::Responses;
            return Progress::Parked;
        }
        Progress::Next
    }

    fn call(&mut self, context: &mut Context<'_>, program: &mut Program, forms: Vec<CallForm>) {
        self.open_turn(context);
        self.turn.thought_due = false;
        let (mut calls, mut parts) = (Vec::new(), Vec::new());
        for form in forms {
            let call = self.written(context, program, &form);
            self.register(program, &call);
            if matches!(form.deliver, Delivery::Part | Delivery::Both) {
                parts.push(json!({ "functionCall": call }));
            }
            if form.deliver != Delivery::Part {
                calls.push(Value::Object(call));
            }
        }
        if !parts.is_empty() {
            context.send(frames::model_turn(&self.setup.profile, parts, Map::new()));
        }
        if !calls.is_empty() {
            context.send(frames::tool_call(calls));
        }
    }

    fn written(
        &self,
        context: &mut Context<'_>,
        program: &Program,
        form: &CallForm,
    ) -> Map<String, Value> {
        let declared = self
            .setup
            .declarations
            .iter()
            .find(|tool| tool.name == form.name);
        let mut call = Map::new();
        let id = match &form.id {
            CallId::Given(id) => Some(id.clone()),
            CallId::Missing => None,
            CallId::Minted if !self.setup.profile.call_ids => None,
            CallId::Minted => Some(context.shared.mint_call_id()),
        };
        if let Some(id) = id {
            call.insert("id".to_owned(), Value::from(id));
        }
        call.insert("name".to_owned(), Value::from(form.name.clone()));
        let emptied = declared.is_some_and(|tool| tool.json_schema)
            && !self.setup.profile.json_schema_arguments;
        let args = if emptied {
            json!({})
        } else {
            self.with_scope(program, |scope| scope.fill_value(&form.args))
        };
        let fits = args.to_string().len() <= ARGUMENT_BYTES_MAX;
        if !args.is_null() {
            call.insert("args".to_owned(), if fits { args } else { json!({}) });
        }
        call
    }

    fn register(&mut self, program: &mut Program, call: &Map<String, Value>) {
        let text = |key: &str| call.get(key).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        let declared = self
            .setup
            .declarations
            .iter()
            .find(|tool| tool.name == name);
        let blocking =
            declared.map_or_else(|| self.setup.profile.blocks(None), |tool| tool.blocking);
        program.in_background |= !blocking;
        self.calls.open(OpenCall {
            id: text("id").filter(|id| !id.is_empty()).map(str::to_owned),
            name: name.to_owned(),
            blocking,
            program: program.number,
        });
    }

    /// Sends a raw frame of the script, and notes the calls and turn ends in it.
    fn send_raw(&mut self, context: &mut Context<'_>, program: &mut Program, value: &Value) {
        for call in value
            .pointer("/toolCall/functionCalls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(call) = call.as_object() {
                self.open_turn(context);
                self.register(program, call);
            }
        }
        for id in value
            .pointer("/toolCallCancellation/ids")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(id) = id.as_str() {
                self.calls.cancel_id(id);
            }
        }
        context.send(frames::bytes(value));
        if value.pointer("/serverContent/turnComplete") == Some(&Value::Bool(true)) {
            self.turn.open = false;
        }
    }

    fn flood(&mut self, context: &mut Context<'_>, count: u32) {
        self.open_turn(context);
        self.turn.generated = true;
        let part = frames::audio_part(&self.setup.profile, &[0; 1_920]);
        let frame = frames::model_turn(&self.setup.profile, vec![part], Map::new());
        for _ in 0..count {
            context.send(frame.clone());
        }
    }
}

fn steps_of(reply: demo::Reply) -> Vec<Step> {
    match reply {
        demo::Reply::Say(text) => vec![Step::Say(text)],
        demo::Reply::Call { name, args } => vec![Step::Do(Action::Call(CallForm {
            name,
            args: Value::Object(args),
            id: CallId::Minted,
            deliver: Delivery::Call,
        }))],
        demo::Reply::AwaitResults => vec![Step::Do(Action::ExpectResponse), Step::Consult],
    }
}

fn matches(exchange: &Exchange, heard: &Heard, turn: u32) -> bool {
    if exchange.turn.is_some_and(|number| number != turn) {
        return false;
    }
    match (&exchange.when, heard) {
        (When::Any, _) | (When::Speech(_), Heard::Speech) => true,
        (When::Text(part), Heard::Text(text)) => text.to_lowercase().contains(&part.to_lowercase()),
        (When::Text(_), Heard::Speech) | (When::Speech(_), Heard::Text(_)) => false,
        (When::Setup | When::Resumed, _) => false,
    }
}
