//! A server with tools that act for their users, the shop at which users have accounts, and what users and their browsers do.

use super::authorization_server::{self, AuthorizationServer, definition};
use crate::access::{key, with};
use crate::chat::chunks;
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command};
use crate::support::root;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use windlass_compile::handler_file::DefinitionHash;

/// Two tools that show a user's orders, a request and a script, and the shop that has them.
pub(super) struct Scene {
    pub(super) folder: tempfile::TempDir,
    pub(super) shop: AuthorizationServer,
    pub(super) model: ModelServer,
    pub(super) ada: String,
    pub(super) bob: String,
    pub(super) server: Running,
    pub(super) address: String,
}

fn write_tool(folder: &Path, id: &str, file: &str, handler: &str) {
    let directory = folder.join("tools").join(id.replace('_', "-"));
    fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": id, "version": "1.0.0", "description": "Shows the user's orders.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["text", "voice"], "latencyBudgetMs": 3_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(
        directory.join("guide.md"),
        "# Orders\n\nShows the user's orders.\n",
    )
    .unwrap();
    fs::write(directory.join(file), handler).unwrap();
}

/// The same as the script, in programs over our adapters.
fn write_programs(folder: &Path, orders: &str) {
    let node = format!(
        "export async function execute({{ context }}) {{
  const token = await context.connection('shop');
  console.log(`the token is ${{token}}`);
  const answer = await fetch('{orders}', {{ headers: {{ Authorization: `Bearer ${{token}}` }} }});
  return {{ ok: true, data: await answer.json() }};
}}\n"
    );
    let python = format!(
        "import json, urllib.request

def execute(args, context):
    token = context.connection('shop')
    print(f'the token is {{token}}', flush=True)
    asked = urllib.request.Request('{orders}', headers={{'Authorization': f'Bearer {{token}}'}})
    return {{'ok': True, 'data': json.load(urllib.request.urlopen(asked))}}\n"
    );
    for (id, command, file, text) in [
        ("node_orders", ["node", "windlass.mjs"], "handler.mjs", node),
        (
            "python_orders",
            ["python3", "windlass.py"],
            "handler.py",
            python,
        ),
    ] {
        let handler = json!({"kind": "process", "command": command});
        write_tool(folder, id, "handler.json", &handler.to_string());
        let directory = folder.join("tools").join(id.replace('_', "-"));
        fs::write(directory.join(file), text).unwrap();
        let adapter = root().join("crates/app/src/adapters").join(command[1]);
        fs::copy(adapter, directory.join(command[1])).unwrap();
    }
}

impl Scene {
    pub(super) fn open() -> Self {
        Self::open_with("answer_seconds = 1", "")
    }

