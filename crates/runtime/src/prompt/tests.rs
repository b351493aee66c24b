//! The prompt's rules, over registries whose tools are made for them.

use super::*;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Behavior, OnInterrupt, Reach, Scheduling, SideEffects};
use windlass_contract::registry::Declarations;
use windlass_contract::validate::Validator;

struct Silent;

impl Handler for Silent {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

fn tool(id: &str, category: Category, modes: &[Mode], documentation: &str) -> Tool {
    let raw = || serde_json::value::to_raw_value(&serde_json::json!({"name": id})).unwrap();
    Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        code_hash: "1".into(),
        description: "d".to_owned(),
        category,
        side_effects: SideEffects::None,
        idempotent: true,
        requires_confirmation: false,
        consent_condition: None,
        remember: None,
        allowed_modes: modes.to_vec(),
        latency_budget_ms: 100,
        timeout_ms: 1_000,
        behavior: Behavior::Blocking,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        permissions: windlass_contract::rights::Permissions::default(),
        availability: None,
        effect_key: Arc::default(),
        repeatable: false,
        sensitive: Vec::new(),
        state: std::collections::BTreeMap::new(),
        status: None,
        parameters: Validator::compile(&serde_json::json!({"type": "object"})).unwrap(),
        response: None,
        declarations: Declarations {
            openai: raw(),
            openai_realtime: raw(),
            gemini_native: raw(),
            gemini_json: raw(),
        },
        summary: format!("what {id} does"),
        documentation: documentation.to_owned(),
        handler: Arc::new(Silent),
    }
}

fn registry(tools: Vec<Tool>) -> Registry {
    Registry::new("1.0.00000000", None, tools)
}

const BOTH: [Mode; 2] = [Mode::Text, Mode::Voice];

fn prompt(registry: &Registry, mode: Mode, guides_tokens_max: u64) -> String {
    let texts = Texts {
        core: "CORE\n".to_owned(),
        voice: "VOICE\n".to_owned(),
        text: "TEXT\n".to_owned(),
    };
    let request = Request {
        texts: &texts,
        mode,
        registry,
        guides_tokens_max,
        retrieval_calls_max: 2,
        calls: CallSupport::Both,
    };
    Prompt::new(&request).at(&Now {
        date: "Friday, 20 November 2026",
        time: "18:25",
        zone: "Europe/Oslo, UTC+01:00",
    })
}

#[test]
fn the_parts_come_in_the_contracts_order() {
    let registry = registry(vec![tool(
        "find",
        Category::Retrieval,
        &BOTH,
        "# Find\n\nFinds.\n\n## Examples\n\n```sh\n# no heading\n```\n",
    )]);
    let text = prompt(&registry, Mode::Voice, 4_000);
    let parts = [
        "CORE\n\nVOICE\n\n# Today\n\nIt is Friday, 20 November 2026, 18:25 (Europe/Oslo, UTC+01:00).\n\n",
        "# Available Tools (v1.0.00000000)\n\n## find\n\nFinds.\n\n### Examples\n\n```sh\n# no heading\n```\n\n",
        "# How you work\n\n",
    ];
    assert!(text.starts_with(&parts.concat()), "{text}");
    assert!(text.contains("A turn has 2 look-ups"), "{text}");
    assert!(prompt(&registry, Mode::Text, 4_000).starts_with("CORE\n\nTEXT\n"));
}

#[test]
fn a_further_tool_changes_the_tools_part_alone() {
    let around = |tools: Vec<Tool>| {
        let text = prompt(&registry(tools), Mode::Text, 4_000);
        let (before, rest) = text.split_once("# Available Tools").unwrap();
        let (tools, after) = rest.split_once("# How you work").unwrap();
        (before.to_owned(), tools.to_owned(), after.to_owned())
    };
    let find = || tool("find", Category::Retrieval, &BOTH, "Finds.");
    let act = tool("act", Category::Action, &BOTH, "Acts.");
    let (before, tools, after) = around(vec![find()]);
    let (before_two, two, after_two) = around(vec![find(), act]);
    assert_eq!((before, after), (before_two, after_two));
    assert!(!tools.contains("## act") && two.contains("## act"), "{two}");
}

#[test]
fn guides_are_full_as_long_as_they_fit_and_retrieval_tools_come_first() {
    let registry = registry(vec![
        tool("act", Category::Action, &BOTH, &"a".repeat(40)),
        tool("find", Category::Retrieval, &BOTH, &"f".repeat(41)),
        tool("odd", Category::Utility, &BOTH, &"o".repeat(8)),
    ]);
    for (budget, full, summarised) in [
        (23, vec!["act", "find", "odd"], vec![]),
        (22, vec!["act", "find"], vec!["odd"]),
        (20, vec!["find", "odd"], vec!["act"]),
        (11, vec!["find"], vec!["act", "odd"]),
        (10, vec!["act"], vec!["find", "odd"]),
        (0, vec![], vec!["act", "find", "odd"]),
    ] {
        let text = prompt(&registry, Mode::Voice, budget);
        for id in full {
            assert!(
                text.contains(&format!("## {id}\n")),
                "{budget}: {id} in\n{text}"
            );
        }
        for id in &summarised {
            let line = format!("- `{id}`: what {id} does\n");
            assert!(text.contains(&line), "{budget}: {id} in\n{text}");
        }
        assert_eq!(text.contains("describe_tool"), !summarised.is_empty());
        assert_eq!(
            guides_fit(&registry, Mode::Voice, budget),
            summarised.is_empty()
        );
    }
}

