//! Gemini's Interactions as the service answers: its rules for steps, its events. Stores nothing, even on request. Knows nothing of the
//! answer's content.

use super::plan::{self, Said};
use super::{BODY_BYTES_MAX, HttpAnswer, Piece, Request, Stream};
use crate::declaration::Declaration;
use crate::pieces::split;
use crate::runner::Options;
use crate::script::{Action, CallForm, CallId, HttpFailure, Page, SearchForm};
use serde_json::{Map, Value, json};

/// A refused request: status, code and message.
struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: "invalid_request",
            message: message.into(),
        }
    }

    fn answer(&self) -> HttpAnswer {
        super::json_answer(self.status, &error_body(self.code, &self.message))
    }
}

/// The codes are those of <https://ai.google.dev/gemini-api/docs/api-errors>.
fn code_of(status: u16) -> &'static str {
    match status {
        401 => "authentication",
        403 => "permission_denied",
        404 => "not_found",
        429 => "rate_limit_exceeded",
        504 => "gateway_timeout",
        500.. => "internal_error",
        _ => "invalid_request",
    }
}

fn error_body(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "code": code}})
}

/// The body of a script's failure, in the service's form.
fn failure_body(failure: &HttpFailure) -> Value {
    let message = failure.message.as_deref().unwrap_or("The script says so.");
    error_body(code_of(failure.status), message)
}

pub(super) fn is_asked(request: &Request<'_>) -> bool {
    request.path.ends_with("/interactions")
}

pub(super) fn answer(request: &Request<'_>, options: &Options, number: u64) -> HttpAnswer {
    let read = check_key(request).and_then(|()| Asked::read(request.body));
    let asked = match read {
        Ok(asked) => asked,
        Err(refusal) => return refusal.answer(),
    };
    let actions = plan::next(options, &asked.instruction, &asked.said, &asked.tools);
    if let Some(Action::Fail(failure)) = actions.first() {
        return super::failed(failure, &failure_body(failure));
    }
    let mut speaker = Speaker::new(&asked, number);
    for action in &actions {
        if !speaker.act(action) {
            return speaker.cut_short();
        }
    }
    speaker.finish()
}

/// Every key is accepted, with two exceptions: `bad-` is refused with 401, `quota-` with 429.
fn check_key(request: &Request<'_>) -> Result<(), Refusal> {
    let refuse = |status, code, message: &str| {
        Err(Refusal {
            status,
            code,
            message: message.to_owned(),
        })
    };
    if request.method != "POST" {
        return refuse(404, "not_found", "The requested URL was not found.");
    }
    let bearer = request.header("authorization");
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let key = request.header("x-goog-api-key").or(bearer);
    match key.unwrap_or_default() {
        "" => refuse(401, "authentication", "The API key is missing."),
        key if key.starts_with("bad-") => refuse(401, "authentication", "API key not valid."),
        key if key.starts_with("quota-") => {
            refuse(429, "quota_exceeded", "You exceeded your current quota.")
        }
        _ => Ok(()),
    }
}

struct Asked {
    model: String,
    instruction: String,
    said: Vec<Said>,
    tools: Vec<Declaration>,
    /// Whether the service's own search is declared.
    searches: bool,
    streams: bool,
    characters: usize,
}

/// The members of a request that a client of models may send (google-genai 3.4.0).
const KNOWN_FIELDS: [&str; 18] = [
    "background",
    "cached_content",
    "generation_config",
    "input",
    "labels",
    "model",
    "previous_interaction_id",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "safety_settings",
    "service_tier",
    "store",
    "stream",
    "system_instruction",
    "tools",
    "environment",
    "webhook_config",
];

const KNOWN_SETTINGS: [&str; 12] = [
    "image_config",
    "max_output_tokens",
    "seed",
    "speech_config",
    "stop_sequences",
    "temperature",
    "thinking_level",
    "thinking_summaries",
    "tool_choice",
    "top_p",
    "transcription_config",
    "video_config",
];

