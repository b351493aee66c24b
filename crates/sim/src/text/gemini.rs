//! Gemini's `generateContent` and `streamGenerateContent` as the service answers: its routes, its rules for contents, its chunks. Knows
//! nothing of the answer's content.

use super::plan::{self, Said};
use super::{BODY_BYTES_MAX, HttpAnswer, Piece, Request, Stream};
use crate::declaration::Declaration;
use crate::pieces::split;
use crate::runner::Options;
use crate::script::{Action, CallForm, CallId, HttpFailure, SearchForm};
use serde_json::{Value, json};

fn refusal(status: u16, message: &str) -> HttpAnswer {
    super::json_answer(status, &error_body(status, message, None))
}

fn error_body(status: u16, message: &str, retry_after: Option<u64>) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    let mut error = json!({"code": status, "message": message, "status": name});
    if let Some(seconds) = retry_after {
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s")}]);
    }
    json!({ "error": error })
}

/// The body of a script's failure, in the service's form.
fn failure_body(failure: &HttpFailure) -> Value {
    let message = failure.message.as_deref().unwrap_or("The script says so.");
    error_body(failure.status, message, failure.retry_after)
}

pub(super) fn answer(request: &Request<'_>, options: &Options, number: u64) -> HttpAnswer {
    let (model, streams) = match route(request) {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let content = match Content::read(request.body, model) {
        Ok(content) => content,
        Err(message) => return refusal(400, &message),
    };
    let actions = plan::next(options, &content.instruction, &content.said, &content.tools);
    if let Some(Action::Fail(failure)) = actions.first() {
        return super::failed(failure, &failure_body(failure));
    }
    let mut speaker = Speaker {
        model,
        number,
        parts: Vec::new(),
        stream: Stream::default(),
        characters: content.characters,
        said: 0,
        calls: 0,
        searches: content.searches,
        grounding: None,
    };
    let is_complete = actions.iter().all(|action| speaker.act(action));
    speaker.answer(streams, is_complete)
}

/// Every key is accepted, with two exceptions: `bad-` is refused with 400, as at the service, and `quota-` with 429.
fn route<'r>(request: &Request<'r>) -> Result<(&'r str, bool), HttpAnswer> {
    let unknown = || refusal(404, "The requested URL was not found on this server.");
    let (before, method) = request.path.rsplit_once(':').ok_or_else(unknown)?;
    let (_, model) = before.rsplit_once("models/").ok_or_else(unknown)?;
    let streams = match method {
        "generateContent" => false,
        "streamGenerateContent" => true,
        _ => return Err(unknown()),
    };
    if request.method != "POST" || model.is_empty() {
        return Err(unknown());
    }
    let bearer = request.header("authorization");
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let key = request.header("x-goog-api-key").or(bearer);
    match key.or_else(|| request.parameter("key")).unwrap_or_default() {
        "" => Err(refusal(403, "Method doesn't allow unregistered callers.")),
        key if key.starts_with("bad-") => Err(refusal(
            400,
            "API key not valid. Please pass a valid API key.",
        )),
        key if key.starts_with("quota-") => Err(refusal(429, "You exceeded your current quota.")),
        _ => Ok((model, streams)),
    }
}

struct Content {
    instruction: String,
    said: Vec<Said>,
    tools: Vec<Declaration>,
    /// Whether the service's own search is declared.
    searches: bool,
    characters: usize,
}

/// Whether calls are signed: from the third generation on, a message's first call has a signature, which has to be sent back.
fn is_signed(model: &str) -> bool {
    let generation = model.strip_prefix("gemini-").unwrap_or_default();
    !generation.starts_with("1.") && !generation.starts_with("2.")
}

const SIGNATURE: &str = "c2ltdWxhdGVk";
/// The replacement for a signature in another model's history.
const SKIPPED: &str = "skip_thought_signature_validator";

