//! Every flag of every command, given wrongly: one line that names the thing, exit code 2, and nothing is written. The commands and
//! their flags are those that the program's own help has, so that a new one has to come here.

use crate::support::program::{Run, command, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// How a command is asked rightly, and what is wrong for each of its flags: the value, and what the line has to name.
struct Case {
    command: &'static str,
    right: &'static [&'static str],
    wrong: &'static [(&'static str, &'static str, &'static str)],
}

const TOOLS: (&str, &str, &str) = ("--tools", "missing", "no tools folder missing");
const KB: (&str, &str, &str) = ("--kb", "missing", "no knowledge base folder missing");
const DATA: (&str, &str, &str) = ("--data", "a-file", "--data names a-file");
const CONFIG: (&str, &str, &str) = ("--config", "missing.toml", "missing.toml");
const FETCH: (&str, &str, &str) = ("--allow-fetch", "https://x/y", "--allow-fetch");
const PROVIDER: (&str, &str, &str) = ("--provider", "nobody", "--provider");
const PROVIDER_URL: (&str, &str, &str) = ("--provider-url", "nowhere", "--provider-url");
const MODEL: (&str, &str, &str) = ("--model", "two words", "--model");
const TEXT_PROVIDER: (&str, &str, &str) = ("--text-provider", "nobody", "--text-provider");
const TEXT_URL: (&str, &str, &str) = ("--text-provider-url", "nowhere", "--text-provider-url");
const TEXT_MODEL: (&str, &str, &str) = ("--text-model", "two words", "--text-model");
const LISTEN: (&str, &str, &str) = ("--listen", "here", "--listen");
const PORT: (&str, &str, &str) = ("--port", "65536", "--port");
const ROLE: (&str, &str, &str) = ("--role", "two words", "two words");
const EMBEDDER: (&str, &str, &str) = ("--embedder", "magic", "--embedder");

