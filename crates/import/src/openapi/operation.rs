//! One operation as one tool: its arguments, its request, and the text about it for a model.

use super::server::Address;
use super::style::{Style, as_json};
use super::{Operation, body};
use crate::schema::{Converter, Need, followed};
use crate::words::{brief, one_line, plain, snake_case};
use crate::{Code, ToolDirectory};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const DESCRIPTION_CHARACTERS_MAX: usize = 1_000;
const SUMMARY_CHARACTERS_MAX: usize = 240;
/// A request over the network takes longer than a lookup in memory; the hard limit is ten times as much.
const LATENCY_BUDGET_MS: u64 = 1_500;
/// Headers that the runtime or the transport writes, and headers of authorisation: never a model's.
/// Source: <https://spec.openapis.org/oas/v3.1.0#parameter-object> (the first three).
const OWN_HEADERS: [&str; 8] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "idempotency-key",
];

/// The request and the arguments that it is made of, as they are gathered.
#[derive(Default)]
pub(super) struct Request {
    properties: Map<String, Value>,
    required: Vec<String>,
    path: String,
    query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    pub(super) body: Option<Value>,
    secrets: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Makes the tool, or says why there can be none.
pub(super) fn tool(
    document: &Value,
    address: Address,
    operation: &Operation<'_>,
    id: &str,
) -> Result<ToolDirectory, String> {
    // Such a path after a host would change the host.
    if !operation.path.starts_with('/') {
        return Err("its path does not begin with /".to_owned());
    }
    expect_readable_answer(document, operation)?;
    let mut converter = Converter::new(document);
    let mut request = Request {
        // Some descriptions tell operations of one path apart by a fragment, which no server is ever sent.
        path: operation
            .path
            .split('#')
            .next()
            .unwrap_or_default()
            .to_owned(),
        notes: address.notes,
        ..Request::default()
    };
    parameters(document, operation, &mut converter, &mut request)?;
    body::add(document, operation, &mut converter, &mut request)?;
    authorisation(document, operation, &address.host, &mut request)?;
    request.notes.append(&mut converter.notes());
    let writes = operation.method != "get";
    let description = description(operation);
    if description.ends_with('…') {
        request.notes.push(format!(
            "the description is cut to {DESCRIPTION_CHARACTERS_MAX} characters"
        ));
    }
    Ok(ToolDirectory {
        definition: None,
        id: id.to_owned(),
        origin: operation.origin(),
        schema: schema(operation, id, &description, &request),
        guide: guide(id, &description, &request, writes),
        code: Code::Declared(handler(operation, &address.server, &request)),
        secrets: request.secrets,
        notes: request.notes,
        remarks: Vec::new(),
    })
}

fn schema(operation: &Operation<'_>, id: &str, description: &str, request: &Request) -> Value {
    let writes = operation.method != "get";
    let mut parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": request.properties,
    });
    if !request.required.is_empty() {
        parameters["required"] = json!(request.required);
    }
    json!({
        "toolId": id,
        "version": "1.0.0",
        "description": description,
        "category": if writes { "action" } else { "retrieval" },
        "sideEffects": if writes { "writes" } else { "read_only" },
        // RFC 9110, section 9.2.2: PUT and DELETE are idempotent as GET is; POST and PATCH are not.
        "idempotent": matches!(operation.method, "get" | "put" | "delete"),
        // Holds until the author has reviewed the operation.
        "requiresConfirmation": writes,
        "allowedModes": ["text", "voice"],
        "latencyBudgetMs": LATENCY_BUDGET_MS,
        "reach": "external",
        "parameters": parameters,
    })
}

fn handler(operation: &Operation<'_>, server: &str, request: &Request) -> Value {
    let mut handler = json!({
        "kind": "http",
        "method": operation.method.to_ascii_uppercase(),
        "url": format!("{server}{}", request.path),
    });
    if !request.query.is_empty() {
        handler["query"] = json!(request.query);
    }
    if !request.headers.is_empty() {
        handler["headers"] = json!(request.headers);
    }
    if let Some(body) = &request.body {
        handler["body"] = body.clone();
    }
    handler
}

