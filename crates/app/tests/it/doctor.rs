//! `windlass doctor`: against a server that plays the vendors, with their faults, and on machines that lack something.

use crate::support::program::{Run, command, run};
use crate::support::root;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-0123456789abcdef";

/// What a vendor answers to the question about a model.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Another status, and a body.
    Status(u16, &'static str),
    /// Its clock says this.
    Date(&'static str),
    /// It takes the request and says nothing.
    Silent,
}

/// A server that plays OpenAI and Google.
struct Vendor {
    address: String,
    /// The first lines of the requests, and the headers that carried a key.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    fn with(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let told = told.clone();
                std::thread::spawn(move || answer(stream.unwrap(), fault, &told));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }
}

fn answer(mut stream: TcpStream, fault: Fault, told: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let is_told = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("get ") || line.starts_with("authorization") || line.starts_with("x-goog")
    };
    let lines: Vec<&str> = head.lines().filter(is_told).collect();
    told.lock().unwrap().push(lines.join(" | "));
    let (status, date, body) = match fault {
        Fault::None => (200, None, "{}"),
        Fault::Status(status, body) => (status, None, body),
        Fault::Date(date) => (200, Some(date), "{}"),
        Fault::Silent => {
            // Until the other side gives up.
            let _ = reader.read_line(&mut head);
            return;
        }
    };
    let date = date.map_or_else(String::new, |date| format!("Date: {date}\r\n"));
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} Answer\r\n{date}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(answer.as_bytes());
}

/// A project in which everything is well, with both modes at a vendor.
fn project(kind: &str, text: &str, address: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(run(command(path).arg("init")).code, 0);
    let text_path = match text {
        "openai" => "/v1",
        _ => "",
    };
    let file = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[provider]\nkind = \"{kind}\"\nurl = \"ws://{address}\"\napi_key = \"{KEY}\"\n\
         [text]\nprovider = \"{text}\"\nurl = \"http://{address}{text_path}\"\napi_key = \"{KEY}\"\n"
    );
    fs::write(path.join("windlass.toml"), file).unwrap();
    folder
}

fn doctor(folder: &Path, arguments: &[&str]) -> Run {
    let mut command = command(folder);
    run(command.arg("doctor").args(arguments))
}

fn report(folder: &Path, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["--format", "json"];
    all.extend(arguments);
    let run = doctor(folder, &all);
    assert!(!run.output.contains(KEY), "{}", run.output);
    assert!(run.problems.is_empty(), "{:?}", run.problems);
    (run.code, serde_json::from_str(&run.output).unwrap())
}

fn finding<'r>(report: &'r Value, check: &str) -> &'r Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks
        .find(|found| found["check"] == check)
        .unwrap_or_else(|| panic!("{check} in {report}"))
}

#[test]
fn a_healthy_project_is_said_to_be_one_and_each_key_goes_to_its_vendor() {
    let vendor = Vendor::with(Fault::None);
    let folder = project("openai-realtime", "openai", &vendor.address);
    let (code, found) = report(folder.path(), &[]);
    assert_eq!((code, &found["ok"]), (0, &json!(true)), "{found}");
    for check in [
        "voice",
        "text",
        "clock",
        "port",
        "data",
        "documents",
        "prompts",
        "registry",
    ] {
        assert_eq!(
            finding(&found, check)["verdict"],
            "good",
            "{check} in {found}"
        );
    }
    assert_eq!(finding(&found, "weights")["verdict"], "note");
    assert_eq!(
        vendor.asked(),
        [
            format!("GET /v1/models/gpt-5.4-mini HTTP/1.1 | authorization: Bearer {KEY}"),
            format!("GET /v1/models/gpt-realtime-2.1 HTTP/1.1 | authorization: Bearer {KEY}"),
        ]
    );
    let shown = doctor(folder.path(), &[]);
    assert_eq!(shown.code, 0);
    assert!(
        shown.output.starts_with("ok     voice      127.0.0.1:"),
        "{}",
        shown.output
    );
    // A look changes nothing.
    assert!(!folder.path().join("data").exists());

    let vendor = Vendor::with(Fault::None);
    let folder = project("gemini-live", "gemini", &vendor.address);
    let (code, found) = report(folder.path(), &["--text-model", "gemini-x"]);
    assert_eq!(code, 0, "{found}");
    let asked = vendor.asked();
    assert!(
        asked.contains(&format!(
            "GET /v1beta/models/gemini-x HTTP/1.1 | x-goog-api-key: {KEY}"
        )),
        "{asked:?}"
    );
}