const LEVELS: [&str; 5] = ["minimal", "low", "medium", "high", "xhigh"];

/// The first member of an object that is not in the list.
fn unknown<'o>(object: &'o Map<String, Value>, known: &[&str]) -> Option<&'o str> {
    let mut names = object.keys().map(String::as_str);
    names.find(|name| !known.contains(name))
}

fn unknown_parameter(name: &str) -> Refusal {
    Refusal {
        code: "parameter_unknown",
        ..Refusal::invalid(format!("Unknown parameter '{name}'."))
    }
}

impl Asked {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Refusal::invalid("The request is too large."));
        }
        let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(body) else {
            return Err(Refusal::invalid("The request is no JSON object."));
        };
        if let Some(name) = unknown(&body, &KNOWN_FIELDS) {
            return Err(unknown_parameter(name));
        }
        let Some(model) = body.get("model").and_then(Value::as_str) else {
            return Err(Refusal::invalid("'model' or 'agent' is required."));
        };
        let stores = body.get("store").and_then(Value::as_bool).unwrap_or(true);
        if !stores && body.contains_key("previous_interaction_id") {
            return Err(Refusal::invalid(
                "'previous_interaction_id' needs an interaction that was stored.",
            ));
        }
        let tools = read_tools(body.get("tools"))?;
        check_settings(body.get("generation_config"), !tools.is_empty())?;
        let input = match body.get("input") {
            Some(Value::String(text)) => {
                vec![json!({"type": "user_input", "content": [{"type": "text", "text": text}]})]
            }
            Some(Value::Array(items)) if !items.is_empty() => items.clone(),
            _ => return Err(Refusal::invalid("'input' is required.")),
        };
        Ok(Self {
            model: model.to_owned(),
            instruction: body
                .get("system_instruction")
                .map(plan::text_of)
                .unwrap_or_default(),
            said: read_input(&input, thinks(model))?,
            searches: declares(body.get("tools"), "google_search"),
            tools,
            streams: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            characters: input.iter().map(|step| step.to_string().len()).sum(),
        })
    }
}

fn check_settings(settings: Option<&Value>, has_functions: bool) -> Result<(), Refusal> {
    let Some(Value::Object(settings)) = settings else {
        return Ok(());
    };
    if let Some(name) = unknown(settings, &KNOWN_SETTINGS) {
        return Err(unknown_parameter(name));
    }
    let level = settings.get("thinking_level").and_then(Value::as_str);
    if level.is_some_and(|level| !LEVELS.contains(&level)) {
        return Err(Refusal::invalid(
            "The value of 'thinking_level' is not supported.",
        ));
    }
    if settings.contains_key("tool_choice") && !has_functions {
        return Err(Refusal::invalid(
            "Function calling config is set without function_declarations.",
        ));
    }
    Ok(())
}

/// Whether the model thinks. The service's documents list a model of the second generation that does not.
fn thinks(model: &str) -> bool {
    !model.starts_with("gemini-2.5-flash-lite") && !model.starts_with("gemini-2.0")
}

fn declares(tools: Option<&Value>, kind: &str) -> bool {
    let mut tools = tools.and_then(Value::as_array).into_iter().flatten();
    tools.any(|tool| tool["type"] == kind)
}

fn read_tools(tools: Option<&Value>) -> Result<Vec<Declaration>, Refusal> {
    const KINDS: [&str; 9] = [
        "function",
        "google_search",
        "code_execution",
        "url_context",
        "file_search",
        "google_maps",
        "computer_use",
        "mcp_server",
        "retrieval",
    ];
    let tools = tools.and_then(Value::as_array).into_iter().flatten();
    let mut declarations = Vec::new();
    for (index, tool) in tools.enumerate() {
        let kind = tool["type"].as_str().unwrap_or_default();
        if !KINDS.contains(&kind) {
            return Err(Refusal::invalid(format!(
                "The value '{kind}' is not supported for 'type' at 'tools[{index}]'."
            )));
        }
        if kind == "function" {
            declarations.push(Declaration {
                name: tool["name"].as_str().unwrap_or_default().to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                parameters: tool.get("parameters").cloned().unwrap_or(Value::Null),
                json_schema: true,
                blocking: true,
            });
        }
    }
    Ok(declarations)
}