/// A model reads text. Pictures and archives are no answer to it.
fn expect_readable_answer(document: &Value, operation: &Operation<'_>) -> Result<(), String> {
    let responses = operation.value.get("responses").and_then(Value::as_object);
    let mut kinds = BTreeSet::new();
    for (status, response) in responses.into_iter().flatten() {
        if !status.starts_with('2') {
            continue;
        }
        let content = followed(document, response)?.get("content");
        let Some(content) = content.and_then(Value::as_object) else {
            return Ok(());
        };
        kinds.extend(content.keys().cloned());
    }
    let is_readable =
        |kind: &String| body::is_json(kind) || kind.starts_with("text/") || kind.starts_with("*/");
    if kinds.is_empty() || kinds.iter().any(is_readable) {
        return Ok(());
    }
    let kinds: Vec<String> = kinds.iter().map(|kind| brief(kind)).collect();
    Err(format!(
        "it answers with {}, not with JSON or text",
        kinds.join(", ")
    ))
}

/// Parameters of the path and of the operation; the operation's win.
fn parameters(
    document: &Value,
    operation: &Operation<'_>,
    converter: &mut Converter<'_>,
    request: &mut Request,
) -> Result<(), String> {
    let mut declared: Vec<&Value> = Vec::new();
    for list in [operation.value, operation.item] {
        let list = list.get("parameters").and_then(Value::as_array);
        for parameter in list.into_iter().flatten() {
            let parameter = followed(document, parameter)?;
            let is_known = declared.iter().any(|known| {
                known.get("name") == parameter.get("name") && known.get("in") == parameter.get("in")
            });
            if !is_known {
                declared.push(parameter);
            }
        }
    }
    // Parameters of the path keep their names; others with the same name get longer ones.
    declared.sort_by_key(|parameter| parameter.get("in").is_none_or(|place| place != "path"));
    for parameter in declared {
        add_parameter(parameter, converter, request)?;
    }
    if let Some(name) = unfilled(&request.path) {
        return Err(format!(
            "its path names {}, which is no parameter",
            brief(name)
        ));
    }
    request.path = request.path.replace(FILLED, "");
    Ok(())
}

/// The first placeholder of a path that no argument fills.
fn unfilled(path: &str) -> Option<&str> {
    let mut placeholders = path.split('{').skip(1);
    let unfilled = placeholders.find(|rest| !rest.starts_with(FILLED))?;
    unfilled.split('}').next()
}

/// Marks placeholders of the path that an argument fills, until all are known.
const FILLED: char = '\u{1}';