#[test]
fn only_tools_that_the_mode_allows_are_declared_and_documented() {
    let registry = registry(vec![
        tool(
            "leave",
            Category::Action,
            &[Mode::Voice],
            "# Leave\n\nLeaves.\n",
        ),
        tool(
            "write",
            Category::Action,
            &[Mode::Text],
            "# Write\n\nWrites.\n",
        ),
    ]);
    let (voice, text) = (
        prompt(&registry, Mode::Voice, 100),
        prompt(&registry, Mode::Text, 100),
    );
    assert!(voice.contains("## leave") && !voice.contains("write"));
    assert!(text.contains("## write") && !text.contains("leave"));
    for (mode, id) in [(Mode::Voice, "leave"), (Mode::Text, "write")] {
        let declared = registry.declared(mode).map(|tool| tool.id.as_str());
        assert_eq!(declared.collect::<Vec<_>>(), [id]);
    }
    // Without a retrieval tool there is nothing to look up with.
    assert!(!voice.contains("# How you work"));
}

#[test]
fn the_model_is_told_which_results_come_later() {
    let later = |is_later| match is_later {
        true => Behavior::NonBlocking,
        false => Behavior::Blocking,
    };
    let tools = || {
        let tool = |id, is_later| Tool {
            behavior: later(is_later),
            ..tool(id, Category::Action, &BOTH, "Does it.")
        };
        vec![tool("draw", true), tool("ask", false)]
    };
    let texts = Texts::built_in();
    for (calls, told) in [
        (CallSupport::BlockingOnly, None),
        (CallSupport::Both, Some("goes on: `draw`. Until")),
        (
            CallSupport::NonBlockingOnly,
            Some("goes on: `ask`, `draw`. Until"),
        ),
    ] {
        let registry = registry(tools());
        let text = tools_part(&Request {
            texts: &texts,
            mode: Mode::Voice,
            registry: &registry,
            guides_tokens_max: 100,
            retrieval_calls_max: 2,
            calls,
        });
        let said = text
            .find("## Results that come later")
            .map(|at| &text[at..]);
        assert_eq!(said.is_some(), told.is_some(), "{calls:?}: {text}");
        assert!(
            told.is_none_or(|told| text.contains(told)),
            "{calls:?}: {text}"
        );
    }
}

#[test]
fn a_conversation_without_tools_says_so() {
    let text = prompt(&registry(Vec::new()), Mode::Voice, 100);
    assert!(
        text.ends_with(
            "# Available Tools (v1.0.00000000)\n\nThere are none in this conversation.\n"
        )
    );
}

#[test]
fn an_estimate_counts_instruction_and_declarations() {
    let estimate = estimate(&"s".repeat(40), &"d".repeat(5));
    let counted = (estimate.system_prompt_tokens, estimate.tool_decl_tokens);
    assert_eq!((counted, estimate.session_init_tokens()), ((10, 2), 12));
}

#[test]
fn a_text_that_the_folder_lacks_is_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("missing");
    let all = vec!["core.md", "voice.md", "text.md"];
    assert_eq!(
        Texts::load(&nowhere).unwrap(),
        (Texts::built_in(), all.clone())
    );
    // A single text is the core. With two texts, neither is.
    std::fs::write(folder.path().join("system.txt"), "one").unwrap();
    let (texts, missing) = Texts::load(folder.path()).unwrap();
    assert_eq!(
        (texts.core.as_str(), missing),
        ("one", vec!["voice.md", "text.md"])
    );
    std::fs::write(folder.path().join("other.md"), "two").unwrap();
    assert_eq!(
        Texts::load(folder.path()).unwrap(),
        (Texts::built_in(), all)
    );
    for name in ["core", "voice"] {
        std::fs::write(folder.path().join(format!("{name}.md")), name).unwrap();
    }
    let (texts, missing) = Texts::load(folder.path()).unwrap();
    assert_eq!(
        (texts.core.as_str(), texts.voice.as_str()),
        ("core", "voice")
    );
    assert_eq!(
        (texts.text, missing),
        (Texts::built_in().text, vec!["text.md"])
    );
    std::fs::write(folder.path().join("text.md"), [0xff]).unwrap();
    let error = Texts::load(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("no UTF-8 text"), "{error}");
    std::fs::remove_file(folder.path().join("text.md")).unwrap();
    std::fs::create_dir(folder.path().join("text.md")).unwrap();
    let error = Texts::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("text.md cannot be read"), "{error}");
}

#[test]
fn the_built_in_texts_are_of_nobody_and_a_projects_own_have_its_name() {
    let built_in = Texts::built_in();
    let named = Texts::of_project("the Sea Hotel");
    assert!(
        named
            .core
            .starts_with("You are the assistant of the Sea Hotel. ")
    );
    for texts in [&built_in, &named] {
        for text in [&texts.core, &texts.voice, &texts.text] {
            assert!(!text.contains("Fram") && !text.contains("polar"), "{text}");
        }
    }
    let rest = |core: &str| core.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(rest(&built_in.core), rest(&named.core));
}
