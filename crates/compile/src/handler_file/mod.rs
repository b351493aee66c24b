//! `handler.json`: a handler outside this program. Read and judged when tools are compiled, like a schema; making requests and reading
//! answers is pure. Knows no socket and no process.

mod answer;
mod mcp;
mod pieces;
mod read;
mod request;
mod template;

pub(crate) use answer::is_definite;
pub use answer::{Answered, status_failure, unanswered};
pub use mcp::{DefinitionHash, McpHandler, McpResourceHandler, Offering};
pub use pieces::PieceReader;
pub(crate) use read::{Judged, read};
pub use read::{address_problem, arguments_of_address};
pub use request::{Filling, Rendered, Unrenderable};

use std::collections::{BTreeMap, BTreeSet};
use template::{BodyTemplate, NamedTemplate, Template};
use windlass_contract::error::FailureKind;
use windlass_contract::number::Numbers;
use windlass_contract::sensitive::Sensitive;

/// The content of a `handler.json`.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerFile {
    Http(Box<HttpHandler>),
    Webhook(Webhook),
    Process(ProcessHandler),
    Mcp(McpHandler),
    McpResource(McpResourceHandler),
}

/// One HTTP request for each call.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpHandler {
    pub request: HttpTemplate,
    /// The header that carries the effect's key; `Idempotency-Key` where the file names none.
    pub idempotency_header: Option<String>,
    /// The request that looks up an effect's outcome.
    pub lookup: Option<HttpTemplate>,
    /// The user's connection whose access token goes with each request, as `Authorization`.
    pub connection: Option<String>,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A request with places for arguments in it.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpTemplate {
    pub(crate) method: String,
    /// Scheme, host and port, without any place.
    pub(crate) origin: String,
    /// Path and query.
    pub(crate) path: Template,
    pub(crate) query: Vec<NamedTemplate>,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Option<BodyTemplate>,
    /// The JSON pointer of the answer's part that is the call's data.
    pub(crate) result: Option<String>,
    /// The declared errors, by status such as `404` or `5xx`.
    pub(crate) errors: BTreeMap<String, DeclaredError>,
}

/// The meaning of a status that the file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredError {
    pub(crate) kind: FailureKind,
    /// The author guarantees that nothing was done.
    pub(crate) not_done: bool,
}

impl HttpTemplate {
    /// The origin of all its requests: `https://host:port`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The names of its secrets, each with the origin that it is sent to.
    fn secret_uses(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.secrets().into_iter();
        names.map(|name| (name, self.origin.as_str()))
    }
}

/// A signed message of Standard Webhooks to a service of the author's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub origin: String,
    /// The secret's name.
    pub secret: String,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A long-lived program of the author's own that speaks JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessHandler {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub concurrency: usize,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
    /// The numbers of the program's language.
    pub numbers: Numbers,
}

/// The numbers of a command's language, as far as the command shows it: by the names of JavaScript's and Python's programs and files.
/// Every other program is assumed to read numbers as they are written.
pub fn numbers_of(command: &[String]) -> Numbers {
    const DOUBLES: [&str; 10] = [
        "node", "nodejs", "deno", "bun", "bunx", "npm", "npx", "pnpm", "yarn", "tsx",
    ];
    const DOUBLES_FILES: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];
    const INTEGERS: [&str; 7] = ["python", "pypy", "uv", "uvx", "poetry", "pipenv", "pdm"];
    const INTEGERS_FILES: [&str; 2] = ["py", "pyz"];
    let names = command.iter().map(|part| {
        let name = part.rsplit(['/', '\\']).next().unwrap_or(part);
        name.to_ascii_lowercase()
    });
    let is_of = |programs: &[&str], files: &[&str]| {
        names.clone().any(|name| {
            let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
            // The name of `python3.12` and `node.exe` is the part before the version or the ending.
            let program = stem
                .split('.')
                .next()
                .unwrap_or(stem)
                .trim_end_matches(|end: char| end.is_ascii_digit());
            let is_program = ending.is_empty()
                || ending == "exe"
                || ending.bytes().all(|byte| byte.is_ascii_digit());
            files.contains(&ending) || (is_program && programs.contains(&program))
        })
    };
    if is_of(&DOUBLES, &DOUBLES_FILES) {
        Numbers::Doubles
    } else if is_of(&INTEGERS, &INTEGERS_FILES) {
        Numbers::Integers
    } else {
        Numbers::Exact
    }
}