fn add_parameter(
    parameter: &Value,
    converter: &mut Converter<'_>,
    request: &mut Request,
) -> Result<(), String> {
    let text = |name: &str| {
        parameter
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (name, place) = (text("name"), text("in"));
    let is_required = place == "path" || parameter.get("required") == Some(&Value::Bool(true));
    if name.is_empty() {
        return Err("it has a parameter without a name".to_owned());
    }
    match place {
        "path" | "query" => {}
        "header" if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => return Ok(()),
        "header" if is_required => {}
        // A model has no use for headers that can be left out.
        "header" => {
            request
                .notes
                .push(format!("the optional header {} is left out", brief(name)));
            return Ok(());
        }
        _ if is_required => {
            return Err(format!(
                "its parameter {} is in {}, where no tool can put it",
                brief(name),
                brief(place)
            ));
        }
        _ => {
            request.notes.push(format!(
                "the optional {} {} is left out",
                brief(place),
                brief(name)
            ));
            return Ok(());
        }
    }
    let need = Need::of(is_required);
    let description = Some(text("description"));
    let style = Style::of(parameter, if place == "query" { "form" } else { "simple" });
    let content = parameter.get("content").and_then(Value::as_object);
    let media = content.and_then(|content| content.iter().next());
    let schema = match (parameter.get("schema"), media) {
        (Some(schema), _) => converter.convert(schema, need, description)?,
        (None, Some((kind, media))) if place == "query" && body::is_json(kind) => {
            let any = json!({});
            converter.convert(media.get("schema").unwrap_or(&any), need, description)?
        }
        (None, Some((kind, _))) => {
            return left_out(
                name,
                &format!("is {} within text", brief(kind)),
                need,
                request,
            );
        }
        (None, None) => converter.convert(&json!({ "type": "string" }), need, description)?,
    };
    let is_json = parameter.get("schema").is_none() && media.is_some();
    // Styles are judged before the argument is taken up: an argument that cannot be written is left out.
    let written = match place {
        "path" => style.segment(name, "", &schema).map(Value::from),
        "query" if is_json => Ok(as_json("")),
        "query" => style.value("", &schema),
        _ => style.header(&schema),
    };
    if let Err(problem) = written {
        return left_out(name, &problem, need, request);
    }
    let argument = request.argument(name, place, schema, need);
    let schema = &request.properties[&argument];
    match place {
        "path" => {
            let named = format!("{{{name}}}");
            if !request.path.contains(&named) {
                return Err(format!(
                    "its path has no place for the parameter {}",
                    brief(name)
                ));
            }
            let segment = style.segment(name, &argument, schema)?;
            request.path = request
                .path
                .replace(&named, &segment.replacen('{', &format!("{{{FILLED}"), 1));
        }
        "query" => {
            let value = match is_json {
                true => as_json(&argument),
                false => style.value(&argument, schema)?,
            };
            request.query.insert(name.to_owned(), value);
        }
        _ => {
            let placeholder = format!("{{{argument}}}");
            request.headers.insert(name.to_owned(), placeholder.into());
        }
    }
    Ok(())
}

/// A parameter that no request can hold: its operation can be no tool, unless it works without.
fn left_out(name: &str, problem: &str, need: Need, request: &mut Request) -> Result<(), String> {
    match need {
        Need::Required => Err(format!("its parameter {} {problem}", brief(name))),
        Need::Optional => {
            request.notes.push(format!(
                "the optional parameter {} is left out: it {problem}",
                brief(name)
            ));
            Ok(())
        }
    }
}

/// The longest name of an argument that every provider takes.
const ARGUMENT_BYTES_MAX: usize = 64;

/// A plain name with room for its ending.
fn cut<'n>(name: &'n str, ending: &str) -> &'n str {
    &name[..name.len().min(ARGUMENT_BYTES_MAX - ending.len())]
}

impl Request {
    /// Takes an argument up under a name that models, templates and providers can write.
    pub(super) fn argument(
        &mut self,
        name: &str,
        place: &str,
        schema: Value,
        need: Need,
    ) -> String {
        let mut plain: String = name
            .chars()
            .map(|character| match character.is_ascii_alphanumeric() {
                true => character,
                false => '_',
            })
            .take(60)
            .collect();
        plain = plain.trim_matches('_').to_owned();
        if !plain
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
        {
            plain = format!("{place}_{plain}");
        }
        let mut argument = cut(&plain, "").to_owned();
        let mut number = 1;
        while self.properties.contains_key(&argument) {
            let ending = match number {
                1 => String::new(),
                number => format!("_{number}"),
            };
            let again = format!("{place}_{plain}");
            argument = format!("{}{ending}", cut(&again, &ending));
            number += 1;
        }
        // The runtime fills in defaults, so a model need not give them.
        let is_asked_for = need == Need::Required && schema.get("default").is_none();
        self.properties.insert(argument.clone(), schema);
        if is_asked_for {
            self.required.push(argument.clone());
        }
        argument
    }
}

/// Adds the secrets of the first way of authorisation whose parts a header or the query can hold.
fn authorisation(
    document: &Value,
    operation: &Operation<'_>,
    host: &str,
    request: &mut Request,
) -> Result<(), String> {
    let security = operation
        .value
        .get("security")
        .or_else(|| document.get("security"));
    let ways: Vec<&Map<String, Value>> = security
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    if ways.is_empty() || ways.iter().any(|way| way.is_empty()) {
        return Ok(());
    }
    let mut refusal = String::new();
    for way in ways {
        match credentials(document, way, host) {
            Ok(credentials) => {
                for Credential {
                    secret,
                    place,
                    name,
                    value,
                    note,
                } in credentials
                {
                    let into = match place {
                        KeyPlacement::Header => &mut request.headers,
                        KeyPlacement::Query => &mut request.query,
                    };
                    into.insert(name, value.into());
                    request.secrets.push(secret);
                    request.notes.push(note);
                }
                return Ok(());
            }
            Err(reason) => refusal = reason,
        }
    }
    Err(refusal)
}

enum KeyPlacement {
    Header,
    Query,
}