#[test]
fn each_fault_of_a_vendor_is_told_with_its_cure() {
    let refused = r#"{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}"#;
    for (kind, text, fault, verdict, what, cure) in [
        (
            "openai-realtime",
            "openai",
            Fault::Status(401, "{}"),
            "wrong",
            "refuses the key (HTTP status 401)",
            "make a key at https://platform.openai.com/api-keys and set OPENAI_API_KEY",
        ),
        (
            "gemini-live",
            "gemini",
            Fault::Status(400, refused),
            "wrong",
            "refuses the key (HTTP status 400)",
            "make a key at https://aistudio.google.com/apikey and set GEMINI_API_KEY",
        ),
        (
            "openai-realtime",
            "openai",
            Fault::Status(429, "{}"),
            "wrong",
            "has no room for this key now",
            "limits and the billing",
        ),
        (
            "openai-realtime",
            "openai",
            Fault::Status(503, "{}"),
            "wrong",
            "is in trouble (HTTP status 503)",
            "try again later",
        ),
        // A server of one's own need not list its models.
        (
            "openai-realtime",
            "openai",
            Fault::Status(404, "{}"),
            "note",
            "does not say whether it has",
            "begin a session to see",
        ),
        (
            "openai-realtime",
            "openai",
            Fault::Silent,
            "wrong",
            "said nothing for 1 s",
            "give it more time with --timeout",
        ),
    ] {
        let vendor = Vendor::with(fault);
        let folder = project(kind, text, &vendor.address);
        let (code, found) = report(folder.path(), &["--timeout", "1"]);
        assert_eq!(code, i32::from(verdict == "wrong"), "{fault:?}: {found}");
        for check in ["voice", "text"] {
            let found = finding(&found, check);
            assert_eq!(found["verdict"], verdict, "{fault:?}: {found}");
            let says = |member: &str, part| found[member].as_str().unwrap().contains(part);
            assert!(
                says("what", what) && says("cure", cure),
                "{fault:?}: {found}"
            );
        }
    }
}

#[test]
fn a_vendor_that_cannot_be_reached_is_told_from_one_that_refuses() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let folder = project("openai-realtime", "openai", &address);
    let run = doctor(folder.path(), &[]);
    assert_eq!(run.code, 1);
    assert_eq!(run.problems, ["windlass: 2 things are wrong"]);
    assert!(
        run.output
            .contains(&format!("WRONG  voice      {address} cannot be reached"))
            && run
                .output
                .contains("-> start that server, or correct its address"),
        "{}",
        run.output
    );
}

#[test]
fn proxies_and_authorities_are_looked_at_before_anything_goes_through_them() {
    let vendor = Vendor::with(Fault::None);
    let folder = project("openai-realtime", "openai", &vendor.address);
    let text = folder.path().join("no.pem");
    fs::write(&text, "no certificate").unwrap();
    let none = format!("SSL_CERT_FILE: {} holds no certificate", text.display());
    let own = format!("tls.ca_file: {} holds no certificate", text.display());
    let text = text.display().to_string();
    for (variable, value, check, verdict, what) in [
        ("NOTHING", "", "proxies", "good", "none is set"),
        ("NOTHING", "", "roots", "good", "authorities"),
        (
            "HTTPS_PROXY",
            "http://user:hunter2@proxy.example:3128",
            "proxies",
            "good",
            "services are asked through proxy.example:3128 (HTTPS_PROXY)",
        ),
        (
            "HTTPS_PROXY",
            "socks5://user:hunter2@proxy.example:1080",
            "proxies",
            "wrong",
            "HTTPS_PROXY: this is no address of a proxy: the scheme socks5 is not spoken",
        ),
        ("SSL_CERT_FILE", &text, "roots", "wrong", &none),
        ("WINDLASS_TLS_CA_FILE", &text, "roots", "wrong", &own),
    ] {
        let mut command = command(folder.path());
        let arguments = ["doctor", "--format", "json", "--timeout", "1"];
        let run = run(command.args(arguments).env(variable, value));
        let report: Value = serde_json::from_str(&run.output).unwrap();
        let found = finding(&report, check);
        assert_eq!(found["verdict"], verdict, "{variable}={value}: {found}");
        let said = found["what"].as_str().unwrap();
        assert!(said.contains(what), "{said}");
        assert!(!run.output.contains("hunter2"), "{}", run.output);
        // The server does not begin with what it would only find out with its first session.
        if verdict == "wrong" {
            let mut command = self::command(folder.path());
            let run = self::run(command.arg("serve").env(variable, value));
            assert_eq!(run.code, 1);
            assert!(
                run.problems.iter().any(|line| line.contains(what)),
                "{:?}",
                run.problems
            );
        }
    }
}

#[test]
fn a_clock_that_is_wrong_is_seen_by_what_a_vendor_says() {
    let vendor = Vendor::with(Fault::Date("Sun, 06 Nov 1994 08:49:37 GMT"));
    let folder = project("openai-realtime", "openai", &vendor.address);
    let (code, found) = report(folder.path(), &[]);
    let clock = finding(&found, "clock");
    assert_eq!((code, &clock["verdict"]), (1, &json!("wrong")), "{found}");
    let what = clock["what"].as_str().unwrap();
    assert!(what.contains(" seconds ahead of 127.0.0.1:"), "{what}");
}