/// The configuration's permissions for handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Whether programs of authors may run.
    pub processes: bool,
    /// The configured secrets, and the hosts that each may be sent to.
    pub secrets: BTreeMap<String, BTreeSet<String>>,
    /// The configured MCP servers.
    pub mcp_servers: BTreeSet<String>,
    /// The configured connections, and the hosts that access tokens of each may be sent to.
    pub connections: BTreeMap<String, BTreeSet<String>>,
}

/// A secret of handlers, and the hosts that it may be sent to, as `host` or `host:port`.
#[derive(Clone, Debug)]
pub struct BoundSecret {
    pub value: Sensitive<String>,
    pub hosts: BTreeSet<String>,
}

/// Whether a secret that is bound to these hosts may go to an origin, such as `https://api.example.com`. A host without a port stands for
/// the usual ports.
pub fn may_go_to(hosts: &BTreeSet<String>, origin: &str) -> bool {
    let (scheme, place) = origin.split_once("://").unwrap_or_default();
    let place = place.to_ascii_lowercase();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ if scheme == "http" => (place.as_str(), "80"),
        _ => (place.as_str(), "443"),
    };
    let host = host.trim_end_matches('.');
    let mut hosts = hosts.iter().filter(|_| !host.is_empty());
    hosts.any(|known| {
        let is_usual = matches!(port, "80" | "443") && *known == host;
        is_usual || *known == format!("{host}:{port}")
    })
}

impl HandlerFile {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Webhook(_) => "webhook",
            Self::Process(_) => "process",
            Self::Mcp(_) => "mcp",
            Self::McpResource(_) => "mcp_resource",
        }
    }

    /// The names of the secrets that the handler needs, each with the origin that it is sent to.
    pub fn secrets(&self) -> BTreeSet<(&str, &str)> {
        match self {
            Self::Http(http) => {
                let lookup = http.lookup.as_ref();
                let templates = std::iter::once(&http.request).chain(lookup);
                templates.flat_map(HttpTemplate::secret_uses).collect()
            }
            Self::Webhook(webhook) => {
                BTreeSet::from([(webhook.secret.as_str(), webhook.origin.as_str())])
            }
            // The secrets of an MCP server belong to the configuration; tools' files never name them.
            Self::Process(_) | Self::Mcp(_) | Self::McpResource(_) => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_what_its_language_makes_of_numbers() {
        for (command, expected) in [
            (&["node", "handler.mjs"][..], Numbers::Doubles),
            (&["/usr/local/bin/node20", "h"], Numbers::Doubles),
            (&["C:\\node\\Node.EXE", "h"], Numbers::Doubles),
            (
                &["/usr/bin/env", "-S", "deno", "run", "h"],
                Numbers::Doubles,
            ),
            (&["./handler.ts"], Numbers::Doubles),
            (&["python3", "handler.py"], Numbers::Integers),
            (&["/opt/python3.12", "-m", "shop"], Numbers::Integers),
            (&["./handler.py"], Numbers::Integers),
            (&["sh", "-c", "./handler"], Numbers::Exact),
            (&["./nodelike"], Numbers::Exact),
            (&["ruby", "handler.rb"], Numbers::Exact),
        ] {
            let command: Vec<String> = command.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(numbers_of(&command), expected, "{command:?}");
        }
    }

    #[test]
    fn a_secret_goes_to_its_hosts_and_nowhere_else() {
        for (host, origin, may_go) in [
            ("a.example", "https://a.example", true),
            ("a.example", "http://A.Example:80", true),
            ("a.example", "https://a.example.:443", true),
            ("a.example", "https://a.example:8443", false),
            ("a.example:8443", "https://a.example:8443", true),
            ("a.example:8443", "https://a.example", false),
            ("a.example:443", "https://a.example", true),
            ("a.example", "https://b.a.example", false),
            ("a.example", "https://a.example.evil.example", false),
            ("127.0.0.1:9001", "http://127.0.0.1:9001", true),
            ("[::1]:9001", "http://[::1]:9001", true),
            ("[::1]", "http://[::1]", true),
            ("", "", false),
        ] {
            let hosts = BTreeSet::from([host.to_owned()]);
            assert_eq!(may_go_to(&hosts, origin), may_go, "{host} {origin}");
        }
        assert!(!may_go_to(&BTreeSet::new(), "https://a.example"));
    }
}
