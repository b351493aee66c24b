//! The section of the configuration that an import is from: the existing one, or the one that the command line describes.

use super::ImportArguments;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use toml::Value;
use windlass_config::{Config, McpName, McpServer};

/// A section that is to be written.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) text: String,
}

/// The server that is imported from, which the configuration has now.
pub(super) struct Found {
    pub(super) name: McpName,
    /// `None` where it is in the file already.
    pub(super) section: Option<Section>,
}

/// Finds the server that the command line means, and puts it into the configuration.
pub(super) fn find(arguments: &ImportArguments, config: &mut Config) -> Result<Found, Failure> {
    let usage = |problem: String| Failure::Usage(problem);
    if let [word] = arguments.server.as_slice()
        && let Ok(name) = McpName::try_from(word.clone())
        && config.mcp.contains_key(&name)
    {
        return Ok(Found {
            name,
            section: None,
        });
    }
    let members = members(arguments)?;
    let text = match &arguments.name {
        Some(name) => name.clone(),
        None => name_of(&arguments.server),
    };
    let name = McpName::try_from(text).map_err(|_| {
        usage("no name can be made of this server; give it one with --name".to_owned())
    })?;
    let server: McpServer = Value::Table(members.clone().into_iter().collect())
        .try_into()
        .map_err(|error: toml::de::Error| {
            usage(format!("this is no server: {}", error.message()))
        })?;
    if let Some(known) = config.mcp.get(&name) {
        let is_same = known.url == server.url && known.command == server.command;
        return match is_same {
            true => Ok(Found {
                name,
                section: None,
            }),
            false => Err(usage(format!(
                "the configuration has another MCP server {}; choose a name with --name",
                name.as_str()
            ))),
        };
    }
    config.mcp.insert(name.clone(), server);
    let mut text = format!("[mcp.{}]\n", name.as_str());
    for (key, value) in &members {
        let _ = writeln!(text, "{key} = {value}");
    }
    let section = Section {
        name: name.as_str().to_owned(),
        text,
    };
    Ok(Found {
        name,
        section: Some(section),
    })
}

/// The keys that the command line sets.
fn members(arguments: &ImportArguments) -> Result<BTreeMap<String, Value>, Failure> {
    let list = |items: &[String]| {
        let items = items.iter().cloned().map(Value::String);
        Value::Array(items.collect())
    };
    let misplaced = |flag: &str, what: &str| {
        Err(Failure::Usage(format!(
            "{flag} is for a server that is {what}"
        )))
    };
    let mut members = BTreeMap::new();
    let mut set = |key: &str, value: Value| members.insert(key.to_owned(), value);
    let [first, ..] = arguments.server.as_slice() else {
        return Err(Failure::Usage(
            "name a server: its address, or its command with its arguments".to_owned(),
        ));
    };
    if first.starts_with('-') {
        return Err(Failure::Usage(format!(
            "there is no flag {first}; --help lists what there is"
        )));
    }
    if first.starts_with("https://") || first.starts_with("http://") {
        if arguments.server.len() > 1 {
            return Err(Failure::Usage(
                "an address stands alone; flags stand before it".to_owned(),
            ));
        }
        if !arguments.env.is_empty() {
            return misplaced("--env", "a program");
        }
        if !arguments.secret.is_empty() {
            return misplaced(
                "--secret",
                "a program; an address is given one with --bearer",
            );
        }
        set("url", first.clone().into());
        if let Some(bearer) = &arguments.bearer {
            set("bearer", bearer.clone().into());
        }
        return Ok(members);
    }
    if arguments.bearer.is_some() {
        return misplaced(
            "--bearer",
            "an address; a program is given one with --secret",
        );
    }
    set("command", list(&arguments.server));
    if !arguments.env.is_empty() {
        set("env", list(&arguments.env));
    }
    if !arguments.secret.is_empty() {
        set("secrets", list(&arguments.secret));
    }
    Ok(members)
}

