//! OpenAI's Responses as the service answers: its rules for items, its events. Knows nothing of the answer's content.

use super::openai_refusal::{Refusal, error_body};
use super::openai_rules::{CREATED, NAME_BYTES_MAX, TOOLS_MAX, is_name};
use super::plan::{self, Said};
use super::{BODY_BYTES_MAX, HttpAnswer, Piece, Stream};
use crate::declaration::Declaration;
use crate::pieces::split;
use crate::runner::Options;
use crate::script::{Action, CallForm, CallId, Page, SearchForm};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Answers a request whose key was accepted.
pub(super) fn answer(body: &[u8], options: &Options, number: u64) -> HttpAnswer {
    let asked = match ResponsesRequest::read(body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal.answer(),
    };
    let actions = plan::next(options, &asked.instruction, &asked.said, &asked.tools);
    if let Some(Action::Fail(failure)) = actions.first() {
        let message = failure.message.as_deref().unwrap_or("The script says so.");
        let body = error_body(failure.status, None, None, message);
        return super::failed(failure, &body);
    }
    let mut speaker = Speaker::new(&asked, number);
    for action in &actions {
        if !speaker.act(action) {
            return speaker.cut_short();
        }
    }
    speaker.finish()
}

/// The path of a field of a flat declaration.
fn place_of_tool(index: usize, field: &str) -> String {
    format!("tools[{index}].{field}")
}

struct ResponsesRequest {
    model: String,
    instruction: String,
    said: Vec<Said>,
    tools: Vec<Declaration>,
    /// Whether the service's own search is declared.
    searches: bool,
    streams: bool,
    /// Whether the model reasons before each answer.
    reasons: bool,
    wants_encrypted: bool,
    characters: usize,
}

/// The service's fields that a client of tools might send.
const KNOWN_FIELDS: [&str; 23] = [
    "background",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "truncation",
];

const ENCRYPTED: &str = "reasoning.encrypted_content";

impl ResponsesRequest {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Refusal::too_large());
        }
        let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(body) else {
            return Err(Refusal::invalid(
                "We could not parse the JSON body of your request.",
            ));
        };
        if let Some(name) = body
            .keys()
            .find(|name| !KNOWN_FIELDS.contains(&name.as_str()))
        {
            let message = format!("Unknown parameter: '{name}'.");
            return Err(Refusal::invalid(message)
                .named("unknown_parameter")
                .at(name.as_str()));
        }
        let Some(model) = body.get("model").and_then(Value::as_str) else {
            return Err(Refusal::invalid("Missing required parameter: 'model'.").at("model"));
        };
        let reasons = ["gpt-5", "gpt-6", "o1", "o3", "o4"]
            .iter()
            .any(|family| model.starts_with(family));
        let effort = body
            .get("reasoning")
            .and_then(|reasoning| reasoning["effort"].as_str());
        let mut included = body
            .get("include")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let wants_encrypted = included.any(|name| name == ENCRYPTED);
        if !reasons && (wants_encrypted || effort.is_some()) {
            let (message, param) = match wants_encrypted {
                true => (
                    "Encrypted content is not supported with this model.",
                    "include",
                ),
                false => (
                    "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                    "reasoning.effort",
                ),
            };
            return Err(Refusal::invalid(message).at(param));
        }
        let stores = body.get("store").and_then(Value::as_bool).unwrap_or(true);
        let input = match body.get("input") {
            Some(Value::String(text)) => vec![json!({"role": "user", "content": text})],
            Some(Value::Array(items)) if !items.is_empty() => items.clone(),
            _ => return Err(Refusal::invalid("Missing required parameter: 'input'.").at("input")),
        };
        let tools = read_tools(body.get("tools"))?;
        let choice = body.get("tool_choice").filter(|choice| !choice.is_null());
        if tools.is_empty() && choice.is_some_and(|choice| *choice != "auto" && *choice != "none") {
            let message = "Tool choice 'required' must be specified with 'tools' parameter.";
            return Err(Refusal::invalid(message).at("tool_choice"));
        }
        let forbids = choice.is_some_and(|choice| *choice == "none");
        Ok(Self {
            model: model.to_owned(),
            instruction: match body.get("instructions").and_then(Value::as_str) {
                Some(said) => said.to_owned(),
                None => plan::instruction_of(&input),
            },
            said: read_input(&input, stores)?,
            tools: if forbids { Vec::new() } else { tools },
            searches: !forbids && declares(body.get("tools"), "web_search"),
            streams: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            reasons: reasons && effort != Some("none"),
            wants_encrypted,
            characters: input.iter().map(|item| item.to_string().len()).sum(),
        })
    }
}