impl Content {
    fn read(body: &[u8], model: &str) -> Result<Self, String> {
        if body.len() > BODY_BYTES_MAX {
            return Err("Request payload size exceeds the limit.".to_owned());
        }
        let body: Value = serde_json::from_slice(body)
            .map_err(|_| "Invalid JSON payload received.".to_owned())?;
        let Some(fields) = body.as_object() else {
            return Err("Invalid JSON payload received.".to_owned());
        };
        for name in fields.keys() {
            if !KNOWN_FIELDS.contains(&name.as_str()) {
                return Err(format!(
                    "Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."
                ));
            }
        }
        let contents = body["contents"].as_array();
        let Some(contents) = contents.filter(|contents| !contents.is_empty()) else {
            return Err("* GenerateContentRequest.contents: contents is not specified".to_owned());
        };
        let tools = read_tools(&body["tools"]);
        check_combination(&body, model, !tools.is_empty())?;
        let instruction = field(&body, "systemInstruction", "system_instruction");
        Ok(Self {
            instruction: instruction
                .map(|said| plan::text_of(&said["parts"]))
                .unwrap_or_default(),
            said: read_contents(contents, is_signed(model))?,
            tools,
            searches: own_tools(&body["tools"])
                .any(|name| is_named(name, "googleSearch", "google_search")),
            characters: contents
                .iter()
                .map(|content| content.to_string().len())
                .sum(),
        })
    }
}

const KNOWN_FIELDS: [&str; 12] = [
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
    "generationConfig",
    "generation_config",
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
];

fn is_named(name: &str, camel: &str, snake: &str) -> bool {
    name == camel || name == snake
}

/// The names of the service's own tools in a request.
fn own_tools(tools: &Value) -> impl Iterator<Item = &str> {
    let tools = tools.as_array().into_iter().flatten();
    let names = tools
        .filter_map(Value::as_object)
        .flat_map(|tool| tool.keys());
    names
        .map(String::as_str)
        .filter(|name| !is_named(name, "functionDeclarations", "function_declarations"))
}

/// Checks functions beside the service's own tools: they are allowed from the third generation on, and only if the request declares that
/// it accepts the results of these tools.
fn check_combination(body: &Value, model: &str, has_functions: bool) -> Result<(), String> {
    if !has_functions || own_tools(&body["tools"]).next().is_none() {
        return Ok(());
    }
    if !is_signed(model) {
        return Err("Tool use with function calling is unsupported".to_owned());
    }
    let config = field(body, "toolConfig", "tool_config").unwrap_or(&Value::Null);
    let takes = field(
        config,
        "includeServerSideToolInvocations",
        "include_server_side_tool_invocations",
    );
    match takes.and_then(Value::as_bool) {
        Some(true) => Ok(()),
        Some(false) | None => Err("Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.".to_owned()),
    }
}

fn read_tools(tools: &Value) -> Vec<Declaration> {
    let functions = tools.as_array().into_iter().flatten();
    let functions = functions.filter_map(|tool| {
        let list = tool.get("functionDeclarations");
        list.or_else(|| tool.get("function_declarations"))?
            .as_array()
    });
    functions
        .flatten()
        .map(|function| {
            let schema = field(function, "parametersJsonSchema", "parameters_json_schema");
            let parameters = schema.or_else(|| function.get("parameters"));
            Declaration {
                name: function["name"].as_str().unwrap_or_default().to_owned(),
                description: function["description"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                parameters: parameters.cloned().unwrap_or(Value::Null),
                json_schema: schema.is_some(),
                blocking: true,
            }
        })
        .collect()
}

fn field<'v>(part: &'v Value, camel: &str, snake: &str) -> Option<&'v Value> {
    part.get(camel).or_else(|| part.get(snake))
}

/// The calls of one content: id and tool.
type Calls = Vec<(Option<String>, String)>;

fn id_of(value: &Value) -> Option<String> {
    value["id"].as_str().map(str::to_owned)
}

fn name_of(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}

