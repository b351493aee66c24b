//! Reads a `handler.json` and reports all its problems, each with its place and a cure.

use super::template::{
    self, BodyTemplate, Misspelt, NamedTemplate, Node, Piece, Template, ValueForm, ValueStyle,
    is_sure, pointer_of,
};
use super::{
    DeclaredError, HandlerFile, HttpHandler, HttpTemplate, Permissions, ProcessHandler, Webhook,
    is_definite, may_go_to, numbers_of,
};
use crate::manifest::TIMEOUT_MS_MAX;
use crate::problem::{Report, Severity};
use crate::published;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use windlass_contract::error::FailureKind;
use windlass_contract::json;
use windlass_contract::number::Numbers;
use windlass_contract::reference;
use windlass_contract::wording::{brief, kind_of, nearest, pointer};

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const REQUEST: [&str; 8] = [
    "method",
    "url",
    "query",
    "headers",
    "body",
    "timeoutMs",
    "result",
    "errors",
];
const HTTP: [&str; 12] = [
    "kind",
    "method",
    "url",
    "query",
    "headers",
    "body",
    "timeoutMs",
    "result",
    "errors",
    "idempotencyHeader",
    "lookup",
    "connection",
];
/// Members of a query's or form's value that has its own style.
const STYLED: [&str; 4] = ["value", "style", "explode", "allowReserved"];
const STYLES: [&str; 5] = [
    "form",
    "spaceDelimited",
    "pipeDelimited",
    "deepObject",
    "json",
];
const WEBHOOK: [&str; 4] = ["kind", "url", "secret", "timeoutMs"];
const PROCESS: [&str; 5] = ["kind", "command", "timeoutMs", "concurrency", "numbers"];
const NUMBERS: [(&str, Numbers); 3] = [
    ("exact", Numbers::Exact),
    ("integers", Numbers::Integers),
    ("doubles", Numbers::Doubles),
];
const COMMAND_PARTS_MAX: usize = 64;
const CONCURRENCY: u64 = 4;
const CONCURRENCY_MAX: u64 = 64;

/// The facts that a file is judged by, besides its own text.
pub(crate) struct Judged<'a> {
    /// The tool's parameters; an empty schema where they could not be read.
    pub(crate) parameters: &'a Value,
    pub(crate) writes: bool,
    /// Whether the user is asked before every call.
    pub(crate) always_asks: bool,
    /// The schemas of the conversation values that the tool declares.
    pub(crate) state: &'a BTreeMap<String, Value>,
    /// The tool's timeout, where it could be read.
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) permissions: &'a Permissions,
}

/// `None` where the file could not be read; the report has the cause. A returned file may still have errors.
pub(crate) fn read(
    text: &str,
    judged: &Judged<'_>,
    report: &mut Report<'_>,
) -> Option<HandlerFile> {
    let value = match json::parse(text.as_bytes()) {
        Ok(value) => value,
        Err(error) => {
            report.at_line(
                Severity::Error,
                error.line.max(1),
                Some(error.column.max(1)),
                format!("this is not valid JSON: {}", error.message),
                "correct the JSON; comments and trailing commas are not part of it",
            );
            return None;
        }
    };
    let Value::Object(object) = &value else {
        report.error(
            "",
            format!("handler.json holds {}, not an object", kind_of(&value)),
            "write an object with `kind` and its members",
        );
        return None;
    };
    published::check_member(object, report);
    let mut reader = HandlerFileReader {
        judged,
        report,
        origin: String::new(),
        is_lookup: false,
    };
    match object.get("kind").and_then(Value::as_str) {
        Some("http") => reader
            .http(object)
            .map(|http| HandlerFile::Http(Box::new(http))),
        Some("webhook") => reader.webhook(object).map(HandlerFile::Webhook),
        Some("process") => reader.process(object).map(HandlerFile::Process),
        Some("mcp") => reader.mcp(object).map(HandlerFile::Mcp),
        Some("mcp_resource") => reader.mcp_resource(object).map(HandlerFile::McpResource),
        _ => {
            report.error(
                if object.contains_key("kind") {
                    "/kind"
                } else {
                    ""
                },
                "`kind` is none of the kinds of handlers",
                "write \"kind\": \"http\", \"webhook\", \"process\", \"mcp\" or \"mcp_resource\"",
            );
            None
        }
    }
}

