//! The server for the requests of an operation: its own, its path's, or that of the whole description. An address that the author gives
//! replaces all of them, so that no request goes past it.

use super::{DocumentError, Operation};
use crate::words::brief;
use serde_json::Value;

/// The servers that a description names.
pub(super) struct Servers {
    /// In place of every server that is named.
    base_url: Option<String>,
    /// The server of the whole description, without a slash at its end, or the problem with it.
    main: Result<String, String>,
}

/// The address of one operation's requests.
#[derive(Debug)]
pub(super) struct Address {
    /// The address that the path is appended to, without a slash at its end.
    pub(super) server: String,
    /// Host and port.
    pub(super) host: String,
    pub(super) notes: Vec<String>,
}

impl Servers {
    pub(super) fn of(document: &Value, base_url: Option<&str>) -> Result<Self, DocumentError> {
        let base_url = match base_url {
            None => None,
            Some(url) => Some(whole(url.trim()).map_err(DocumentError::Server)?),
        };
        let main = match first(document) {
            Some(server) => named(server).and_then(|url| whole(&url)),
            None => Err("it has none; say the address with --base-url https://…".to_owned()),
        };
        Ok(Self { base_url, main })
    }

    /// An error of the document where no operation without a server of its own has an address; the inner one is of this operation.
    pub(super) fn address_of(
        &self,
        operation: &Operation<'_>,
    ) -> Result<Result<Address, String>, DocumentError> {
        let own = operation.value.get("servers").is_some();
        let own = match own {
            true => first_of(operation.value.get("servers")),
            false => first_of(operation.item.get("servers")),
        };
        let mut notes = Vec::new();
        let server = match (&self.base_url, own, &self.main) {
            (Some(base_url), own, _) => {
                if let Some(own) = own.and_then(|own| named(own).ok()) {
                    notes.push(format!(
                        "its own server, {}, gives way to --base-url",
                        brief(&own)
                    ));
                }
                base_url.clone()
            }
            (None, None, Ok(main)) => main.clone(),
            (None, None, Err(problem)) => return Err(DocumentError::Server(problem.clone())),
            (None, Some(own), main) => match self.own(own) {
                Ok(server) => {
                    let main = main.as_deref().map(host_of).unwrap_or_default();
                    if host_of(&server) != main {
                        notes.push(format!(
                            "it goes to a server of its own, {}",
                            host_of(&server)
                        ));
                    }
                    server
                }
                Err(problem) => {
                    return Ok(Err(format!("its server has no whole address: {problem}")));
                }
            },
        };
        Ok(Ok(Address {
            host: host_of(&server).to_owned(),
            server,
            notes,
        }))
    }

    /// A server of an operation, which may be relative to that of the description.
    fn own(&self, server: &Value) -> Result<String, String> {
        let url = named(server)?;
        if url.contains("://") {
            return whole(&url);
        }
        let main = self.main.as_deref().map_err(Clone::clone)?;
        match url.strip_prefix('/') {
            Some(path) => whole(&format!("{}/{path}", origin_of(main))),
            None => whole(&format!("{main}/{url}")),
        }
    }
}

fn first(object: &Value) -> Option<&Value> {
    first_of(object.get("servers"))
}

fn first_of(servers: Option<&Value>) -> Option<&Value> {
    servers?.as_array()?.first()
}

/// A server's address with the defaults of its variables.
fn named(server: &Value) -> Result<String, String> {
    let url = server.get("url").and_then(Value::as_str);
    let mut url = url.unwrap_or_default().trim().to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        let default = match variable.get("default") {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => continue,
        };
        url = url.replace(&format!("{{{name}}}"), &default);
    }
    let open = url
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match open {
        Some((name, _)) => Err(format!(
            "{} has no value for {}; say the whole address with --base-url https://…",
            brief(&url),
            brief(name)
        )),
        None => Ok(url),
    }
}

/// An address that is whole, without a slash at its end.
fn whole(url: &str) -> Result<String, String> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let is_whole = host.is_some_and(|host| !host.is_empty() && !host.contains('@'));
    let has_more = url.contains(['{', '}', '?', '#'])
        || url
            .chars()
            .any(|character| character.is_whitespace() || character.is_control());
    if is_whole && !has_more {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let shown = brief(&url.escape_debug().to_string());
    Err(match url {
        "" => "it has none; say the address with --base-url https://…".to_owned(),
        url if url.starts_with('/') && !has_more => format!(
            "it has {shown}, a path alone; say where that is with --base-url https://HOST{shown}"
        ),
        _ => format!("it has {shown}; say the address with --base-url https://…"),
    })
}

fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..]
        .find('/')
        .map_or(url.len(), |slash| start + slash);
    &url[..end]
}

fn host_of(url: &str) -> &str {
    let origin = origin_of(url);
    origin.split_once("://").map_or(origin, |(_, host)| host)
}