struct Credential {
    /// Its name.
    secret: String,
    place: KeyPlacement,
    name: String,
    value: String,
    note: String,
}

fn credentials(
    document: &Value,
    way: &Map<String, Value>,
    host: &str,
) -> Result<Vec<Credential>, String> {
    way.keys()
        .map(|scheme| credential(document, scheme, host))
        .collect()
}

fn credential(document: &Value, scheme: &str, host: &str) -> Result<Credential, String> {
    let schemes = document.pointer("/components/securitySchemes");
    let Some(declared) = schemes.and_then(|schemes| schemes.get(scheme)) else {
        return Err(format!(
            "its security scheme {} is not declared",
            brief(scheme)
        ));
    };
    let declared = followed(document, declared)?;
    let text = |name: &str| {
        declared
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let secret = secret_name(scheme);
    let header = |value: String, meaning: &str| Credential {
        secret: secret.clone(),
        place: KeyPlacement::Header,
        name: "authorization".to_owned(),
        value,
        note: secret_note(&secret, meaning, host),
    };
    match (
        text("type"),
        text("scheme").to_ascii_lowercase().as_str(),
        text("in"),
    ) {
        ("http", "basic", _) => Ok(header(
            format!("Basic {{secret:{secret}}}"),
            "the base64 of user:password",
        )),
        ("http", "bearer", _) => Ok(header(
            format!("Bearer {{secret:{secret}}}"),
            "the bearer token",
        )),
        ("oauth2" | "openIdConnect", _, _) => Ok(header(
            format!("Bearer {{secret:{secret}}}"),
            "an access token; nobody renews it",
        )),
        ("apiKey", _, place @ ("header" | "query")) => Ok(Credential {
            secret: secret.clone(),
            place: match place {
                "header" => KeyPlacement::Header,
                _ => KeyPlacement::Query,
            },
            name: text("name").to_owned(),
            value: format!("{{secret:{secret}}}"),
            note: secret_note(&secret, "the key", host),
        }),
        (kind, detail, place) => Err(format!(
            "its security scheme {} ({} {}) cannot be put into a request",
            brief(scheme),
            brief(kind),
            brief(if detail.is_empty() { place } else { detail })
        )),
    }
}

/// A description names a secret and gives it no value and no host: that is the operator's to do, who reads here which host would
/// have it.
fn secret_note(secret: &str, meaning: &str, host: &str) -> String {
    format!(
        "set the secret {secret} to {meaning}: the variable WINDLASS_SECRET_{secret}, and secrets.{secret}.hosts = [\"{host}\"] in the configuration, if that host is to have it"
    )
}

fn secret_name(scheme: &str) -> String {
    match snake_case(scheme).to_ascii_uppercase() {
        name if name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_uppercase()) =>
        {
            name
        }
        name => format!("API_{name}"),
    }
}

fn description(operation: &Operation<'_>) -> String {
    let text = |name: &str| {
        operation
            .value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (summary, description) = (text("summary").trim(), text("description").trim());
    let whole = match (summary, description) {
        ("", "") => operation.origin(),
        (one, "") | ("", one) => one.to_owned(),
        (summary, description) if description.starts_with(summary) => description.to_owned(),
        (summary, description) => format!("{}. {description}", summary.trim_end_matches('.')),
    };
    one_line(&whole, DESCRIPTION_CHARACTERS_MAX)
}

/// The guide that a model reads besides the declaration. Text of the description never begins a line, so it makes no heading.
fn guide(id: &str, description: &str, request: &Request, writes: bool) -> String {
    let summary = one_line(&plain(description), SUMMARY_CHARACTERS_MAX);
    let mut guide = format!("# {id}\n\n{summary}\n");
    if !request.properties.is_empty() {
        guide.push_str("\n## Parameters\n\n");
    }
    for (name, schema) in &request.properties {
        let need = match request.required.contains(name) {
            true => "required",
            false => "optional",
        };
        let text = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text = one_line(&plain(text), 300);
        let separator = if text.is_empty() { "" } else { ": " };
        guide.push_str(&format!("* `{name}` ({need}){separator}{text}\n"));
    }
    if writes {
        guide.push_str(
            "\n## Watch Out\n\nIt changes something. The user is asked before it runs.\n",
        );
    }
    guide
}