/// Checks the service's rules: roles, calls before their results, as many results as calls, matching ids, and signatures.
fn read_contents(contents: &[Value], is_signed: bool) -> Result<Vec<Said>, String> {
    let mut said = Vec::new();
    let mut open = Calls::new();
    let is_users = |content: &Value| {
        let parts = content["parts"].as_array().into_iter().flatten();
        let mut others =
            parts.filter(|part| field(part, "functionResponse", "function_response").is_none());
        content["role"] != "model" && others.next().is_some()
    };
    let last_user = contents.iter().rposition(is_users);
    for (index, content) in contents.iter().enumerate() {
        let parts = content["parts"]
            .as_array()
            .filter(|parts| !parts.is_empty());
        let Some(parts) = parts else {
            return Err(format!(
                "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
            ));
        };
        match content["role"].as_str().unwrap_or("user") {
            "model" if !open.is_empty() => return Err(COUNT_RULE.to_owned()),
            "model" => {
                let is_due = is_signed && last_user.is_some_and(|user| index > user);
                open = read_calls(parts, is_due)?;
                if index == 0 && !open.is_empty() {
                    return Err(ORDER_RULE.to_owned());
                }
            }
            "user" | "function" => read_input(parts, &std::mem::take(&mut open), &mut said)?,
            _ => return Err("Please use a valid role: user, model.".to_owned()),
        }
    }
    if open.is_empty() {
        Ok(said)
    } else {
        Err(COUNT_RULE.to_owned())
    }
}

/// Checks that each call of the service's own tools is returned with its result, both with their signatures.
fn check_own(parts: &[Value]) -> Result<(), String> {
    let mut open: Option<&Value> = None;
    for part in parts {
        let call = field(part, "toolCall", "tool_call");
        let response = field(part, "toolResponse", "tool_response");
        if call.or(response).is_none() {
            continue;
        }
        let signature = field(part, "thoughtSignature", "thought_signature");
        if signature.is_none_or(|signature| signature != SIGNATURE) {
            return Err("Invalid thought signature.".to_owned());
        }
        match (call, response, open) {
            (Some(call), None, None) => open = Some(&call["id"]),
            (None, Some(response), Some(id)) if response["id"] == *id => open = None,
            _ => return Err(OWN_RULE.to_owned()),
        }
    }
    match open {
        None => Ok(()),
        Some(_) => Err(OWN_RULE.to_owned()),
    }
}

/// The wording is ours; no recorded answer has it.
const OWN_RULE: &str =
    "Please ensure that each tool call part is followed by its tool response part.";

/// The calls of the model's content; the first one may need a signature.
fn read_calls(parts: &[Value], is_due: bool) -> Result<Calls, String> {
    check_own(parts)?;
    let mut calls = Calls::new();
    for part in parts {
        let Some(call) = field(part, "functionCall", "function_call") else {
            continue;
        };
        let signature = field(part, "thoughtSignature", "thought_signature");
        match signature.and_then(Value::as_str) {
            None if is_due && calls.is_empty() => {
                return Err(format!(
                    "Function call is missing a thought_signature in functionCall parts: function call `{}`, position 0.",
                    name_of(call)
                ));
            }
            Some(signature) if signature != SIGNATURE && signature != SKIPPED => {
                return Err("Invalid thought signature.".to_owned());
            }
            Some(_) | None => {}
        }
        calls.push((id_of(call), name_of(call)));
    }
    Ok(calls)
}

/// Reads the user's content: the results of the calls before it, and words.
fn read_input(parts: &[Value], open: &Calls, said: &mut Vec<Said>) -> Result<(), String> {
    let (mut results, mut ids, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match field(part, "functionResponse", "function_response") {
            Some(response) => {
                ids.push(id_of(response));
                results.push((name_of(response), response["response"].clone()));
            }
            None => texts.extend(part["text"].as_str().map(str::to_owned)),
        }
    }
    if results.len() != open.len() {
        return Err(COUNT_RULE.to_owned());
    }
    if open.iter().zip(&ids).any(|((call, _), id)| call != id) {
        return Err("functionResponse.id does not match functionCall.id".to_owned());
    }
    if !results.is_empty() {
        said.push(Said::Results(results));
    }
    if texts.iter().any(|text| !text.is_empty()) {
        said.push(Said::user(texts, ""));
    }
    Ok(())
}

const COUNT_RULE: &str = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";
const ORDER_RULE: &str = "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";