pub(super) struct HandlerFileReader<'r, 'a, 't> {
    pub(super) judged: &'r Judged<'a>,
    pub(super) report: &'r mut Report<'t>,
    /// The origin of the current request.
    origin: String,
    /// Whether it looks up an effect's outcome.
    is_lookup: bool,
}

impl HandlerFileReader<'_, '_, '_> {
    fn http(&mut self, object: &Map<String, Value>) -> Option<HttpHandler> {
        self.unknown(object, &HTTP, "");
        let request = self.request(object, "");
        let idempotency_header = self.text(object, "", "idempotencyHeader");
        if let Some(name) = &idempotency_header {
            self.header_name(name, "/idempotencyHeader");
        }
        let mut lookup = None;
        match object.get("lookup") {
            None => {}
            Some(Value::Object(inner)) => {
                self.unknown(inner, &REQUEST, "/lookup");
                self.is_lookup = true;
                lookup = Some(self.request(inner, "/lookup"));
                self.is_lookup = false;
            }
            Some(other) => self.wrong("/lookup", "lookup", other, "an object"),
        }
        for name in ["idempotencyHeader", "lookup"] {
            if object.contains_key(name) && !self.judged.writes {
                self.report.error(
                    &pointer("", name),
                    format!("`{name}` is for tools whose `sideEffects` is `writes`, and this one's is not"),
                    "remove it, or correct `sideEffects` in schema.json",
                );
            }
        }
        let connection = self.text(object, "", "connection");
        if let Some(name) = &connection {
            let requests = [(&request, ""), (&lookup.clone().flatten(), "/lookup")];
            for (request, at) in requests {
                if let Some(request) = request {
                    self.connection(name, request, at);
                }
            }
        }
        let timeout_ms = self.timeout(object, "");
        Some(HttpHandler {
            request: request?,
            connection,
            idempotency_header,
            lookup: match lookup {
                Some(lookup) => Some(lookup?),
                None => None,
            },
            timeout_ms,
        })
    }

    fn request(&mut self, object: &Map<String, Value>, at: &str) -> Option<HttpTemplate> {
        let method = self.method(object, at);
        let address = self.address(object, at);
        let query = self.named(object, at, "query", Styles::Allowed);
        let headers = self.named(object, at, "headers", Styles::Refused);
        let headers: Vec<(String, Template)> = headers
            .into_iter()
            .map(|named| (named.name, named.template))
            .collect();
        for (name, _) in &headers {
            self.header_name(name, &pointer(&pointer(at, "headers"), name));
        }
        let body = object
            .get("body")
            .map(|body| self.body(body, &pointer(at, "body"), &headers));
        let is_without_body = matches!(method.as_deref(), Some("GET" | "HEAD"));
        if is_without_body && body.is_some() {
            self.report.error(
                &pointer(at, "body"),
                "a request of this method has no body",
                "remove `body`, or choose another method",
            );
        }
        let result = self.text(object, at, "result");
        if let Some(text) = &result
            && !(text.is_empty() || text.starts_with('/'))
        {
            self.report.error(
                &pointer(at, "result"),
                "`result` is no JSON pointer",
                "write one such as \"/data/order\"",
            );
        }
        let errors = self.errors(object, at);
        let (origin, path) = address?;
        Some(HttpTemplate {
            method: method?,
            origin,
            path,
            query,
            headers,
            body,
            result,
            errors,
        })
    }

    fn method(&mut self, object: &Map<String, Value>, at: &str) -> Option<String> {
        let method = self.required_text(object, at, "method", "\"method\": \"GET\"")?;
        let upper = method.to_ascii_uppercase();
        if METHODS.contains(&upper.as_str()) {
            return Some(upper);
        }
        self.report.error(
            &pointer(at, "method"),
            format!("`method` is `{}`, which it cannot be", brief(&method)),
            format!("write one of {}", METHODS.join(", ")),
        );
        None
    }

    /// Scheme, host and port; path and query.
    fn address(&mut self, object: &Map<String, Value>, at: &str) -> Option<(String, Template)> {
        let here = pointer(at, "url");
        let text = self.required_text(
            object,
            at,
            "url",
            "\"url\": \"https://api.example.com/orders/{id}\"",
        )?;
        let (origin, path) = match split_url(&text) {
            Ok(parts) => parts,
            Err((problem, cure)) => {
                self.report.error(&here, problem, cure);
                return None;
            }
        };
        origin.clone_into(&mut self.origin);
        let template = Template::parse_path(path, self.judged.parameters);
        self.misspelt(path, &here);
        self.places(&template, &here, Presence::Sure);
        if let Some(problem) = path_problem(&template) {
            self.report
                .error(&here, problem, "percent-encode it, or leave it out");
        }
        Some((origin.to_owned(), template))
    }

    /// Reads members that are templates.
    fn named(
        &mut self,
        object: &Map<String, Value>,
        at: &str,
        name: &str,
        styles: Styles,
    ) -> Vec<NamedTemplate> {
        let here = pointer(at, name);
        let members = match object.get(name) {
            None => return Vec::new(),
            Some(Value::Object(members)) => members,
            Some(other) => {
                self.wrong(&here, name, other, "an object");
                return Vec::new();
            }
        };
        let mut templates = Vec::with_capacity(members.len());
        for (key, value) in members {
            let here = pointer(&here, key);
            let text = match value {
                Value::Object(styled) if matches!(styles, Styles::Allowed) => {
                    templates.extend(self.styled(key, styled, &here));
                    continue;
                }
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                other => {
                    self.wrong(&here, key, other, "a text");
                    continue;
                }
            };
            templates.push(NamedTemplate {
                name: key.clone(),
                template: self.template(&text, &here, Presence::WholeMayLack),
                style: ValueStyle::default(),
            });
        }
        templates
    }

    /// Reads a value with a style, such as `{"value": "{ids}", "style": "form", "explode": false}`.
    fn styled(
        &mut self,
        name: &str,
        object: &Map<String, Value>,
        at: &str,
    ) -> Option<NamedTemplate> {
        self.unknown(object, &STYLED, at);
        let text = self.required_text(object, at, "value", "\"value\": \"{ids}\"")?;
        let template = self.template(&text, &pointer(at, "value"), Presence::WholeMayLack);
        if template.whole().is_none() {
            self.report.error(
                &pointer(at, "value"),
                "a value with a style is one argument",
                "write its place alone, such as \"{ids}\", or write the value as a text",
            );
        }
        let style = match object.get("style") {
            None => "form".to_owned(),
            Some(_) => self.text(object, at, "style")?,
        };
        let mut flag = |name: &str| match object.get(name) {
            None => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(other) => {
                self.wrong(&pointer(at, name), name, other, "true or false");
                None
            }
        };
        let (explodes, keeps_reserved) = (flag("explode"), flag("allowReserved"));
        let form = match (style.as_str(), explodes) {
            ("form", None | Some(true)) => ValueForm::Exploded,
            ("form", Some(false)) => ValueForm::Joined(","),
            ("spaceDelimited", None | Some(false)) => ValueForm::Joined("%20"),
            ("pipeDelimited", None | Some(false)) => ValueForm::Joined("%7C"),
            ("spaceDelimited" | "pipeDelimited", Some(true)) => ValueForm::Exploded,
            ("deepObject", _) => ValueForm::Deep,
            ("json", _) => ValueForm::Json,
            _ => {
                self.report.error(
                    &pointer(at, "style"),
                    format!("there is no style `{}`", brief(&style)),
                    format!("write one of {}", STYLES.join(", ")),
                );
                return None;
            }
        };
        Some(NamedTemplate {
            name: name.to_owned(),
            template,
            style: ValueStyle {
                form,
                keeps_reserved: keeps_reserved.unwrap_or_default(),
            },
        })
    }

    fn body(&mut self, body: &Value, here: &str, headers: &[(String, Template)]) -> BodyTemplate {
        let is_type = |(name, _): &&(String, Template)| name.eq_ignore_ascii_case("content-type");
        let media_type = headers.iter().find(is_type);
        let media_type = media_type.and_then(|(_, template)| template.constant());
        let is_form = media_type
            .is_some_and(|media_type| media_type.starts_with("application/x-www-form-urlencoded"));
        let is_json = media_type.is_none_or(|media_type| media_type.contains("json"));
        match body {
            Value::Object(members) if is_form => {
                let form = Map::from_iter([("body".to_owned(), Value::Object(members.clone()))]);
                let at = here.strip_suffix("/body").unwrap_or_default();
                BodyTemplate::Form(self.named(&form, at, "body", Styles::Allowed))
            }
            Value::String(text) if !is_json => {
                BodyTemplate::Text(self.template(text, here, Presence::WholeMayLack))
            }
            _ if is_form => {
                self.wrong(here, "body", body, "an object, of which the form is made");
                BodyTemplate::Form(Vec::new())
            }
            _ => BodyTemplate::Json(self.node(body, here)),
        }
    }

    fn node(&mut self, value: &Value, here: &str) -> Node {
        match value {
            Value::String(text) => Node::Text(self.template(text, here, Presence::WholeMayLack)),
            Value::Array(items) => {
                let nodes = items.iter().enumerate();
                Node::List(
                    nodes
                        .map(|(index, item)| self.node(item, &pointer(here, &index.to_string())))
                        .collect(),
                )
            }
            Value::Object(members) => {
                let nodes = members.iter();
                Node::Object(
                    nodes
                        .map(|(name, member)| {
                            (name.clone(), self.node(member, &pointer(here, name)))
                        })
                        .collect(),
                )
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Node::Value(value.clone()),
        }
    }

    fn template(&mut self, text: &str, here: &str, presence: Presence) -> Template {
        let template = Template::parse(text, self.judged.parameters);
        self.misspelt(text, here);
        self.places(&template, here, presence);
        template
    }

    /// Reports misspelt places, which would be sent as they stand.
    fn misspelt(&mut self, text: &str, here: &str) {
        for Misspelt { written, meant } in template::misspelt(text) {
            self.report.error(
                here,
                format!(
                    "`{{{}}}` is no place, and would be sent as it stands",
                    brief(&written)
                ),
                format!(
                    "write {meant}; {{{{{}}}}} writes the braces themselves",
                    brief(&written)
                ),
            );
        }
    }

    /// Judges the places of a template.
    fn places(&mut self, template: &Template, here: &str, presence: Presence) {
        let may_lack = matches!(presence, Presence::WholeMayLack) && template.whole().is_some();
        for piece in &template.0 {
            match piece {
                Piece::Text(_) => {}
                Piece::Secret(name) => self.secret(name, here),
                Piece::State(key) => self.state(key, here, may_lack),
                Piece::EffectId | Piece::Key if self.judged.writes => {}
                Piece::EffectId | Piece::Key => self.report.error(
                    here,
                    "this names an effect, and a tool has one only where its `sideEffects` is `writes`",
                    "leave it out, or correct `sideEffects` in schema.json",
                ),
                Piece::Argument(path) => self.argument(path, here, may_lack),
                Piece::Expansion(expansion) => self.argument(&expansion.argument, here, may_lack),
            }
        }
    }

    /// Judges a place for a conversation value, which may be unset.
    fn state(&mut self, key: &str, here: &str, may_lack: bool) {
        if self.is_lookup {
            self.report.error(
                here,
                format!("`{{state:{}}}` stands in a lookup, which is given no value of the conversation", brief(key)),
                "leave it out; a lookup has the arguments, {effectId} and {key}",
            );
        } else if !self.judged.state.contains_key(key) {
            self.report.error(
                here,
                format!("`{{state:{}}}` names no value that the tool declares", brief(key)),
                "declare it under `state` in schema.json, with the schema that it has in the tool that sets it",
            );
        } else if !may_lack {
            self.report.error(
                here,
                format!("`{{state:{key}}}` may be missing in a conversation, and nothing could stand here then"),
                "let it be the whole of a query value, a header or a body's member",
            );
        }
    }

    fn argument(&mut self, path: &str, here: &str, may_lack: bool) {
        let parameters = self.judged.parameters;
        if reference::parameter(parameters, &pointer_of(path)).is_none() {
            let names = parameters.get("properties").and_then(Value::as_object);
            let names: Vec<&str> =
                names.map_or_else(Vec::new, |names| names.keys().map(String::as_str).collect());
            let cure = match nearest(path, names.iter().copied()) {
                Some(near) => {
                    format!("did you mean {{{near}}}? {{{{{path}}}}} writes the braces themselves")
                }
                None if names.is_empty() => {
                    "the tool has no parameters; add it to schema.json".to_owned()
                }
                None => format!("the parameters are {}", names.join(", ")),
            };
            self.report.error(
                here,
                format!("`{{{}}}` names no parameter of the tool", brief(path)),
                cure,
            );
        } else if !may_lack && !is_sure(parameters, path) {
            self.report.error(
                here,
                format!("`{{{}}}` may be missing in a call, and nothing could stand here then", brief(path)),
                "make the parameter required, give it a default, or let it be the whole of a query value, a header or a body's member",
            );
        }
    }

    fn secret(&mut self, name: &str, here: &str) {
        // An unreadable address is reported separately.
        let host = match self.origin.split_once("://") {
            Some((_, host)) => host,
            None => "api.example.com",
        };
        match self.judged.permissions.secrets.get(name) {
            None => self.report.error(
                here,
                format!("there is no secret `{}`", brief(name)),
                format!(
                    "set the environment variable WINDLASS_SECRET_{name}, and `secrets.{name}.hosts = [\"{host}\"]` in the configuration"
                ),
            ),
            Some(_) if self.origin.is_empty() => {}
            Some(hosts) if !may_go_to(hosts, &self.origin) => self.report.error(
                here,
                format!("the secret `{}` may not go to {host}", brief(name)),
                format!(
                    "add \"{host}\" to `secrets.{name}.hosts` in the configuration, if that host is to have it"
                ),
            ),
            Some(_) => {}
        }
    }

    /// Judges whether a request may carry the access token of a connection.
    fn connection(&mut self, name: &str, request: &HttpTemplate, at: &str) {
        let host = request.origin().split_once("://");
        let host = host.map_or("api.example.com", |(_, host)| host);
        match self.judged.permissions.connections.get(name) {
            // Reported once, for the tool's own request.
            None if !at.is_empty() => {}
            None => self.report.error(
                "/connection",
                format!("there is no connection `{}`", brief(name)),
                "add it to the configuration as [connections.NAME] with issuer, client_id and hosts",
            ),
            Some(hosts) if !may_go_to(hosts, request.origin()) => self.report.error(
                &pointer(at, "url"),
                format!("access tokens of the connection `{}` may not go to {host}", brief(name)),
                format!(
                    "add \"{host}\" to `connections.{name}.hosts` in the configuration, if that host is to have them"
                ),
            ),
            Some(_) => {}
        }
        let mut headers = request.headers.iter();
        if let Some((header, _)) =
            headers.find(|(header, _)| header.eq_ignore_ascii_case("authorization"))
        {
            self.report.error(
                &pointer(&pointer(at, "headers"), header),
                "the connection writes this header itself",
                "leave the header out, or `connection`",
            );
        }
    }

    fn errors(&mut self, object: &Map<String, Value>, at: &str) -> BTreeMap<String, DeclaredError> {
        let here = pointer(at, "errors");
        let mut errors = BTreeMap::new();
        let members = match object.get("errors") {
            None => return errors,
            Some(Value::Object(members)) => members,
            Some(other) => {
                self.wrong(
                    &here,
                    "errors",
                    other,
                    "an object such as {\"404\": \"NOT_FOUND\"}",
                );
                return errors;
            }
        };
        for (status, declared) in members {
            let here = pointer(&here, status);
            let is_status = status.len() == 3
                && matches!(status.as_bytes()[0], b'3'..=b'5')
                && (status[1..].bytes().all(|byte| byte.is_ascii_digit()) || &status[1..] == "xx");
            if !is_status {
                self.report.error(
                    &here,
                    format!("`{}` is no status of an error", brief(status)),
                    "write one such as 404, or 5xx for all that begin so",
                );
            }
            if let Some(error) = self.declared_error(declared, &here) {
                if is_status && self.judged.writes && at.is_empty() {
                    self.judge_certainty(status, error, &here);
                }
                errors.insert(status.clone(), error);
            }
        }
        errors
    }

    /// Reads an error: a type, or an object of a type and `notDone`.
    fn declared_error(&mut self, declared: &Value, here: &str) -> Option<DeclaredError> {
        let (kind, not_done) = match declared {
            Value::Object(members) => {
                self.unknown(members, &["type", "notDone"], here);
                (members.get("type"), members.get("notDone"))
            }
            kind => (Some(kind), None),
        };
        let kind = kind.and_then(|kind| serde_json::from_value::<FailureKind>(kind.clone()).ok());
        if kind.is_none() {
            self.report.error(
                here,
                "this is no type of error that a handler may report",
                "write VALIDATION, NOT_FOUND, TRANSIENT, PERMANENT, RATE_LIMIT, AUTH or CONFLICT",
            );
        }
        let not_done = match not_done {
            None => Some(false),
            Some(Value::Bool(not_done)) => Some(*not_done),
            Some(other) => {
                self.wrong(&pointer(here, "notDone"), "notDone", other, "true or false");
                None
            }
        };
        Some(DeclaredError {
            kind: kind?,
            not_done: not_done?,
        })
    }

    /// Reports a status that does not prove the author's `notDone`.
    fn judge_certainty(&mut self, status: &str, error: DeclaredError, here: &str) {
        let number = status.parse().ok();
        let is_definite = number.is_some_and(is_definite);
        let is_of_server = status.starts_with('5') && !is_definite;
        if error.not_done && is_of_server {
            self.report.at_pointer(
                Severity::Warning,
                here,
                format!("`notDone` says of {status} that nothing was done, and a service may answer so after it has done its work"),
                "leave `notDone` out, unless the service promises that it did nothing: a call that is repeated may do the same twice",
            );
        } else if !error.not_done && !is_definite && error.kind != FailureKind::Transient {
            self.report.at_pointer(
                Severity::Note,
                here,
                format!("{status} does not prove that nothing was done, so the outcome stays unknown whatever its type"),
                "write {\"type\": …, \"notDone\": true} if the service promises that nothing was done",
            );
        }
    }

    fn webhook(&mut self, object: &Map<String, Value>) -> Option<Webhook> {
        self.unknown(object, &WEBHOOK, "");
        let address = self.address(object, "");
        if let Some((_, path)) = &address
            && path.constant().is_none()
        {
            self.report.error(
                "/url",
                "the address of a webhook has no places; the arguments are in its body",
                "write the address as it is",
            );
        }
        let cure = "\"secret\": \"{secret:SHOP_WEBHOOK}\"";
        let secret = self.required_text(object, "", "secret", cure);
        let name = secret.and_then(|text| {
            let template = Template::parse(&text, &Value::Null);
            match template.whole() {
                Some(Piece::Secret(name)) => {
                    self.secret(name, "/secret");
                    Some(name.clone())
                }
                _ => {
                    self.report.error(
                        "/secret",
                        "a secret is named here and never written down",
                        format!("write {cure}"),
                    );
                    None
                }
            }
        });
        let timeout_ms = self.timeout(object, "");
        let (origin, path) = address?;
        let url = format!("{origin}{}", path.constant()?);
        Some(Webhook {
            url,
            origin,
            secret: name?,
            timeout_ms,
        })
    }

    fn process(&mut self, object: &Map<String, Value>) -> Option<ProcessHandler> {
        self.unknown(object, &PROCESS, "");
        if !self.judged.permissions.processes {
            self.report.error(
                "/kind",
                "this runs a program of the tool's author, which the configuration does not allow",
                "set `handlers.processes = true` where you trust it with the rights of the server's user, or begin the directory's name with _ to leave the tool out",
            );
        }
        let cure = "write the program and its arguments, such as [\"node\", \"handler.mjs\"]";
        let parts = match object.get("command") {
            Some(Value::Array(parts)) => parts.as_slice(),
            Some(other) => {
                self.wrong("/command", "command", other, "a list of texts");
                return None;
            }
            None => {
                self.report.error("", "`command` is missing", cure);
                return None;
            }
        };
        let command: Option<Vec<String>> = parts
            .iter()
            .map(|part| {
                part.as_str()
                    .filter(|text| !text.contains('\0'))
                    .map(str::to_owned)
            })
            .collect();
        let command = command.filter(|command| {
            command.len() <= COMMAND_PARTS_MAX
                && command.first().is_some_and(|first| !first.is_empty())
        });
        if command.is_none() {
            self.report.error(
                "/command",
                "`command` is no program with its arguments",
                cure,
            );
        }
        let concurrency = match object.get("concurrency") {
            None => Some(CONCURRENCY),
            Some(value) => value
                .as_u64()
                .filter(|number| (1..=CONCURRENCY_MAX).contains(number)),
        };
        if concurrency.is_none() {
            self.report.error(
                "/concurrency",
                "`concurrency` is no number of calls",
                format!("write a whole number from 1 to {CONCURRENCY_MAX}"),
            );
        }
        let numbers = match object.get("numbers") {
            None => command.as_deref().map(numbers_of),
            Some(value) => {
                let named = NUMBERS.iter().find(|(name, _)| value == name);
                named.map(|(_, numbers)| *numbers)
            }
        };
        if numbers.is_none() && object.contains_key("numbers") {
            self.report.error(
                "/numbers",
                "`numbers` does not say what the program's language makes of numbers",
                "write \"exact\" where it reads their digits, \"integers\" where integers are exact and others become doubles, \"doubles\" where each becomes a double",
            );
        }
        let timeout_ms = self.timeout(object, "");
        Some(ProcessHandler {
            command: command?,
            numbers: numbers?,
            concurrency: usize::try_from(concurrency?).ok()?,
            timeout_ms,
        })
    }

    pub(super) fn timeout(&mut self, object: &Map<String, Value>, at: &str) -> Option<u64> {
        let value = object.get("timeoutMs")?;
        let here = pointer(at, "timeoutMs");
        let longest = self.judged.timeout_ms.unwrap_or(TIMEOUT_MS_MAX);
        let number = value
            .as_u64()
            .filter(|number| (1..=longest).contains(number));
        if number.is_none() {
            self.report.error(
                &here,
                format!("`timeoutMs` is no time within that of the tool, {longest} ms"),
                format!(
                    "write a whole number from 1 to {longest}, or raise `timeoutMs` in schema.json"
                ),
            );
        }
        number
    }

    pub(super) fn text(
        &mut self,
        object: &Map<String, Value>,
        at: &str,
        name: &str,
    ) -> Option<String> {
        let value = object.get(name)?;
        if value.as_str().is_none() {
            self.wrong(&pointer(at, name), name, value, "a text");
        }
        value.as_str().map(str::to_owned)
    }

    pub(super) fn required_text(
        &mut self,
        object: &Map<String, Value>,
        at: &str,
        name: &str,
        example: &str,
    ) -> Option<String> {
        if !object.contains_key(name) {
            let message = format!("`{name}` is missing");
            self.report
                .error(at, message, format!("add it, such as {example}"));
        }
        self.text(object, at, name)
    }

    pub(super) fn wrong(&mut self, here: &str, name: &str, found: &Value, wanted: &str) {
        self.report.error(
            here,
            format!("`{}` is {}, not {wanted}", brief(name), kind_of(found)),
            format!("write {wanted}"),
        );
    }

    fn header_name(&mut self, name: &str, here: &str) {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 100 || !name.bytes().all(fits) {
            self.report.error(
                here,
                format!("`{}` is no name of a header", brief(name)),
                "write one such as Authorization",
            );
        }
        let of_connection = [
            "connection",
            "content-length",
            "host",
            "te",
            "transfer-encoding",
            "upgrade",
        ];
        if of_connection
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
        {
            self.report.error(
                here,
                format!(
                    "the header `{}` belongs to the connection, and is written there",
                    brief(name)
                ),
                "leave it out",
            );
        }
    }

    pub(super) fn unknown(&mut self, object: &Map<String, Value>, known: &[&str], at: &str) {
        let is_known = |name: &&String| {
            known.contains(&name.as_str()) || (at.is_empty() && *name == published::MEMBER)
        };
        for name in object.keys().filter(|name| !is_known(name)) {
            let cure = nearest(name, known.iter().copied()).map_or_else(
                || format!("remove it; the members are {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.report.error(
                &pointer(at, name),
                format!("there is no member `{}` here", brief(name)),
                cure,
            );
        }
    }
}

/// Whether a value may have a style.
#[derive(Clone, Copy)]
enum Styles {
    Allowed,
    Refused,
}

/// Whether a place is allowed whose argument a call may leave out.
#[derive(Clone, Copy)]
enum Presence {
    /// A value is always needed.
    Sure,
    /// A place that is the whole text may lack its value; the whole text is left out then.
    WholeMayLack,
}

/// The problem with a request's address, and its cure.
pub fn address_problem(text: &str) -> Option<String> {
    let (problem, cure) = match split_url(text) {
        Err((problem, cure)) => (problem.to_owned(), cure),
        Ok((_, path)) => {
            let constant = path_problem(&Template::parse_path(path, &Value::Null));
            (constant?, "percent-encode it, or leave it out")
        }
    };
    Some(format!("{problem}; {cure}"))
}

/// The arguments in the path and query of an address, in their order.
pub fn arguments_of_address(text: &str) -> Vec<String> {
    let path = split_url(text).map_or("", |(_, path)| path);
    let mut names: Vec<String> = Vec::new();
    for piece in Template::parse_path(path, &Value::Null).0 {
        let name = match piece {
            Piece::Argument(name) => name,
            Piece::Expansion(expansion) => expansion.argument,
            // A parameter of that name takes precedence over the effect's.
            Piece::EffectId => "effectId".to_owned(),
            Piece::Key => "key".to_owned(),
            Piece::Text(_) | Piece::Secret(_) | Piece::State(_) => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A URL as its constant part and the rest; the error is a problem and its cure.
fn split_url(text: &str) -> Result<(&str, &str), (&'static str, &'static str)> {
    let behind_scheme = ["https://", "http://"]
        .iter()
        .find(|scheme| text.starts_with(**scheme))
        .map(|scheme| scheme.len())
        .ok_or((
            "the address does not begin with http:// or https://",
            "write the whole address; scheme, host and port are constants",
        ))?;
    let end = text[behind_scheme..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |end| behind_scheme + end);
    let authority = &text[behind_scheme..end];
    if authority.contains(['{', '}']) {
        return Err((
            "scheme, host and port have no places: no call may choose where it goes",
            "write the host as it is, and a tool for each host",
        ));
    }
    if authority.contains('@') {
        return Err((
            "the address names a user before its host",
            "send what signs in as a header, such as \"Authorization\": \"Bearer {secret:NAME}\"",
        ));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty()
        && host.len() <= 253
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if !(in_brackets || is_name) || !is_port {
        return Err((
            "the address has no proper host and port",
            "write one such as https://api.example.com:8443/",
        ));
    }
    let path = &text[end..];
    if path.contains('#') {
        return Err((
            "the address has a fragment, which no server is ever sent",
            "leave out what stands behind #",
        ));
    }
    Ok((&text[..end], if path.is_empty() { "/" } else { path }))
}

/// The problem with the constant parts of a path and query.
fn path_problem(template: &Template) -> Option<String> {
    // A filled place makes its segment more than a step, or the call is refused.
    let mut whole = String::new();
    for piece in &template.0 {
        let Piece::Text(text) = piece else {
            whole.push('x');
            continue;
        };
        if let Some(bad) = text
            .chars()
            .find(|character| !character.is_ascii_graphic() || "\\\"<>^`{|}".contains(*character))
        {
            return Some(format!("{bad:?} cannot stand in an address"));
        }
        whole.push_str(text);
    }
    let path = whole.split('?').next().unwrap_or_default();
    let is_step = path.split('/').any(|segment| matches!(segment, "." | ".."));
    is_step.then(|| "the path has a step such as `..`".to_owned())
}