impl Section {
    /// Writes it behind everything else in a file, which is there or made.
    pub(super) fn append(&self, path: &Path) -> Result<(), String> {
        let before = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.to_string()),
        };
        let between = match before.trim_end() {
            "" => "",
            _ => "\n\n",
        };
        let text = format!("{}{between}{}", before.trim_end(), self.text);
        text.parse::<toml::Table>()
            .map_err(|error| format!("it would be no TOML any more: {}", error.message()))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let written = std::fs::write(&beside, text).and_then(|()| {
            // Keeps the file's permissions.
            if let Ok(found) = std::fs::metadata(path) {
                std::fs::set_permissions(&beside, found.permissions())?;
            }
            std::fs::rename(&beside, path)
        });
        written.map_err(|error| error.to_string())
    }
}

/// Programs that run another one, which is the server.
const RUNNERS: [&str; 16] = [
    "npx", "npm", "pnpm", "yarn", "bunx", "bun", "node", "deno", "uvx", "uv", "python", "python3",
    "docker", "podman", "sh", "env",
];
/// Their own words.
const WORDS: [&str; 6] = ["run", "exec", "x", "dlx", "tool", "start"];
/// Parts of names that all servers have.
const USUAL: [&str; 7] = ["mcp", "server", "servers", "api", "www", "app", "stdio"];

/// A name made of the server's command or address: `npx -y @scope/server-files@1.0` is `files`, `https://mcp.example.com/mcp` is
/// `example`.
fn name_of(server: &[String]) -> String {
    let first = server.first().map(String::as_str).unwrap_or_default();
    let whole = match first.split_once("://") {
        Some((_, rest)) => {
            let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
            let is_number = host
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            match is_number {
                true => "local".to_owned(),
                false => {
                    let mut labels: Vec<&str> = host.split('.').collect();
                    if labels.len() > 1 {
                        labels.pop();
                    }
                    labels.join("-")
                }
            }
        }
        None => {
            let file = |word: &str| {
                let word = word.rsplit(['/', '\\']).next().unwrap_or(word);
                // The version of a package, and the ending of a file.
                let word = word.split('@').next().unwrap_or(word);
                word.split('.').next().unwrap_or(word).to_owned()
            };
            let mut words = server.iter().map(String::as_str).filter(|word| {
                let plain = file(word);
                !word.starts_with('-')
                    && !RUNNERS.contains(&plain.as_str())
                    && !WORDS.contains(word)
            });
            words.next().map(file).unwrap_or_default()
        }
    };
    let parts: Vec<String> = whole
        .split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let telling: Vec<&String> = parts
        .iter()
        .filter(|part| !USUAL.contains(&part.as_str()))
        .collect();
    let name: Vec<&str> = match telling.is_empty() {
        true => parts.iter().map(String::as_str).collect(),
        false => telling.into_iter().map(String::as_str).collect(),
    };
    name.join("-").chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_what_its_package_file_or_host_is_called() {
        for (server, expected) in [
            (
                "npx -y @modelcontextprotocol/server-everything",
                "everything",
            ),
            (
                "npx -y @modelcontextprotocol/server-filesystem@1.0.2 /srv",
                "filesystem",
            ),
            ("uvx mcp-server-git --repository .", "git"),
            ("node build/weather-mcp.js", "weather"),
            (
                "docker run -i --rm ghcr.io/github/github-mcp-server",
                "github",
            ),
            ("/opt/tools/shop stdio", "shop"),
            ("mcp-server", "mcp-server"),
            ("https://mcp.linear.app/mcp", "linear"),
            ("https://docs.example.com/mcp", "docs-example"),
            ("http://127.0.0.1:8931/mcp", "local"),
            ("http://localhost:3000/mcp", "localhost"),
            ("npx -y", ""),
        ] {
            let words: Vec<String> = server.split(' ').map(str::to_owned).collect();
            assert_eq!(name_of(&words), expected, "{server}");
        }
    }

    #[test]
    fn a_section_is_written_behind_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.toml");
        let section = Section {
            name: "files".to_owned(),
            text: "[mcp.files]\ncommand = [\"files\"]\n".to_owned(),
        };
        section.append(&path).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        assert_eq!(first, section.text);
        std::fs::write(&path, "# mine\n[log]\nlevel = \"info\"").unwrap();
        section.append(&path).unwrap();
        let second = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            second,
            format!("# mine\n[log]\nlevel = \"info\"\n\n{}", section.text)
        );
        let again = section.append(&path).unwrap_err();
        assert!(again.contains("no TOML any more"), "{again}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), second);
    }
}