const SIGNATURE: &str = "c2ltdWxhdGVk";

/// Checks the service's rules: steps of known types; each call has its result and each result its call; thoughts come back unchanged; and
/// if a model thinks, a thought precedes each call. The wording is ours.
fn read_input(steps: &[Value], thinks: bool) -> Result<Vec<Said>, Refusal> {
    let mut said = Vec::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut results = Vec::new();
    let mut has_thought = false;
    for (index, step) in steps.iter().enumerate() {
        let kind = step["type"].as_str().unwrap_or_default();
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        let refuse = |words: &str| Err(Refusal::invalid(format!("{words} at 'input[{index}]'.")));
        if kind != "function_result" && !results.is_empty() {
            said.push(Said::Results(std::mem::take(&mut results)));
        }
        let is_models = !matches!(kind, "user_input" | "function_result");
        if kind == "user_input" && !open.is_empty() {
            return refuse("A function_result is missing");
        }
        has_thought &= is_models;
        match kind {
            "user_input" => said.push(Said::user(plan::texts_of(&step["content"]), "\n")),
            "model_output" => {}
            "thought" if text("signature") != SIGNATURE => {
                return refuse("The thought signature is not valid");
            }
            "thought" => has_thought = true,
            "function_call" if thinks && !has_thought => {
                return refuse("The function_call is missing a thought signature");
            }
            "function_call" => {
                if text("id").is_empty()
                    || text("name").is_empty()
                    || !step["arguments"].is_object()
                {
                    return refuse("The function_call is not valid");
                }
                open.push((text("id"), text("name")));
            }
            "function_result" => {
                let id = text("call_id");
                let Some(at) = open.iter().position(|(call, _)| *call == id) else {
                    return refuse("The function_result has no function_call");
                };
                let (_, name) = open.remove(at);
                let result = words_of(&step["result"]);
                let value = serde_json::from_str(&result).unwrap_or(Value::String(result));
                results.push((name.to_owned(), value));
            }
            "google_search_call" | "google_search_result" if text("signature") == SIGNATURE => {}
            "google_search_call" | "google_search_result" => {
                return refuse("The signature of a built-in tool is not valid");
            }
            other => {
                return refuse(&format!("The value '{other}' is not supported for 'type'"));
            }
        }
    }
    if !open.is_empty() {
        return Err(Refusal::invalid("A function_result is missing."));
    }
    if !results.is_empty() {
        said.push(Said::Results(results));
    }
    Ok(said)
}

fn words_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// An answer in progress, built as a stream and as a whole at once.
struct Speaker<'a> {
    asked: &'a Asked,
    number: u64,
    stream: Stream,
    steps: Vec<Value>,
    /// The model's current text.
    text: Option<String>,
    said: usize,
    thought: usize,
    calls: usize,
    /// Pages that were found and not cited yet.
    pages: Vec<Page>,
}

const HALF: &str = "(half)";

impl<'a> Speaker<'a> {
    fn new(asked: &'a Asked, number: u64) -> Self {
        let mut speaker = Self {
            asked,
            number,
            stream: Stream::default(),
            steps: Vec::new(),
            text: None,
            said: 0,
            thought: 0,
            calls: 0,
            pages: Vec::new(),
        };
        let interaction = speaker.interaction("in_progress");
        speaker.event("interaction.created", json!({ "interaction": interaction }));
        speaker.event(
            "interaction.status_update",
            json!({"interaction_id": "", "status": "in_progress"}),
        );
        if thinks(&asked.model) {
            speaker.think(None);
        }
        speaker
    }