fn declares(tools: Option<&Value>, kind: &str) -> bool {
    let mut tools = tools.and_then(Value::as_array).into_iter().flatten();
    tools.any(|tool| tool["type"] == kind)
}

/// Function declarations are flat here.
fn read_tools(tools: Option<&Value>) -> Result<Vec<Declaration>, Refusal> {
    let tools = tools
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    if tools.len() > TOOLS_MAX {
        return Err(Refusal::invalid("Invalid 'tools': array too long.")
            .named("array_above_max_length")
            .at("tools"));
    }
    let mut declarations = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" {
            if tool["type"].is_string() {
                continue;
            }
            let param = format!("tools[{index}].type");
            return Err(
                Refusal::invalid(format!("Missing required parameter: '{param}'."))
                    .named("missing_required_parameter")
                    .at(param),
            );
        }
        let name = tool["name"].as_str().unwrap_or_default();
        if name.len() > NAME_BYTES_MAX || !is_name(name) {
            let param = place_of_tool(index, "name");
            let message = format!("Missing required parameter: '{param}'.");
            return Err(Refusal::invalid(message)
                .named("missing_required_parameter")
                .at(param));
        }
        let parameters = tool.get("parameters").cloned();
        declarations.push(Declaration {
            name: name.to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
            json_schema: true,
            blocking: true,
        });
    }
    Ok(declarations)
}

/// Checks the service's rules: each call has its output, each output its call, and reasoning comes back unchanged, before the items that
/// followed from it.
fn read_input(items: &[Value], stores: bool) -> Result<Vec<Said>, Refusal> {
    let mut said = Vec::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open: Vec<&str> = Vec::new();
    let mut results = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        if kind != "function_call_output" && !results.is_empty() {
            said.push(Said::Results(std::mem::take(&mut results)));
        }
        match kind {
            "message" => match text("role") {
                "user" => said.push(Said::user(plan::texts_of(&item["content"]), "\n")),
                "system" | "developer" | "assistant" => {}
                other => {
                    let message = format!(
                        "Invalid value: '{other}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
                    );
                    return Err(Refusal::invalid(message).at(format!("input[{index}].role")));
                }
            },
            "function_call" => {
                let is_object = serde_json::from_str::<Map<String, Value>>(text("arguments"));
                if text("call_id").is_empty() || !is_name(text("name")) || is_object.is_err() {
                    let message = "Invalid function call in 'input'.";
                    return Err(Refusal::invalid(message).at(format!("input[{index}]")));
                }
                names.insert(text("call_id"), text("name"));
                open.push(text("call_id"));
            }
            "function_call_output" => {
                let id = text("call_id");
                let Some(name) = names.get(id).filter(|_| open.contains(&id)) else {
                    return Err(Refusal::invalid(format!(
                        "No tool call found for function call output with call_id {id}."
                    ))
                    .at("input"));
                };
                open.retain(|open| *open != id);
                let output = text_of(&item["output"]);
                let value = serde_json::from_str(&output).unwrap_or(Value::String(output));
                results.push(((*name).to_owned(), value));
            }
            "reasoning" => check_reasoning(item, items.get(index + 1), stores)?,
            "web_search_call" | "code_interpreter_call" | "item_reference" => {}
            other => {
                let message = format!("Invalid value: '{other}'.");
                return Err(Refusal::invalid(message).at(format!("input[{index}].type")));
            }
        }
    }
    if let Some(id) = open.first() {
        return Err(
            Refusal::invalid(format!("No tool output found for function call {id}.")).at("input"),
        );
    }
    if !results.is_empty() {
        said.push(Said::Results(results));
    }
    Ok(said)
}

