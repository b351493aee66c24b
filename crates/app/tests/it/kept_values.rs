//! What handlers keep for a conversation, in the program: a script sets it, other handlers read it, and it outlives the server.

use crate::support::http::post;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const BASKET: &str = "export const responseSchemaVersion = '1.0.0';
    export async function execute({ args, context }) {
        const values = context.getState();
        const { basket = [] } = values;
        const isFrozen = [context.session.state, values, values.basket].every((value) => Object.isFrozen(value));
        if (args.item === undefined) return { ok: true, data: { basket, isFrozen } };
        const value = [...basket, args.item];
        return { ok: true, data: { basket, isFrozen }, intents: [{ type: 'SET_STATE', key: args.key ?? 'basket', value }] };
    }";

/// A program of the author's own that says whether tea alone is in the basket.
const PEEK: &str = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%,*}
    case $line in *'"values":{"basket":["tea"]}'*) seen=true;; *) seen=false;; esac
    printf '{"id":%s,"result":{"ok":true,"data":{"seen":%s}}}\n' $id $seen; done"#;

fn tool(folder: &Path, name: &str, properties: &Value, handler: (&str, String)) {
    let directory = folder.join("tools").join(name);
    fs::create_dir_all(&directory).unwrap();
    let mut schema = json!({
        "description": "Keeps what is to be bought.", "sideEffects": "none",
        "parameters": {"type": "object", "additionalProperties": false, "properties": properties},
    });
    if name == "basket" {
        schema["state"] = json!({
            "basket": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 10}},
        });
    }
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(directory.join("guide.md"), "# Basket\n\nKeeps a list.\n").unwrap();
    fs::write(directory.join(handler.0), handler.1).unwrap();
}

/// A server whose model makes the call that the user writes down.
struct Shop {
    folder: tempfile::TempDir,
    model: ModelServer,
    server: Option<Running>,
    address: String,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let item = json!({"item": {"type": "string"}, "key": {"type": "string"}});
        tool(
            folder.path(),
            "basket",
            &item,
            ("handler.js", BASKET.to_owned()),
        );
        let peek = json!({"kind": "process", "command": ["sh", "-c", PEEK]});
        tool(
            folder.path(),
            "peek",
            &json!({}),
            ("handler.json", peek.to_string()),
        );
        fs::write(
            folder.path().join("windlass.toml"),
            "[handlers]\nprocesses = true\n",
        )
        .unwrap();
        let model = ModelServer::start(|message| match message["role"].as_str() {
            Some("user") => {
                let text = message["content"].as_str().unwrap_or_default();
                let (tool, arguments) = text.split_once(' ').unwrap();
                Says::CallsNamed(tool.to_owned(), serde_json::from_str(arguments).unwrap())
            }
            _ => Says::Words("Well."),
        });
        let mut shop = Self {
            folder,
            model,
            server: None,
            address: String::new(),
        };
        shop.serve();
        shop
    }

    /// The server ends, and another takes its place.
    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal("-TERM");
            server.end();
        }
        self.serve();
    }

    fn serve(&mut self) {
        let mut server = command(self.folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--data", "data", "--text-provider-url", &self.model.url]);
        let server = self.server.insert(Running::start(&mut server));
        self.address = server.address();
    }

    /// What the call has brought that the user asks for.
    fn call(&self, message: &str) -> Value {
        let body = json!({"id": "talk", "message": message}).to_string();
        let answer = post(&self.address, "/api/chat", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        let seen = self.model.seen();
        let reads = seen.last().unwrap()["messages"].as_array().unwrap().clone();
        let result = reads.iter().rev().find(|read| read["role"] == "tool");
        let result: Value =
            serde_json::from_str(result.unwrap()["content"].as_str().unwrap()).unwrap();
        result["data"].clone()
    }
}

#[test]
fn a_script_keeps_a_value_that_other_handlers_read_and_a_restart_leaves() {
    let mut shop = Shop::open();
    let basket = |items: Value| json!({"basket": items, "isFrozen": true});
    assert_eq!(shop.call("basket {}"), basket(json!([])));
    assert_eq!(shop.call("peek {}"), json!({"seen": false}));
    shop.call(r#"basket {"item": "tea"}"#);
    assert_eq!(shop.call("peek {}"), json!({"seen": true}));
    shop.restart();
    assert_eq!(shop.call("peek {}"), json!({"seen": true}));
    assert_eq!(shop.call("basket {}"), basket(json!(["tea"])));
}

#[test]
fn what_the_schema_refuses_stays_out_and_the_call_worked() {
    let shop = Shop::open();
    shop.call(r#"basket {"item": "tea"}"#);
    for bad in [
        r#"basket {"item": "a name that is too long"}"#,
        r#"basket {"item": "salt", "key": "cellar"}"#,
    ] {
        assert_eq!(shop.call(bad)["basket"], json!(["tea"]), "{bad}");
    }
    assert_eq!(shop.call("basket {}")["basket"], json!(["tea"]));
}

#[test]
fn what_is_rejected_is_read_by_the_tools_author_without_the_value() {
    let shop = Shop::open();
    shop.call(r#"basket {"item": "a name that is too long"}"#);
    let server = shop.server.as_ref().unwrap();
    let lines = server.log_until("an intent of a tool was rejected");
    let line = lines.last().unwrap();
    let named = [
        "ERROR",
        "basket",
        "SET_STATE of basket/0: it must be at most 10 characters long",
    ];
    assert!(named.iter().all(|part| line.contains(part)), "{line}");
    assert!(!line.contains("too long"), "{line}");
    let called = run(command(shop.folder.path()).args([
        "call",
        "basket",
        r#"{"item": "salt", "key": "cellar"}"#,
        "--tools",
        "tools",
    ]));
    let problems = called.problems.join("\n");
    let rejected = "an intent was rejected: SET_STATE of \"cellar\", which no tool declares";
    assert!(
        called.code == 0 && problems.contains(rejected),
        "{problems}"
    );
}

#[test]
fn a_check_says_which_answers_a_script_gives() {
    let shop = Shop::open();
    let checked = run(command(shop.folder.path()).args(["check", "-v", "--tools", "tools"]));
    let said = format!("{}{}", checked.output, checked.problems.join("\n"));
    assert!(
        said.contains(r#"the handler speaks response version "1.0.0""#),
        "{said}"
    );
    let script = shop.folder.path().join("tools/basket/handler.js");
    fs::write(&script, BASKET.replace("1.0.0", "7.0.0")).unwrap();
    let checked = run(command(shop.folder.path()).args(["check", "--tools", "tools"]));
    let said = format!("{}{}", checked.output, checked.problems.join("\n"));
    assert_eq!(checked.code, 1, "{said}");
    assert!(
        said.contains(r#"the handler speaks response version "7.0.0""#),
        "{said}"
    );
}