const CASES: &[Case] = &[
    Case {
        command: "serve",
        right: &[],
        wrong: &[
            CONFIG,
            LISTEN,
            PORT,
            TOOLS,
            KB,
            DATA,
            PROVIDER,
            PROVIDER_URL,
            MODEL,
            TEXT_PROVIDER,
            TEXT_URL,
            TEXT_MODEL,
            FETCH,
        ],
    },
    Case {
        command: "config",
        right: &[],
        wrong: &[
            CONFIG,
            LISTEN,
            PORT,
            TOOLS,
            KB,
            DATA,
            PROVIDER,
            PROVIDER_URL,
            MODEL,
            TEXT_PROVIDER,
            TEXT_URL,
            TEXT_MODEL,
            FETCH,
        ],
    },
    Case {
        command: "doctor",
        right: &[],
        wrong: &[
            CONFIG,
            LISTEN,
            PORT,
            TOOLS,
            KB,
            DATA,
            PROVIDER,
            PROVIDER_URL,
            MODEL,
            TEXT_PROVIDER,
            TEXT_URL,
            TEXT_MODEL,
            FETCH,
            ("--timeout", "0", "'0' for '--timeout"),
        ],
    },
    Case {
        command: "healthcheck",
        right: &[],
        wrong: &[CONFIG, LISTEN, PORT],
    },
    Case {
        command: "chat",
        right: &["hello"],
        wrong: &[
            CONFIG,
            TOOLS,
            KB,
            DATA,
            PROVIDER,
            PROVIDER_URL,
            MODEL,
            TEXT_PROVIDER,
            TEXT_URL,
            TEXT_MODEL,
            FETCH,
            ROLE,
        ],
    },
    Case {
        command: "build",
        right: &[],
        wrong: &[CONFIG, TOOLS, KB, ("--out", "/", "--out /")],
    },
    Case {
        command: "check",
        right: &[],
        wrong: &[CONFIG, TOOLS, KB],
    },
    Case {
        command: "call",
        right: &["say_hello", "{\"query\": \"Ada\"}"],
        wrong: &[
            CONFIG,
            TOOLS,
            KB,
            DATA,
            FETCH,
            ROLE,
            ("--mode", "video", "'video' for '--mode"),
            ("--user", "", "--user"),
        ],
    },
    Case {
        command: "tool add",
        right: &["calendar"],
        wrong: &[CONFIG, ("--tools", "", "--tools")],
    },
    Case {
        command: "tools",
        right: &[],
        wrong: &[CONFIG, TOOLS, KB],
    },
    Case {
        command: "tools compare",
        right: &["book_table"],
        wrong: &[
            CONFIG,
            LISTEN,
            PORT,
            ("--key-file", "missing.txt", "missing.txt"),
            ("--from", "missing.json", "missing.json"),
        ],
    },
    Case {
        command: "tool new",
        right: &["lookup_order"],
        wrong: &[
            CONFIG,
            ("--kind", "perl", "'perl' for '--kind"),
            ("--url", "https://x", "--url goes with --kind http"),
            ("--tools", "", "--tools"),
        ],
    },
    Case {
        command: "import openapi",
        right: &["api.json"],
        wrong: &[
            CONFIG,
            ("--only", "nothing", "nothing"),
            ("--tag", "nothing", "nothing"),
            ("--base-url", "shop", "--base-url"),
            ("--tools", "", "--tools"),
        ],
    },
    Case {
        command: "import node",
        right: &["project"],
        wrong: &[CONFIG, ("--tools", "", "--tools")],
    },
    Case {
        command: "import tools",
        right: &["list.json"],
        wrong: &[
            CONFIG,
            ("--only", "nothing", "nothing"),
            ("--tools", "", "--tools"),
        ],
    },
    Case {
        command: "mcp import",
        // Everything from a server's first word on is the server's own.
        right: &[],
        wrong: &[
            CONFIG,
            ("--only", "", "--only"),
            ("--prefix", "My Tools", "--prefix"),
            ("--name", "two words", "--name"),
            ("--env", "two words", "--env"),
            ("--secret", "two words", "--secret"),
            ("--bearer", "two words", "--bearer"),
            ("--tools", "", "--tools"),
        ],
    },
    Case {
        command: "mcp diff",
        right: &[],
        wrong: &[CONFIG, TOOLS],
    },
    Case {
        command: "mcp serve",
        right: &[],
        wrong: &[CONFIG, ("--user", "", "--user"), ROLE, TOOLS, KB, DATA],
    },
    Case {
        command: "kb index",
        right: &[],
        wrong: &[CONFIG, KB, DATA, EMBEDDER],
    },
    Case {
        command: "kb search",
        right: &["welcome"],
        wrong: &[
            CONFIG,
            KB,
            DATA,
            EMBEDDER,
            ("--namespace", "none", "no namespace \"none\""),
            ("--from", "May", "start of the date range"),
            ("--to", "May", "end of the date range"),
            ("--top-k", "0", "'0' for '--top-k"),
        ],
    },
    Case {
        command: "kb get",
        right: &["doc:welcome"],
        wrong: &[CONFIG, KB, DATA, EMBEDDER],
    },
    Case {
        command: "kb stats",
        right: &[],
        wrong: &[CONFIG, KB, DATA, EMBEDDER],
    },
    Case {
        command: "kb move",
        right: &[],
        wrong: &[CONFIG, KB, DATA, EMBEDDER, ("--to", "here", "--to")],
    },
    Case {
        command: "kb model add",
        right: &["a-file"],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "kb eval",
        right: &[
            "--corpus",
            "a-file",
            "--queries",
            "a-file",
            "--qrels",
            "a-file",
        ],
        wrong: &[
            CONFIG,
            KB,
            DATA,
            EMBEDDER,
            ("--corpus", "missing", "missing"),
            ("--queries", "missing", "missing"),
            ("--qrels", "missing", "missing"),
        ],
    },
    Case {
        command: "keys add",
        right: &["shop"],
        wrong: &[
            CONFIG,
            DATA,
            ROLE,
            ("--user", "", "cannot be a user"),
            ("--tenant", "two words", "cannot be a tenant"),
        ],
    },
    Case {
        command: "keys list",
        right: &[],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "keys revoke",
        right: &["shop"],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "connections list",
        right: &[],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "connections revoke",
        right: &["shop", "--user", "user:ada"],
        wrong: &[
            CONFIG,
            DATA,
            ("--user", "", "cannot be a user"),
            ("--tenant", "two words", "cannot be a tenant"),
        ],
    },
    Case {
        command: "audit list",
        right: &[],
        wrong: &[
            CONFIG,
            DATA,
            ("--tool", "Two Words", "'Two Words' for '--tool"),
            ("--user", "", "'' for '--user"),
            ("--since", "yesterday", "'yesterday' for '--since"),
        ],
    },
    Case {
        command: "audit verify",
        right: &[],
        wrong: &[CONFIG, DATA, ("--checkpoint", "missing", "missing")],
    },
    Case {
        command: "audit checkpoint",
        right: &[],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "backup",
        right: &["new.zip"],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "restore",
        right: &["a-file"],
        wrong: &[CONFIG, DATA],
    },
    Case {
        command: "replay",
        right: &["journal.jsonl"],
        wrong: &[CONFIG, TOOLS, KB, DATA],
    },
    Case {
        command: "sim gemini-live",
        right: &[],
        wrong: &[
            ("--listen", "here", "'here' for '--listen"),
            ("--script", "missing.yaml", "missing.yaml"),
        ],
    },
    Case {
        command: "sim openai-realtime",
        right: &[],
        wrong: &[
            ("--listen", "here", "'here' for '--listen"),
            ("--script", "missing.yaml", "missing.yaml"),
        ],
    },
    Case {
        command: "sim gemini",
        right: &[],
        wrong: &[
            ("--listen", "here", "'here' for '--listen"),
            ("--script", "missing.yaml", "missing.yaml"),
        ],
    },
    Case {
        command: "sim openai",
        right: &[],
        wrong: &[
            ("--listen", "here", "'here' for '--listen"),
            ("--script", "missing.yaml", "missing.yaml"),
        ],
    },
    Case {
        command: "init",
        right: &["new"],
        wrong: &[
            ("--rust", "nowhere", "nowhere"),
            ("--with", "everything", "'everything' for '--with"),
        ],
    },
    Case {
        command: "schema",
        right: &["tool"],
        wrong: &[],
    },
    Case {
        command: "completions",
        right: &["bash"],
        wrong: &[],
    },
];