    /// The interaction, without an id because nothing is stored.
    fn interaction(&self, status: &str) -> Value {
        json!({"id": "", "status": status, "object": "interaction", "model": self.asked.model})
    }

    fn completed(&self) -> Value {
        let status = if self.calls > 0 {
            "requires_action"
        } else {
            "completed"
        };
        let input = plan::tokens(self.asked.characters);
        let (output, thoughts) = (plan::tokens(self.said), plan::tokens(self.thought));
        let mut interaction = self.interaction(status);
        interaction["created"] = json!("2026-09-21T14:13:20Z");
        interaction["usage"] = json!({"total_input_tokens": input, "total_output_tokens": output,
            "total_thought_tokens": thoughts, "total_cached_tokens": 0, "total_tool_use_tokens": 0,
            "total_tokens": input + output + thoughts});
        interaction
    }

    fn write(kind: &str, mut event: Value) -> Vec<u8> {
        event["event_type"] = json!(kind);
        format!("event: {kind}\ndata: {event}\n\n").into_bytes()
    }

    fn event(&mut self, kind: &str, event: Value) {
        self.stream.bytes(Self::write(kind, event));
    }

    fn begin(&mut self, step: &Value) {
        let index = self.steps.len();
        self.event("step.start", json!({"index": index, "step": step}));
    }

    fn delta(&mut self, delta: &Value) {
        let index = self.steps.len();
        self.event("step.delta", json!({"index": index, "delta": delta}));
    }

    /// Ends a step, in the form of a whole answer.
    fn end(&mut self, step: Value) {
        let index = self.steps.len();
        self.event("step.stop", json!({ "index": index }));
        self.steps.push(step);
    }

    fn think(&mut self, text: Option<&str>) {
        self.close_words();
        self.thought += text.map_or(8, str::len);
        self.begin(&json!({"type": "thought"}));
        let mut step = json!({"type": "thought", "signature": SIGNATURE});
        if let Some(text) = text {
            let content = json!({"type": "text", "text": text});
            self.delta(&json!({"type": "thought_summary", "content": content}));
            step["summary"] = json!([content]);
        }
        self.delta(&json!({"type": "thought_signature", "signature": SIGNATURE}));
        self.end(step);
    }

    fn words(&mut self, words: &str) -> Value {
        if self.text.is_none() {
            self.text = Some(String::new());
            self.begin(&json!({"type": "model_output"}));
        }
        json!({"index": self.steps.len(), "delta": {"type": "text", "text": words}})
    }

    fn say(&mut self, words: &str) {
        let event = self.words(words);
        self.event("step.delta", event);
        self.said += words.len();
        if let Some(text) = &mut self.text {
            text.push_str(words);
        }
    }

    fn close_words(&mut self) {
        let Some(text) = self.text.take() else {
            return;
        };
        let mut content = json!({"type": "text", "text": text});
        if !self.pages.is_empty() {
            let pages = std::mem::take(&mut self.pages).into_iter();
            let annotations = pages.map(|page| json!({"type": "url_citation", "start_index": 0, "end_index": text.len(), "url": page.url, "title": page.title}));
            let annotations: Value = annotations.collect();
            self.delta(&json!({"type": "text_annotation_delta", "annotations": annotations}));
            content["annotations"] = annotations;
        }
        self.end(json!({"type": "model_output", "content": [content]}));
    }