struct Speaker<'r> {
    model: &'r str,
    number: u64,
    parts: Vec<Value>,
    stream: Stream,
    characters: usize,
    said: usize,
    calls: usize,
    searches: bool,
    grounding: Option<Value>,
}

const HALF: &str = "(half)";

impl Speaker<'_> {
    fn chunk(&self, parts: &[Value], finish_reason: Option<&str>) -> Value {
        let prompt = plan::tokens(self.characters);
        let answer = plan::tokens(self.said);
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(reason) = finish_reason {
            candidate["finishReason"] = json!(reason);
            if let Some(grounding) = &self.grounding {
                candidate["groundingMetadata"] = grounding.clone();
            }
        }
        json!({"candidates": [candidate], "modelVersion": self.model, "responseId": format!("response-{}", self.number),
            "usageMetadata": {"promptTokenCount": prompt, "candidatesTokenCount": answer,
                "totalTokenCount": prompt + answer}})
    }

    fn part(&mut self, part: Value) {
        self.said += part.to_string().len();
        let chunk = self.chunk(std::slice::from_ref(&part), None);
        self.stream.push(&chunk);
        self.parts.push(part);
    }

    /// `false` where the answer ends here, without its finish reason.
    fn act(&mut self, action: &Action) -> bool {
        match action {
            Action::Say(text) => {
                for piece in split(text) {
                    self.part(json!({ "text": piece }));
                }
            }
            Action::Think(text) => self.part(json!({"text": text, "thought": true})),
            Action::Call(call) => self.call(call),
            Action::Calls(calls) => calls.iter().for_each(|call| self.call(call)),
            Action::Search(search) => self.search(search),
            Action::Fail(failure) => {
                self.stream.push(&failure_body(failure));
                return false;
            }
            Action::Endless => {
                let chunk = self.chunk(&[json!({ "text": "and on " })], None);
                let bytes = format!("data: {chunk}\n\n").into_bytes();
                self.stream.pieces.push(Piece::Endless(bytes));
                return false;
            }
            Action::HalfACharacter => {
                let chunk = self.chunk(&[json!({ "text": HALF })], None);
                self.stream.bytes(super::half_a_letter(&chunk, HALF));
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

    fn search(&mut self, search: &SearchForm) {
        if !self.searches {
            return;
        }
        let id = format!("search_{}_{}", self.number, self.parts.len());
        let kind = "GOOGLE_SEARCH_WEB";
        self.part(json!({"toolCall": {"toolType": kind, "args": {"queries": [search.query]}, "id": id}, "thoughtSignature": SIGNATURE}));
        self.part(json!({"toolResponse": {"toolType": kind, "response": {"search_suggestions": "<div></div>"}, "id": id}, "thoughtSignature": SIGNATURE}));
        self.grounding = Some(search.grounding());
    }

    fn call(&mut self, call: &CallForm) {
        let mut function = json!({"name": call.name, "args": call.args});
        match &call.id {
            CallId::Minted => {
                function["id"] = json!(format!("call_{}_{}", self.number, self.calls))
            }
            CallId::Given(id) => function["id"] = json!(id),
            CallId::Missing => {}
        }
        let mut part = json!({ "functionCall": function });
        if self.calls == 0 && is_signed(self.model) {
            part["thoughtSignature"] = json!(SIGNATURE);
        }
        self.calls += 1;
        self.part(part);
    }

    fn answer(mut self, streams: bool, is_complete: bool) -> HttpAnswer {
        if streams {
            if is_complete {
                let last = self.chunk(&[json!({ "text": "" })], Some("STOP"));
                self.stream.push(&last);
            }
            return self.stream.answer();
        }
        let body = self.chunk(&self.parts, is_complete.then_some("STOP"));
        let mut answer = super::json_answer(200, &body);
        match self.stream.pieces.into_iter().next_back() {
            Some(Piece::Endless(bytes)) => answer.body = vec![Piece::Endless(bytes)],
            Some(Piece::Cut) => answer.body = vec![Piece::Cut],
            Some(Piece::Bytes(_) | Piece::WaitMs(_)) | None => {}
        }
        answer
    }
}