fn check_reasoning(item: &Value, next: Option<&Value>, stores: bool) -> Result<(), Refusal> {
    let id = item["id"].as_str().unwrap_or_default();
    match item["encrypted_content"].as_str() {
        Some(content) if content != encrypted(id) => {
            return Err(Refusal::invalid(format!(
                "The encrypted content for item {id} could not be verified."
            ))
            .named("invalid_encrypted_content"));
        }
        None if !stores => {
            return Err(Refusal::invalid(format!(
                    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
                ))
                .at("input")
            .with_status(404));
        }
        Some(_) | None => {}
    }
    if !item["summary"].is_array() {
        return Err(Refusal::invalid(
            "Missing required parameter: 'input.summary'.",
        ));
    }
    let follows = next.is_some_and(|next| {
        next["role"] == "assistant"
            || next["type"]
                .as_str()
                .is_some_and(|kind| kind != "message" && kind != "function_call_output")
    });
    if follows {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "Item '{id}' of type 'reasoning' was provided without its required following item."
    ))
    .at("input"))
}

fn encrypted(id: &str) -> String {
    format!("sealed-{id}")
}

fn text_of(content: &Value) -> String {
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
    asked: &'a ResponsesRequest,
    number: u64,
    stream: Stream,
    sequence: u64,
    output: Vec<Value>,
    /// The current message.
    text: Option<String>,
    said: usize,
    thought: usize,
    /// Pages that were found and not cited yet.
    pages: Vec<Page>,
}

const HALF: &str = "(half)";

impl<'a> Speaker<'a> {
    fn new(asked: &'a ResponsesRequest, number: u64) -> Self {
        let mut speaker = Self {
            asked,
            number,
            stream: Stream::default(),
            sequence: 0,
            output: Vec::new(),
            text: None,
            said: 0,
            thought: 0,
            pages: Vec::new(),
        };
        for kind in ["response.created", "response.in_progress"] {
            let response = speaker.response("in_progress");
            speaker.event(kind, json!({ "response": response }));
        }
        if asked.reasons {
            speaker.think(None);
        }
        speaker
    }

    fn response(&self, status: &str) -> Value {
        let usage = match status {
            "completed" => {
                let prompt = plan::tokens(self.asked.characters);
                let output = plan::tokens(self.said + self.thought);
                json!({"input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens": output, "output_tokens_details": {"reasoning_tokens": plan::tokens(self.thought)},
                    "total_tokens": prompt + output})
            }
            _ => Value::Null,
        };
        json!({"id": format!("resp_{}", self.number), "object": "response", "created_at": CREATED, "status": status,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "model": self.asked.model,
            "output": self.output, "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "usage": usage})
    }

    fn write(&mut self, kind: &str, mut event: Value) -> Vec<u8> {
        event["type"] = json!(kind);
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {kind}\ndata: {event}\n\n").into_bytes()
    }

    fn event(&mut self, kind: &str, event: Value) {
        let bytes = self.write(kind, event);
        self.stream.bytes(bytes);
    }

    fn item(&mut self, kind: &str, item: &Value) {
        let index = self.output.len();
        self.event(kind, json!({"output_index": index, "item": item}));
    }

    fn item_done(&mut self, item: Value) {
        self.item("response.output_item.done", &item);
        self.output.push(item);
    }

    fn id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.number, self.output.len())
    }

    fn think(&mut self, text: Option<&str>) {
        self.close_message();
        let id = self.id("rs");
        let summary: Vec<Value> = text
            .iter()
            .map(|text| json!({"type": "summary_text", "text": text}))
            .collect();
        self.thought += text.map_or(8, str::len);
        let mut item = json!({"id": id, "type": "reasoning", "summary": []});
        self.item("response.output_item.added", &item);
        item["summary"] = Value::Array(summary);
        if self.asked.wants_encrypted {
            item["encrypted_content"] = json!(encrypted(&id));
        }
        self.item_done(item);
    }