/// Flags that any text suits, which may fit nothing that is there.
const FREE: [(&str, &str); 2] = [("kb search", "--type"), ("kb search", "--tag")];

/// Those that every command has.
const EVERYWHERE: [&str; 5] = ["--format", "--color", "--quiet", "--verbose", "--help"];

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

/// The names of the subcommands in a help text, and of its flags, each with whether it takes a value.
pub(crate) fn described(help: &str) -> (Vec<String>, BTreeMap<String, bool>) {
    let mut commands = Vec::new();
    let mut flags = BTreeMap::new();
    let mut is_of_commands = false;
    for line in help.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => is_of_commands = false,
            _ if !line.starts_with(' ') => is_of_commands = line == "Commands:",
            [name, ..] if is_of_commands && line.starts_with("  ") && !line.starts_with("   ") => {
                commands.push((*name).to_owned());
            }
            [first, rest @ ..] => {
                let short = first.starts_with('-') && first.ends_with(',');
                let (name, behind) = match (short, rest) {
                    (true, [name, behind @ ..]) => (*name, behind),
                    _ => (*first, rest),
                };
                // A flag that may be repeated is shown with dots.
                let name = name.trim_end_matches("...");
                if name.starts_with("--") {
                    let takes = behind.first().is_some_and(|word| word.starts_with('<'));
                    flags.insert(name.to_owned(), takes);
                }
            }
        }
    }
    commands.retain(|name| name != "help");
    (commands, flags)
}

/// Every command that has none beneath it, with its flags.
pub(crate) fn commands(folder: &Path) -> BTreeMap<String, BTreeMap<String, bool>> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(path) = open.pop() {
        let help = run(command(folder).args(&path).arg("--help"));
        assert_eq!(help.code, 0, "{path:?}");
        let (inner, flags) = described(&help.output);
        for name in &inner {
            open.push([path.as_slice(), std::slice::from_ref(name)].concat());
        }
        // One that can be asked for by itself has a first usage without another command.
        let usage = help.output.lines().find(|line| line.starts_with("Usage:"));
        if inner.is_empty() || usage.is_some_and(|usage| !usage.contains("<COMMAND>")) {
            found.insert(path.join(" "), flags);
        }
    }
    found
}

/// Everything that lies in a folder, with the hash of what is in it.
fn contents(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.path().display().to_string());
            if path.is_dir() {
                open.push(path);
                found.insert(name, 0);
            } else {
                let mut hasher = DefaultHasher::new();
                fs::read(path).unwrap().hash(&mut hasher);
                found.insert(name, hasher.finish());
            }
        }
    }
    found
}

/// A project with what the commands are asked rightly about.
fn place() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let api = r#"{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "https://shop.example"}],
        "paths": {"/orders": {"get": {"operationId": "listOrders", "tags": ["orders"], "responses": {"200": {"description": "x"}}}}}}"#;
    fs::write(path.join("api.json"), api).unwrap();
    let list = r#"[{"name": "list_orders", "description": "Lists orders", "inputSchema": {"type": "object"}}]"#;
    fs::write(path.join("list.json"), list).unwrap();
    fs::write(path.join("a-file"), "").unwrap();
    fs::write(path.join("journal.jsonl"), "").unwrap();
    fs::create_dir(path.join("project")).unwrap();
    folder
}