    fn call(&mut self, call: &CallForm) {
        self.close_words();
        let mut step = json!({"type": "function_call", "name": call.name, "arguments": {}});
        match &call.id {
            CallId::Minted => step["id"] = json!(format!("call_{}_{}", self.number, self.calls)),
            CallId::Given(id) => step["id"] = json!(id),
            CallId::Missing => {}
        }
        self.begin(&step);
        let arguments = match &call.args {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        for piece in split(&arguments) {
            self.delta(&json!({"type": "arguments_delta", "arguments": piece}));
        }
        self.said += arguments.len();
        self.calls += 1;
        step["arguments"] = call.args.clone();
        self.end(step);
    }

    fn search(&mut self, search: &SearchForm) {
        if !self.asked.searches {
            return;
        }
        self.close_words();
        let id = format!("search_{}_{}", self.number, self.steps.len());
        let arguments = json!({"queries": [search.query]});
        let result = json!([{"search_suggestions": "<div></div>"}]);
        let steps = [
            ("google_search_call", "id", "arguments", arguments),
            ("google_search_result", "call_id", "result", result),
        ];
        for (kind, key, field, value) in steps {
            self.begin(&json!({"type": kind, key: id, "signature": ""}));
            self.delta(&json!({"type": kind, field: value, "signature": SIGNATURE}));
            self.end(json!({"type": kind, key: id, field: value, "signature": SIGNATURE}));
        }
        self.pages.clone_from(&search.pages);
    }

    /// `false` where the answer ends here, without its end event.
    fn act(&mut self, action: &Action) -> bool {
        match action {
            Action::Say(text) => split(text).iter().for_each(|piece| self.say(piece)),
            Action::Think(text) => self.think(Some(text)),
            Action::Call(call) => self.call(call),
            Action::Calls(calls) => calls.iter().for_each(|call| self.call(call)),
            Action::Search(search) => self.search(search),
            Action::Fail(failure) => {
                self.event("error", failure_body(failure));
                return false;
            }
            Action::Endless => {
                let event = self.words("and on ");
                let bytes = Self::write("step.delta", event);
                self.stream.pieces.push(Piece::Endless(bytes));
                return false;
            }
            Action::HalfACharacter => {
                let event = self.words(HALF);
                let event = Self::write("step.delta", event);
                let event = String::from_utf8_lossy(&event).into_owned();
                self.stream.bytes(super::half_a_letter_of(&event, HALF));
            }
            Action::WaitMs(milliseconds) => self.stream.pieces.push(Piece::WaitMs(*milliseconds)),
            Action::Raw(value) => self.stream.push(value),
            Action::RawText(text) => self.stream.bytes(text.clone().into_bytes()),
            Action::LeaveOpen => return false,
            Action::Drop => {
                self.stream.pieces.push(Piece::Cut);
                return false;
            }
            Action::HalfFrame(value) => {
                self.stream.half(value);
                return false;
            }
            // Actions for spoken conversations do nothing here.
            Action::AudioMs(_)
            | Action::ExpectResponse
            | Action::Cancel
            | Action::EndTurn
            | Action::StallMs(_)
            | Action::GoAwayMs(_)
            | Action::Close(_)
            | Action::RefuseConnects(_)
            | Action::Flood(_) => {}
        }
        true
    }

    fn finish(mut self) -> HttpAnswer {
        self.close_words();
        let mut interaction = self.completed();
        if !self.asked.streams {
            interaction["steps"] = json!(self.steps);
            let mut answer = super::json_answer(200, &interaction);
            let waits = self.stream.pieces.into_iter();
            let waits = waits.filter(|piece| matches!(piece, Piece::WaitMs(_)));
            answer.body.splice(0..0, waits);
            return answer;
        }
        self.event(
            "interaction.completed",
            json!({ "interaction": interaction }),
        );
        self.stream.bytes(b"event: done\ndata: [DONE]\n\n".to_vec());
        self.stream.answer()
    }

    /// Breaks the answer: a stream where it stands, a whole answer before its first byte.
    fn cut_short(self) -> HttpAnswer {
        if self.asked.streams {
            return self.stream.answer();
        }
        let mut answer = super::json_answer(200, &Value::Null);
        answer.body = match self.stream.pieces.into_iter().next_back() {
            Some(Piece::Endless(bytes)) => vec![Piece::Endless(bytes)],
            Some(_) | None => vec![Piece::Cut],
        };
        answer
    }
}