#[test]
fn a_machine_or_a_project_that_lacks_something_is_told_what() {
    let vendor = Vendor::with(Fault::None);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    for (check, breaking, what) in [
        ("registry", "tools", "cannot be built: errors: 1"),
        ("prompts", "prompts", "is over"),
        ("data", "data", "cannot be written"),
        ("weights", "weights", "is not the file of"),
        ("port", "port", "another program has"),
        ("roots", "roots", "cannot be read"),
    ] {
        let folder = project("openai-realtime", "openai", &vendor.address);
        let path = folder.path();
        let mut arguments = vec!["--timeout", "1"];
        match breaking {
            "tools" => fs::write(path.join("tools/say-hello/schema.json"), "{").unwrap(),
            "prompts" => fs::write(path.join("prompts/core.md"), [0xff]).unwrap(),
            "data" => {
                fs::write(path.join("data"), "no folder").unwrap();
                arguments.extend(["--data", "data/inner"]);
            }
            "weights" => {
                let model = path.join("data/models/all-minilm-l6-v2");
                fs::create_dir_all(&model).unwrap();
                fs::write(model.join("model.safetensors"), "half").unwrap();
            }
            "port" => arguments.extend(["--listen", &taken]),
            _ => {
                let more = "[knowledge]\npostgres_root_certificate = \"no/such.pem\"\n";
                let file = fs::read_to_string(path.join("windlass.toml")).unwrap();
                fs::write(path.join("windlass.toml"), file + more).unwrap();
            }
        }
        let (code, found) = report(path, &arguments);
        let found = finding(&found, check);
        assert_eq!(
            (code, &found["verdict"]),
            (1, &json!("wrong")),
            "{breaking}: {found}"
        );
        assert!(found["cure"].is_string(), "{found}");
        let told = found["what"].as_str().unwrap();
        assert!(told.contains(what), "{breaking}: {told}");
    }
}

#[test]
fn without_a_key_nothing_is_wrong_and_the_next_step_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(run(command(path).arg("init")).code, 0);
    let (code, found) = report(path, &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, 0, "{found}");
    let voice = finding(&found, "voice");
    assert_eq!(voice["verdict"], "note");
    assert_eq!(
        voice["cure"],
        "set OPENAI_API_KEY or GEMINI_API_KEY for a real one"
    );
    // The project of this repository is well, too.
    let (code, found) = report(&root(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, 0, "{found}");
}

/// The sections of services behind built-in tools, all at one address.
fn services(address: &str) -> String {
    format!(
        "[images]\nservice = \"openai\"\nurl = \"http://{address}/v1\"\napi_key = \"{KEY}\"\n\
         [search]\nservice = \"openai\"\nurl = \"http://{address}/v1\"\napi_key = \"{KEY}\"\n\
         [calendar]\nservice = \"google\"\n\
         [calendar.google]\nclient_id = \"id\"\nclient_secret = \"{KEY}\"\nrefresh_token = \"{KEY}\"\n\
         url = \"http://{address}/calendar/v3\"\ntoken_url = \"http://{address}/token\"\n"
    )
}

#[test]
fn services_behind_built_in_tools_are_tried_where_that_is_free() {
    let vendor = Vendor::with(Fault::None);
    let folder = project("openai-realtime", "openai", &vendor.address);
    let file = folder.path().join("windlass.toml");
    let without = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{without}{}", services(&vendor.address))).unwrap();
    let (code, found) = report(folder.path(), &[]);
    for check in ["images", "search"] {
        assert_eq!(finding(&found, check)["verdict"], "good", "{found}");
    }
    for model in ["gpt-image-1", "gpt-4o-search-preview"] {
        let line = format!("GET /v1/models/{model} HTTP/1.1 | authorization: Bearer {KEY}");
        assert!(vendor.asked().contains(&line), "{:?}", vendor.asked());
    }
    // A token service that gives no token.
    let calendar = finding(&found, "calendar");
    assert_eq!(
        (code, &calendar["verdict"]),
        (1, &json!("wrong")),
        "{found}"
    );
    let cure = calendar["cure"].as_str().unwrap();
    assert!(cure.contains("calendar.google"), "{cure}");

    let paid = "[search]\nservice = \"tavily\"\napi_key = \"sk-other\"\n";
    fs::write(&file, format!("{without}{paid}")).unwrap();
    let (code, found) = report(folder.path(), &[]);
    assert_eq!(code, 0, "{found}");
    assert_eq!(finding(&found, "search")["verdict"], "note", "{found}");

    let keyless = "[images]\nservice = \"gemini\"\n[search]\nservice = \"brave\"\n";
    fs::write(&file, format!("{without}{keyless}")).unwrap();
    let (code, found) = report(folder.path(), &[]);
    assert_eq!(code, 1, "{found}");
    for check in ["images", "search"] {
        let cure = finding(&found, check)["cure"].as_str().unwrap();
        assert!(cure.starts_with(&format!("set {check}.api_key")), "{cure}");
    }
}