/// Said in one line, with exit code 2.
fn refuses(folder: &Path, arguments: &[&str], named: &str) {
    let run = windlass(folder, arguments);
    let [line] = run.problems.as_slice() else {
        panic!("{arguments:?} said {:?} {}", run.problems, run.output);
    };
    assert!(line.starts_with("windlass: "), "{arguments:?}: {line}");
    assert!(line.contains(named), "{arguments:?}: {line}");
    assert_eq!(
        (run.code, run.output.as_str()),
        (2, ""),
        "{arguments:?}: {line}"
    );
}

#[test]
fn a_flag_that_is_given_wrongly_is_named_in_one_line_and_nothing_is_written() {
    let folder = place();
    let path = folder.path();
    let before = contents(path);
    let known = commands(path);
    let mut listed = BTreeSet::new();
    for case in CASES {
        listed.insert(case.command.to_owned());
        let words: Vec<&str> = case.command.split(' ').collect();
        let flags = known
            .get(case.command)
            .unwrap_or_else(|| panic!("no command {}", case.command));
        let own: BTreeSet<&str> = case.wrong.iter().map(|(flag, ..)| *flag).collect();
        for (flag, takes_value) in flags {
            let is_everywhere = EVERYWHERE.contains(&flag.as_str());
            if !takes_value && !is_everywhere {
                let given = format!("{flag}=x");
                let arguments = [&words[..], case.right, &[given.as_str()]].concat();
                refuses(path, &arguments, flag);
            }
            let is_free = FREE.contains(&(case.command, flag.as_str()));
            if *takes_value && !is_everywhere && !is_free {
                assert!(
                    own.contains(flag.as_str()),
                    "{} {flag} is in no table",
                    case.command
                );
            }
        }
        for (flag, value, named) in case.wrong {
            assert!(flags.contains_key(*flag), "{} has no {flag}", case.command);
            // What is asked rightly comes without the flag that is wrong.
            let mut right = Vec::new();
            let mut words_right = case.right.iter();
            while let Some(word) = words_right.next() {
                match word == flag {
                    true => {
                        words_right.next();
                    }
                    false => right.push(*word),
                }
            }
            let arguments = [&words[..], &right[..], &[*flag, *value][..]].concat();
            refuses(path, &arguments, named);
        }
        for (flag, value) in [("--format", "xml"), ("--color", "blue")] {
            let arguments = [&words[..], case.right, &[flag, value]].concat();
            refuses(path, &arguments, flag);
        }
        refuses(
            path,
            &[&words[..], case.right, &["-q", "-v"]].concat(),
            "--quiet",
        );
        refuses(
            path,
            &[&words[..], case.right, &["--nonsense"]].concat(),
            "--nonsense",
        );
    }
    let known: BTreeSet<String> = known.into_keys().collect();
    assert_eq!(listed, known, "every command has its row");
    assert_eq!(contents(path), before, "nothing was written");
}

#[test]
fn a_name_that_no_thing_can_have_is_refused_before_anything_is_written() {
    let folder = place();
    let path = folder.path();
    let before = contents(path);
    for (arguments, named) in [
        (&["sarve"][..], "sarve"),
        (&["keys", "add", "two words"], "two words"),
        (&["tool", "new", "9lives"], "9lives"),
        (
            &["tool", "new", "a", "--kind", "http", "--url", "shop"],
            "--url shop",
        ),
        (&["import", "openapi", "missing.json"], "missing.json"),
        (&["import", "node", "missing"], "missing"),
        (&["restore", "missing.zip", "--data", "new"], "missing.zip"),
        (&["replay", "missing"], "missing"),
        (&["audit", "verify", "missing"], "missing"),
        (&["kb", "model", "add", "missing"], "missing"),
        (&["kb", "search", " "], "query"),
        (&["schema", "nothing"], "nothing"),
        (&["completions", "cmd"], "cmd"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--port", "0"],
            "--port",
        ),
        (
            &["serve", "--provider", "demo", "--provider-url", "ws://x"],
            "--provider-url",
        ),
        (&["call", "say_hello", "{"], "no JSON"),
        (&["call", "say_hello", "[]"], "no object"),
    ] {
        refuses(path, arguments, named);
    }
    assert_eq!(contents(path), before, "nothing was written");
}