    fn message(id: &str, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text
            .iter()
            .map(|text| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}))
            .collect();
        json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
    }

    fn delta(&mut self, words: &str) -> Vec<u8> {
        let (id, index) = (self.id("msg"), self.output.len());
        if self.text.is_none() {
            self.text = Some(String::new());
            self.item(
                "response.output_item.added",
                &Self::message(&id, "in_progress", None),
            );
            let part =
                json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
            self.event(
                "response.content_part.added",
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": part}),
            );
        }
        let delta = json!({"item_id": id, "output_index": index, "content_index": 0, "delta": words, "logprobs": []});
        self.write("response.output_text.delta", delta)
    }

    fn say(&mut self, words: &str) {
        let bytes = self.delta(words);
        self.stream.bytes(bytes);
        self.said += words.len();
        if let Some(text) = &mut self.text {
            text.push_str(words);
        }
    }

    fn close_message(&mut self) {
        let Some(text) = self.text.take() else {
            return;
        };
        let (id, index) = (self.id("msg"), self.output.len());
        self.event(
            "response.output_text.done",
            json!({"item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": []}),
        );
        let mut item = Self::message(&id, "completed", Some(&text));
        let pages = std::mem::take(&mut self.pages).into_iter();
        let annotations = pages.map(|page| json!({"type": "url_citation", "start_index": 0, "end_index": text.len(), "url": page.url, "title": page.title}));
        item["content"][0]["annotations"] = annotations.collect();
        let part = item["content"][0].clone();
        self.event(
            "response.content_part.done",
            json!({"item_id": id, "output_index": index, "content_index": 0, "part": part}),
        );
        self.item_done(item);
    }

    fn call(&mut self, call: &CallForm) {
        self.close_message();
        let arguments = match &call.args {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let (id, index) = (self.id("fc"), self.output.len());
        let call_id = match &call.id {
            CallId::Minted => json!(format!("call_{}_{index}", self.number)),
            CallId::Given(id) => json!(id),
            CallId::Missing => Value::Null,
        };
        let item = |status: &str, arguments: &str| json!({"id": id, "type": "function_call", "status": status, "arguments": arguments, "call_id": call_id, "name": call.name});
        self.item("response.output_item.added", &item("in_progress", ""));
        self.event(
            "response.function_call_arguments.delta",
            json!({"item_id": id, "output_index": index, "delta": arguments}),
        );
        self.event(
            "response.function_call_arguments.done",
            json!({"item_id": id, "output_index": index, "name": call.name, "arguments": arguments}),
        );
        self.said += arguments.len();
        self.item_done(item("completed", &arguments));
    }

    fn search(&mut self, search: &SearchForm) {
        if !self.asked.searches {
            return;
        }
        self.close_message();
        let id = self.id("ws");
        let action = json!({"type": "search", "query": search.query});
        let item = |status: &str| json!({"id": id, "type": "web_search_call", "status": status, "action": action});
        self.item("response.output_item.added", &item("in_progress"));
        self.item_done(item("completed"));
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
                let message = failure.message.as_deref().unwrap_or("The script says so.");
                let code = match failure.status {
                    429 => "rate_limit_exceeded",
                    500.. => "server_error",
                    _ => "invalid_prompt",
                };
                self.event(
                    "error",
                    json!({"code": code, "message": message, "param": null}),
                );
                return false;
            }
            Action::Endless => {
                let bytes = self.delta("and on ");
                self.stream.pieces.push(Piece::Endless(bytes));
                return false;
            }
            Action::HalfACharacter => {
                let event = self.delta(HALF);
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
        self.close_message();
        let response = self.response("completed");
        if !self.asked.streams {
            let mut answer = super::json_answer(200, &response);
            let waits = self.stream.pieces.into_iter();
            let waits = waits.filter(|piece| matches!(piece, Piece::WaitMs(_)));
            answer.body.splice(0..0, waits);
            return answer;
        }
        self.event("response.completed", json!({ "response": response }));
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
