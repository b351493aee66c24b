//! One operation as one tool: what it takes, how the request is put together, and what a model reads about it.

use super::schema::{Converter, merged};
use super::{Operation, brief, followed, one_line};
use crate::import::ToolDirectory;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const DESCRIPTION_CHARACTERS_MAX: usize = 1_000;
const SUMMARY_CHARACTERS_MAX: usize = 240;
/// A request over the network takes longer than a lookup in memory; the hard limit is ten times as much.
const LATENCY_BUDGET_MS: u64 = 1_500;
/// How many arguments of a body become arguments of the tool; a larger body is one argument.
const MEMBERS_MAX: usize = 64;
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
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The request and the arguments that it is made of, as they are gathered.
#[derive(Default)]
struct Request {
    properties: Map<String, Value>,
    required: Vec<String>,
    path: String,
    query: Map<String, Value>,
    headers: Map<String, Value>,
    body: Option<Value>,
    secrets: Vec<String>,
    notes: Vec<String>,
}

/// Makes the tool, or says why there can be none.
pub(super) fn tool(
    document: &Value,
    server: &str,
    operation: &Operation<'_>,
    id: &str,
) -> Result<ToolDirectory, String> {
    expect_readable_answer(document, operation)?;
    let mut converter = Converter::new(document);
    let mut request = Request {
        path: operation.path.to_owned(),
        ..Request::default()
    };
    parameters(document, operation, &mut converter, &mut request)?;
    body(document, operation, &mut converter, &mut request)?;
    authorisation(document, operation, &mut request)?;
    if request.path.contains(['?', '#']) {
        return Err("its path holds a query".to_owned());
    }
    request.notes.append(&mut converter.notes);
    let writes = operation.method != "get";
    let description = description(operation);
    Ok(ToolDirectory {
        id: id.to_owned(),
        origin: operation.origin(),
        schema: schema(operation, id, &description, &request),
        guide: guide(id, &description, &request, writes),
        handler: handler(operation, server, &request),
        secrets: request.secrets,
        notes: request.notes,
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
        // Until somebody has read what the operation does.
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
        |kind: &String| is_json(kind) || kind.starts_with("text/") || kind.starts_with("*/");
    if kinds.is_empty() || kinds.iter().any(is_readable) {
        return Ok(());
    }
    let kinds: Vec<String> = kinds.iter().map(|kind| brief(kind)).collect();
    Err(format!(
        "it answers with {}, not with JSON or text",
        kinds.join(", ")
    ))
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(JSON) || kind.to_ascii_lowercase().ends_with("+json")
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
    // Those of the path keep their names; others that are called the same get longer ones.
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
    let mut schema = match parameter.get("schema") {
        Some(schema) => converter.convert(schema)?,
        // A parameter may have a `content` instead, whose text is JSON: no template writes that.
        None if parameter.get("content").is_some() => {
            return Err(format!("its parameter {} is JSON within text", brief(name)));
        }
        None => json!({ "type": "string" }),
    };
    describe(&mut schema, text("description"));
    let argument = request.argument(name, place, schema, is_required);
    let placeholder = format!("{{{argument}}}");
    match place {
        "path" => {
            let named = format!("{{{name}}}");
            if !request.path.contains(&named) {
                return Err(format!(
                    "its path has no place for the parameter {}",
                    brief(name)
                ));
            }
            request.path = request
                .path
                .replace(&named, &format!("{{{FILLED}{argument}}}"));
        }
        "query" => {
            request.query.insert(name.to_owned(), placeholder.into());
        }
        _ => {
            request.headers.insert(name.to_owned(), placeholder.into());
        }
    }
    Ok(())
}

/// The parameter's own description goes before the schema's.
fn describe(schema: &mut Value, description: &str) {
    let description = one_line(description, 500);
    if let Some(schema) = schema.as_object_mut()
        && !description.is_empty()
    {
        schema.insert("description".to_owned(), description.into());
    }
}

impl Request {
    /// Takes an argument up under a name that models, templates and providers can write.
    fn argument(&mut self, name: &str, place: &str, schema: Value, is_required: bool) -> String {
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
        let mut argument = plain.clone();
        let mut number = 1;
        while self.properties.contains_key(&argument) {
            argument = match number {
                1 => format!("{place}_{plain}"),
                number => format!("{place}_{plain}_{number}"),
            };
            number += 1;
        }
        self.properties.insert(argument.clone(), schema);
        if is_required {
            self.required.push(argument.clone());
        }
        argument
    }
}

fn body(
    document: &Value,
    operation: &Operation<'_>,
    converter: &mut Converter<'_>,
    request: &mut Request,
) -> Result<(), String> {
    let Some(body) = operation.value.get("requestBody") else {
        return Ok(());
    };
    let body = followed(document, body)?;
    let is_required = body.get("required") == Some(&Value::Bool(true));
    let content = body.get("content").and_then(Value::as_object);
    let kinds = content.into_iter().flatten();
    let media = kinds
        .clone()
        .find(|(kind, _)| is_json(kind))
        .or_else(|| kinds.clone().find(|(kind, _)| kind.starts_with(FORM)));
    let Some((kind, media)) = media else {
        let kinds: Vec<String> = kinds.map(|(kind, _)| brief(kind)).collect();
        return match is_required {
            true => Err(format!(
                "its body is {}, not JSON or a form",
                kinds.join(", ")
            )),
            false => Ok(()),
        };
    };
    let schema = match media.get("schema") {
        Some(schema) => merged(converter.convert(schema)?),
        None => json!({}),
    };
    let is_form = kind.starts_with(FORM);
    if is_form {
        request
            .headers
            .insert("content-type".to_owned(), FORM.into());
    }
    let members = plain_members(&schema).filter(|members| members.len() <= MEMBERS_MAX);
    let Some(members) = members else {
        if is_form {
            return Err("its form is no plain object".to_owned());
        }
        let argument = request.argument("body", "request", schema, is_required);
        request.body = Some(format!("{{{argument}}}").into());
        return Ok(());
    };
    let required = schema.get("required").and_then(Value::as_array).cloned();
    let required = required.unwrap_or_default();
    let mut template = Map::new();
    for (name, member) in members {
        let is_required = required.iter().any(|known| known == name);
        let argument = request.argument(name, "body", member.clone(), is_required);
        template.insert(name.clone(), format!("{{{argument}}}").into());
    }
    request.body = Some(Value::Object(template));
    Ok(())
}

/// The members of a schema that says nothing about its object but which members it has.
fn plain_members(schema: &Value) -> Option<&Map<String, Value>> {
    const KNOWN: [&str; 5] = [
        "type",
        "properties",
        "required",
        "description",
        "additionalProperties",
    ];
    let object = schema.as_object()?;
    let is_object = object.get("type").is_none_or(|kind| kind == "object");
    let is_plain = object.keys().all(|name| KNOWN.contains(&name.as_str()));
    let is_open = object
        .get("additionalProperties")
        .is_some_and(Value::is_object);
    let members = object.get("properties")?.as_object()?;
    (is_object && is_plain && !is_open && !members.is_empty()).then_some(members)
}

/// Puts in what the first way of authorisation needs whose parts a header or the query can hold.
fn authorisation(
    document: &Value,
    operation: &Operation<'_>,
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
        match credentials(document, way) {
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

fn credentials(document: &Value, way: &Map<String, Value>) -> Result<Vec<Credential>, String> {
    way.keys()
        .map(|scheme| credential(document, scheme))
        .collect()
}

fn credential(document: &Value, scheme: &str) -> Result<Credential, String> {
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
        note: secret_note(&secret, meaning),
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
            note: secret_note(&secret, "the key"),
        }),
        (kind, detail, _) => Err(format!(
            "its security scheme {} ({} {}) cannot be put into a request",
            brief(scheme),
            brief(kind),
            brief(detail)
        )),
    }
}

/// A description names a secret and gives it no value and no host: that is the operator's to do.
fn secret_note(secret: &str, meaning: &str) -> String {
    format!(
        "set the secret {secret} to {meaning}: the variable WINDLASS_SECRET_{secret}, and the service's host in secrets.{secret}.hosts of the configuration"
    )
}

fn secret_name(scheme: &str) -> String {
    match super::snake_case(scheme).to_ascii_uppercase() {
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

/// What a model reads besides the declaration. Text of the description never begins a line, so that it makes no heading.
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

fn plain(text: &str) -> String {
    text.replace(['`', '#'], " ").trim().to_owned()
}