    /// With further keys of the connection, and further tables.
    pub(super) fn open_with(keys: &str, tables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = AuthorizationServer::start();
        let orders = format!("{}/orders", shop.issuer());
        let request = json!({"kind": "http", "method": "GET", "url": orders, "connection": "shop"});
        write_tool(
            folder.path(),
            "orders",
            "handler.json",
            &request.to_string(),
        );
        let script = format!(
            "export const execute = async (context) => {{
  const token = await context.connection('shop');
  console.log(`the token is ${{token}}`);
  const answer = await fetch('{orders}', {{ headers: {{ Authorization: `Bearer ${{token}}` }} }});
  return {{ ok: true, data: await answer.json() }};
}};\n"
        );
        write_tool(folder.path(), "script_orders", "handler.js", &script);
        write_programs(folder.path(), &orders);
        let pinned = DefinitionHash::of(definition().as_object().unwrap());
        let tool = json!({
            "kind": "mcp", "server": "desk", "tool": "orders", "definition": pinned.as_str(), "reviewed": true,
        });
        write_tool(
            folder.path(),
            "mcp_orders",
            "handler.json",
            &tool.to_string(),
        );
        let model = ModelServer::start(|message| {
            let said = message["content"].to_string();
            match message["role"].as_str() {
                Some("user") if said.contains("script") => Says::Calls("script_orders", json!({})),
                Some("user") if said.contains("python") => Says::Calls("python_orders", json!({})),
                Some("user") if said.contains("node") => Says::Calls("node_orders", json!({})),
                Some("user") if said.contains("protocol") => Says::Calls("mcp_orders", json!({})),
                Some("user") => Says::Calls("orders", json!({})),
                _ => Says::Words("Well."),
            }
        });
        let (issuer, port) = (shop.issuer(), shop.port);
        let file = format!(
            "[connections.shop]\ntitle = \"Example Shop\"\nissuer = \"{issuer}\"\nclient_id = \"windlass\"\n\
             client_secret = \"open/sesame\"\nscopes = [\"orders\"]\nresource = \"{issuer}\"\nhosts = [\"127.0.0.1:{port}\"]\n\
             {keys}\n{tables}\n[handlers]\nprocesses = true\n[tools.script_orders]\nconnections = [\"shop\"]\n\
             [tools.node_orders]\nconnections = [\"shop\"]\n[tools.python_orders]\nconnections = [\"shop\"]\n\
             [mcp.desk]\nurl = \"{issuer}/mcp\"\nconnection = \"shop\"\n"
        );
        fs::write(folder.path().join("windlass.toml"), file).unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let [ada, bob] = ["ada", "bob"].map(|user| key(&data, &[user, "--user", user]));
        let mut server = command(folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--data", "data", "--text-provider-url", &model.url])
            .args(["--allow-fetch", &format!("127.0.0.1:{port}")]);
        let mut server = Running::start(&mut server);
        let address = server.address();
        Self {
            folder,
            shop,
            model,
            ada,
            bob,
            server,
            address,
        }
    }

    pub(super) fn get(&self, shown: &str, path: &str) -> HttpAnswer {
        request(&self.address, "GET", path, &with(shown))
    }

    /// What comes of a call of a tool: the answer's chunks.
    pub(super) fn call(&self, shown: &str, conversation: &str, text: &str) -> Vec<Value> {
        call(&self.address, shown, conversation, text)
    }

    pub(super) fn output(&self, shown: &str, conversation: &str, text: &str) -> Value {
        output_of(&self.call(shown, conversation, text))
    }

    /// The link that a call ends with where its user has not connected.
    pub(super) fn invitation(&self, shown: &str, conversation: &str, text: &str) -> String {
        let chunks = self.call(shown, conversation, text);
        let of_type = |kind: &str| {
            let found = chunks.iter().find(|chunk| chunk["type"] == kind);
            found.unwrap_or_else(|| panic!("no {kind} in {chunks:?}"))
        };
        let error = of_type("tool-output-error")["errorText"].as_str().unwrap();
        assert!(error.starts_with("AUTH: "), "{error}");
        let invitation = of_type("data-connect");
        assert_eq!(invitation["data"]["title"], "Example Shop");
        assert_eq!(invitation["transient"], true);
        invitation["data"]["url"].as_str().unwrap().to_owned()
    }

    /// Opens a link: where the browser is sent, and the cookie that it takes along.
    pub(super) fn depart(&self, shown: &str, link: &str) -> (String, String) {
        let answer = self.get(shown, link);
        assert_eq!(answer.status, 303, "{}", answer.body);
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        (answer.header("location").unwrap().to_owned(), cookie)
    }

    pub(super) fn arrive(&self, returned: &BTreeMap<String, String>, cookie: &str) -> HttpAnswer {
        let query: Vec<String> = returned
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.arrive_at("shop", &query.join("&"), cookie)
    }

    pub(super) fn arrive_at(&self, connection: &str, query: &str, cookie: &str) -> HttpAnswer {
        let path = format!("/connections/callback/{connection}?{query}");
        request(&self.address, "GET", &path, &[("Cookie", cookie)])
    }

    pub(super) fn connect(&self, shown: &str, user: &str) {
        let link = self.invitation(shown, &format!("connects-{user}"), "orders");
        let (page, cookie) = self.depart(shown, &link);
        let answer = self.arrive(&self.shop.agree(&page, user), &cookie);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(
            answer.body.starts_with("Example Shop is connected"),
            "{}",
            answer.body
        );
    }

    pub(super) fn listed(&self, shown: &str) -> Value {
        let answer = self.get(shown, "/api/connections");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let listed: Value = serde_json::from_str(&answer.body).unwrap();
        listed["connections"][0].clone()
    }

    /// Waits until the shop has seen something.
    pub(super) fn wait_for_shop(&self, is_there: impl Fn(&authorization_server::State) -> bool) {
        while !is_there(&self.shop.state()) {
            thread::yield_now();
        }
    }
}

pub(super) fn call(address: &str, shown: &str, conversation: &str, text: &str) -> Vec<Value> {
    let body = json!({"id": conversation, "message": text}).to_string();
    let answer = post_with(address, "/api/chat", &with(shown), body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    chunks(&answer)
}

pub(super) fn output_of(chunks: &[Value]) -> Value {
    let mut chunks_of_output = chunks
        .iter()
        .filter(|chunk| chunk["type"] == "tool-output-available");
    let output = chunks_of_output.next();
    output.unwrap_or_else(|| panic!("{chunks:?}"))["output"].clone()
}
