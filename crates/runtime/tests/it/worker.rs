//! Workers as handlers: what a child process may do wrong costs its own calls one clean answer each, and nothing else. The
//! children here are shell scripts, so that nothing but a shell is needed.

use crate::support::{NOW_UNIX_MS, StillCapabilities};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::{
    Caller, Cancellation, Cause, Context, Execution, Handler, HandlerMessage, HandlerResult,
    Invocation, Numbers, Outbox, OutboxClosed, SessionContext, SessionFacts, ToolFacts,
};
use windlass_contract::id::{
    CallNumber, CallRef, ClientId, ConversationId, EffectId, SessionId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_runtime::worker::{
    Grants, ServedTool, USUAL_VARIABLES, Worker, WorkerLimits, WorkerOptions, WorkerProgram,
    WorkerRequest,
};

/// Reads a request's id from its line; `answer ID TEXT` succeeds with that text.
const SHELL: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":{"ok":true,"data":"%s"}}\n' "$1" "$2"; }
id_of() { id=${1#*\"id\":}; id=${id%%,*}; id=${id%%\}*}; }
"#;

/// Answers every call with its process's id.
const SOUND: &str = "while read -r line; do id_of \"$line\"; answer $id $$; done";

fn worker(script: &str, limits: WorkerLimits) -> Arc<Worker> {
    worker_of(program("sh", script), limits, Vec::new())
}

fn program(program: &str, script: &str) -> WorkerProgram {
    WorkerProgram {
        program: program.into(),
        arguments: vec!["-c".into(), OsString::from(format!("{SHELL}{script}"))],
        folder: None,
        files: Vec::new(),
        variables: Vec::new(),
    }
}

fn worker_of(
    program: WorkerProgram,
    limits: WorkerLimits,
    first_requests: Vec<WorkerRequest>,
) -> Arc<Worker> {
    Worker::new(WorkerOptions {
        name: "shell".into(),
        program,
        limits,
        first_requests: Box::new(move || first_requests.clone()),
        secrets: vec!["hidden-key".to_owned().into()],
        granted: granted(),
        connections: std::collections::BTreeMap::new(),
    })
}

/// The tool of every call may have one secret, and another tool another one.
fn granted() -> Grants {
    let of = |tool: &str, name: &str, value: &str| {
        let secret = (name.to_owned(), value.to_owned().into());
        (ToolId::parse(tool).unwrap(), [secret].into())
    };
    [
        of("order", "SHOP_KEY", "granted-value"),
        of("other", "OTHER_KEY", "other-value"),
    ]
    .into()
}

fn limits() -> WorkerLimits {
    WorkerLimits {
        stuck_after: Duration::from_millis(100),
        pause_min: Duration::from_millis(1),
        ..WorkerLimits::default()
    }
}

#[derive(Default)]
struct Said(Mutex<Vec<HandlerMessage>>);

impl Outbox for Said {
    fn send(&self, _: CallRef, message: HandlerMessage) -> Result<(), OutboxClosed> {
        self.0.lock().unwrap().push(message);
        Ok(())
    }

    fn is_open(&self) -> bool {
        true
    }
}

fn invocation(arguments: Value, time_ms: u64, outbox: Arc<Said>) -> Invocation {
    let of_session = SessionContext {
        caller: Caller {
            client_id: ClientId::new("client"),
            session_id: SessionId::new("s-1"),
            user_id: UserId::new("ada"),
            conversation_id: ConversationId::new("c-1"),
            rights: windlass_contract::rights::Rights::Anonymous,
        },
        mode: Mode::Text,
        registry_version: "1.0.00000000".into(),
        capabilities: Arc::new(StillCapabilities),
        outbox,
    };
    let arguments: Arguments = serde_json::from_value(arguments).unwrap();
    Invocation {
        arguments: Arc::new(arguments),
        context: Context {
            of_session: Arc::new(of_session),
            call: CallRef {
                call: CallNumber(1),
                attempt: 1,
            },
            turn: 1,
            tool: ToolFacts {
                id: ToolId::parse("order").unwrap(),
                version: "1.0.0".into(),
                idempotent: false,
                writes: true,
            },
            session: SessionFacts {
                is_active: true,
                is_model_generating: true,
                pending_end_voice_session: false,
                values: windlass_contract::handler::StateValues::default(),
                input: windlass_contract::input::InputFacts::default(),
            },
            effect_id: Some(EffectId::new("e-1")),
            writes: windlass_contract::handler::RunWrites::default(),
            deadline_unix_ms: NOW_UNIX_MS + time_ms,
            cancellation: Cancellation::default(),
        },
    }
}

fn handler(worker: &Arc<Worker>) -> Arc<dyn Handler> {
    worker.handler(ServedTool::new(
        ToolId::parse("order").unwrap(),
        Numbers::Exact,
    ))
}

async fn run(handler: &Arc<dyn Handler>, invocation: Invocation) -> HandlerResult {
    match handler.execute(invocation) {
        Execution::Ready(result) => result,
        Execution::Pending(future) => future.await,
    }
}

/// One call with time enough.
async fn call(worker: &Arc<Worker>) -> String {
    call_within(worker, 10_000).await
}

async fn call_within(worker: &Arc<Worker>, time_ms: u64) -> String {
    let given = invocation(json!({"text": "tea"}), time_ms, Arc::default());
    shown(run(&handler(worker), given).await)
}

/// A result in words: its data and what it lacks, that it broke, or its type of error and whether something may have been done.
fn shown(result: HandlerResult) -> String {
    match result {
        Ok(success) => {
            let mut shown = match success.data.as_deref() {
                Some(Value::String(text)) => text.clone(),
                other => format!("{other:?}"),
            };
            if let Some(loss) = success.loss {
                shown = format!("{shown}; {}", loss.words);
            }
            shown
        }
        Err(failure) => match failure.cause {
            Cause::Broken(problem) => format!("broken: {problem}"),
            Cause::Reported(report) => format!(
                "{:?} (partial: {:?}): {}",
                report.kind, report.partial_side_effects, report.message
            ),
        },
    }
}

#[tokio::test]
async fn one_process_serves_one_call_after_another() {
    let worker = worker(SOUND, limits());
    let first = call(&worker).await;
    assert!(first.parse::<u32>().is_ok(), "{first}");
    for _ in 0..5 {
        assert_eq!(call(&worker).await, first);
    }
}

#[tokio::test]
async fn a_call_carries_its_tool_arguments_and_context() {
    let script = r#"while read -r line; do id_of "$line"
        printf '{"jsonrpc":"2.0","id":%s,"result":{"ok":true,"data":%s}}\n' "$id" "$line"; done"#;
    let worker = worker(script, limits());
    let given = invocation(json!({"text": "tea"}), 10_000, Arc::default());
    let data = run(&handler(&worker), given).await.unwrap().data.unwrap();
    assert_eq!(
        *data,
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "execute", "params": {
                "tool": "order",
                "args": {"text": "tea"},
                "context": {
                    "clientId": "client", "sessionId": "s-1", "userId": "ada", "conversationId": "c-1",
                    "mode": "text", "turn": 1,
                    "tool": {"id": "order", "version": "1.0.0", "idempotent": false},
                    "session": {
                        "isActive": true, "toolsVersion": "1.0.00000000",
                        "state": {"isActive": true, "mode": "text", "isModelGenerating": true, "pendingEndVoiceSession": false}
                    },
                    "capabilities": {"voice": false, "messaging": true},
                    "voice": {"isActive": false},
                    "effectId": "e-1",
                    "idempotencyKey": windlass_contract::handler::downstream_key(&EffectId::new("e-1")),
                    "deadline": NOW_UNIX_MS + 10_000,
                    "time": {"zone": null, "now": rfc3339(NOW_UNIX_MS)}
                }
            }
        })
    );
}

#[tokio::test]
async fn what_a_tool_says_of_its_own_fault_is_kept_without_what_the_call_was_given() {
    let words = "lib/main.py:7: no Earl Grey for hidden-key and granted-value";
    let kept = "lib/main.py:7: no (left out) for (left out) and (left out)";
    for (answer, expected) in [
        (
            format!(r#""error":{{"code":-32000,"message":"{words}"}}"#),
            format!("broken: {kept}"),
        ),
        (
            format!(r#""result":{{"ok":false,"error":{{"type":"INTERNAL","message":"{words}"}}}}"#),
            format!("broken: the handler reports INTERNAL: {kept}"),
        ),
    ] {
        let script = format!(
            "while read -r line; do id_of \"$line\"; printf '{{\"id\":%s,{answer}}}\\n' \"$id\"; done"
        );
        let given = invocation(
            json!({"text": "Earl Grey", "n": "main"}),
            10_000,
            Arc::default(),
        );
        let result = run(&handler(&worker(&script, limits())), given).await;
        assert_eq!(shown(result), expected);
    }
}

#[tokio::test]
async fn a_tool_has_the_secrets_that_it_was_granted_and_no_others() {
    let script = r#"read -r line; id_of "$line"; call=$id
        for name in SHOP_KEY OTHER_KEY; do
            printf '{"jsonrpc":"2.0","id":"w","method":"secret","params":{"call":%s,"name":"%s"}}\n' "$call" "$name"
            read -r line; said="$said$line"
        done
        said=$(printf '%s' "$said" | tr -d '"\\')
        answer $call "$said""#;
    let said = call(&worker(script, limits())).await;
    assert!(said.contains("result:granted-value"), "{said}");
    assert!(
        said.contains("granted no secret") && said.contains("code:NOT_ALLOWED"),
        "{said}"
    );
    assert!(!said.contains("other-value"), "{said}");
}

/// What the first call reads of a process that is bad, where the next call is served by another one.
async fn once_bad(bad: &str, time_ms: u64) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let script = format!(
        "if mkdir '{}' 2>/dev/null; then {bad}\nelse {SOUND}; fi",
        mark.display()
    );
    let worker = worker(&script, limits());
    let first = call_within(&worker, time_ms).await;
    let second = call(&worker).await;
    assert!(second.parse::<u32>().is_ok(), "{bad}: {second}");
    first
}

#[tokio::test]
async fn a_process_that_ends_without_having_read_costs_one_answer_at_most() {
    // Where it ends before it is given the call, the next process serves it.
    let first = once_bad("exit 3", 10_000).await;
    let is_told = first.contains("broken: the worker ended (exit status: 3)");
    assert!(is_told || first.parse::<u32>().is_ok(), "{first}");
}

#[tokio::test]
async fn a_bad_process_costs_its_own_call_one_answer_and_is_replaced() {
    for (bad, time_ms, expected) in [
        (
            "read -r line; exit 4",
            10_000,
            "broken: the worker ended (exit status: 4)",
        ),
        (
            "read -r line; kill -9 $$",
            10_000,
            "broken: the worker ended (signal: 9",
        ),
        (
            "read -r line; exec 1>&-; sleep 60",
            10_000,
            "broken: the worker closed its output",
        ),
        (
            "cat >/dev/null",
            50,
            "broken: the worker did not answer in time",
        ),
        (
            "read -r line; sleep 60",
            50,
            "broken: the worker did not answer in time",
        ),
        (
            "read -r line; head -c 52428800 /dev/zero; sleep 60",
            10_000,
            "broken: the worker wrote more than 33554432 bytes without an end of line",
        ),
    ] {
        let first = once_bad(bad, time_ms).await;
        assert!(first.contains(expected), "{bad}: {first}");
    }
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_of_no_account() {
    for script in [
        // Twice.
        "while read -r line; do id_of \"$line\"; answer $id 1; answer $id 2; done",
        // For another id, before its own.
        "while read -r line; do id_of \"$line\"; answer 77 other; answer '\"x\"' other; answer $id 1; done",
    ] {
        let worker = worker(script, limits());
        for _ in 0..3 {
            assert_eq!(call(&worker).await, "1", "{script}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_response_breaks_its_call_alone() {
    let script = r#"while read -r line; do id_of "$line"; n=$((n + 1)); case $n in
        1) printf '{"id":%s,"result":{"fine":true}}\n' $id;;
        2) printf '{"id":%s,"error":{"code":-1,"message":"secret of ada"}}\n' $id;;
        3) printf '{"id":%s,"result":{"ok":false,"error":{"type":"CONFLICT","message":"taken"}}}\n' $id;;
        *) answer $id $n;; esac; done"#;
    let worker = worker(script, limits());
    for expected in [
        "broken: the answer has no `ok`; a ToolResponse is { \"ok\": true, \"data\": … } or { \"ok\": false, \"error\": … }",
        "broken: secret of ada",
        "Conflict (partial: None): taken",
        "4",
    ] {
        assert_eq!(call(&worker).await, expected);
    }
}

/// Has a process read two calls, of two conversations, write something, and answer the second. What both come to.
async fn two_calls(writes: &str) -> [String; 2] {
    let script = format!(
        "read -r line; id_of \"$line\"; one=$id; read -r line; id_of \"$line\"; two=$id
        {writes}
        answer $two fine; cat > /dev/null"
    );
    let worker = worker(&script, limits());
    let (first, second) = tokio::join!(call_within(&worker, 500), call(&worker));
    [first, second]
}

#[tokio::test]
async fn a_line_that_is_no_message_costs_the_call_that_it_is_of_and_no_other_one() {
    const LATE: &str = "broken: the worker did not answer in time";
    for (writes, expected) in [
        // Text that is no message at all costs no call anything.
        (
            "echo hello; echo '[1]'; echo '{\"level\":30,\"msg\":\"at work\"}'",
            LATE,
        ),
        ("printf 'no end of line '; answer $one tea", "tea"),
        // A change that has worked stays so, whatever else its line has.
        (
            r#"printf '{"id":%s,"result":{"ok":true,"data":NaN}}\n' $one"#,
            "Some(Null); 1 characters or numbers that JSON cannot hold were replaced",
        ),
        (
            r#"printf '{"id":%s,"result":{"ok":true,"data":"\\ud83d"}}\n' $one"#,
            "\u{fffd}; 1 characters or numbers that JSON cannot hold were replaced",
        ),
        (
            r#"printf '{"id":%s,"result":{"ok":true,"data":"\377"}}\n' $one"#,
            "\u{fffd}; 1 characters or numbers that JSON cannot hold were replaced",
        ),
        (
            r#"printf '{"id":%s,"result":{"ok":true,"data":{,}}}\n' $one"#,
            "None; it worked, and details of its result could not be kept",
        ),
        (
            r#"printf '{"id":%s,"result":{"ok":true,"content":"text"}}\n' $one"#,
            "None; it worked, and details of its result could not be kept",
        ),
        (
            r#"printf '{"id":%s,"result":{"data":"' $one; head -c 9000000 /dev/zero | tr '\0' x; printf '","ok":true}}\n'"#,
            "None; it worked, and details of its result could not be kept",
        ),
        // The outcome of a call that has not said so is unknown.
        (
            r#"printf '{"id":%s,"result":{"ok":,}}\n' $one"#,
            "broken: a line is no JSON",
        ),
        (
            r#"printf '{"id":%s,"error":"text of a user"}\n' $one"#,
            "broken: a line has members that JSON-RPC does not have so",
        ),
        (
            r#"printf '{"id":"w1","method":"kb.get","params":{"call":%s,,}}\n' $one"#,
            "broken: a line is no JSON",
        ),
        // The call of this line cannot be known.
        (r#"printf '{"jsonrpc":"2.0","result":{,}}\n'"#, LATE),
    ] {
        let [first, second] = two_calls(writes).await;
        assert!(first.starts_with(expected), "{writes}: {first}");
        assert_eq!(second, "fine", "{writes}");
    }
    // A call that is alone in its process is the only one that it can be of.
    let alone = worker(
        r#"read -r line; printf '{"jsonrpc":"2.0","result":{,}}\n'; cat > /dev/null"#,
        limits(),
    );
    let first = call(&alone).await;
    assert!(first.starts_with("broken: a line is no JSON"), "{first}");
}

#[tokio::test]
async fn a_program_that_is_missing_fails_each_call_at_once_and_nothing_was_done() {
    let missing = WorkerProgram {
        program: "/nowhere/node".into(),
        ..program("sh", SOUND)
    };
    let worker = worker_of(missing, limits(), Vec::new());
    for _ in 0..2 {
        assert_eq!(
            call(&worker).await,
            "Transient (partial: Some(false)): the tool's program does not run at the moment"
        );
    }
}

#[tokio::test]
async fn a_program_that_ends_at_its_start_is_started_with_growing_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let limits = WorkerLimits {
        pause_min: Duration::from_millis(600),
        ..limits()
    };
    let script = format!("echo x >> '{}'; exit 1", count.display());
    let load = WorkerRequest {
        method: "load".to_owned(),
        params: serde_json::value::RawValue::from_string("{}".to_owned())
            .unwrap()
            .into(),
    };
    let worker = worker_of(program("sh", &script), limits, vec![load]);
    let answer = call(&worker).await;
    assert!(answer.contains("does not run at the moment"), "{answer}");
    assert!(call(&worker).await.contains("does not run at the moment"));
    assert_eq!(std::fs::read_to_string(count).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_process_sees_the_usual_variables_and_those_that_it_is_given() {
    let script = r#"while read -r line; do id_of "$line"; answer $id "$(env | cut -d= -f1 | tr '\n' ' ')"; done"#;
    // Every test program has it.
    const OURS: &str = "CARGO_MANIFEST_DIR";
    for variables in [Vec::new(), vec![OURS.to_owned()]] {
        let program = WorkerProgram {
            variables: variables.clone(),
            ..program("sh", script)
        };
        let seen = call(&worker_of(program, limits(), Vec::new())).await;
        let of_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
        let is_known = |name: &str| USUAL_VARIABLES.contains(&name) || of_shell.contains(&name);
        let others: Vec<&str> = seen.split(' ').filter(|name| !name.is_empty()).collect();
        assert!(others.contains(&"PATH"), "{seen}");
        let others: Vec<&str> = others.into_iter().filter(|name| !is_known(name)).collect();
        assert_eq!(others, variables);
    }
}

#[tokio::test]
async fn what_a_process_has_forked_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let children = folder.path().join("children");
    let script = format!(
        "sleep 600 & sleep 600 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; read -r line; id_of \"$line\"; answer $id 1; read -r line; exit 1",
        children.display()
    );
    let worker = worker(&script, limits());
    assert_eq!(call(&worker).await, "1");
    let pid = std::fs::read_to_string(&children).unwrap();
    let pid = pid_of(pid.trim());
    assert!(is_alive(pid));
    assert!(call(&worker).await.starts_with("broken: the worker ended"));
    until_gone(pid).await;
}

#[tokio::test]
async fn a_worker_that_is_dropped_leaves_no_process() {
    let worker = worker(SOUND, limits());
    let pid = pid_of(&call(&worker).await);
    assert!(is_alive(pid));
    drop(worker);
    until_gone(pid).await;
}

fn pid_of(text: &str) -> u32 {
    text.parse().unwrap()
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// The test's own time limit ends it where that never comes.
async fn until_gone(pid: u32) {
    while is_alive(pid) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stuck_call_drains_its_process_while_others_end_there() {
    // The call that says `stuck` is never answered, one that says `slow` when the test opens the gate, others at once.
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.unwrap().success());
    let script = format!(
        r#"while read -r line; do id_of "$line"; case $line in
            *stuck* | *cancel*) ;;
            *slow*) (id=$id; read -r x < '{}'; answer $id $$) & ;;
            *) answer $id $$;; esac; done"#,
        gate.display()
    );
    let worker = worker(&script, limits());
    let handler = handler(&worker);
    let first = call(&worker).await;
    let start = |text: &str, time_ms| {
        let handler = handler.clone();
        let given = invocation(json!({ "text": text }), time_ms, Arc::default());
        tokio::spawn(async move { shown(run(&handler, given).await) })
    };
    let slow = start("slow", 10_000);
    let stuck = start("stuck", 50);
    assert_eq!(
        stuck.await.unwrap(),
        "broken: the worker did not answer in time"
    );
    let second = call(&worker).await;
    assert_ne!(first, second);
    assert!(is_alive(pid_of(&first)));
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(slow.await.unwrap(), first);
    until_gone(pid_of(&first)).await;
    assert_eq!(call(&worker).await, second);
}

#[tokio::test]
async fn a_cancelled_call_is_told_so_and_may_still_end_in_its_own_way() {
    let script = r#"while read -r line; do case $line in
        *cancel*) answer $id "was told";; *) id_of "$line"; printf '{"method":"progress","params":{"call":%s,"message":"begun"}}\n' $id;; esac; done"#;
    let worker = worker(script, limits());
    let said = Arc::new(Said::default());
    let given = invocation(json!({}), 10_000, said.clone());
    let cancellation = given.context.cancellation.clone();
    let handler = handler(&worker);
    let running = tokio::spawn(async move { shown(run(&handler, given).await) });
    while said.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    cancellation.cancel();
    assert_eq!(running.await.unwrap(), "was told");
}

#[tokio::test]
async fn a_piece_of_a_call_that_nobody_waits_for_is_answered_with_that_reason() {
    let script = r#"while read -r line; do case $line in
        *cancel*) printf '{"id":"w1","method":"output","params":{"call":%s,"data":"late"}}\n' $id; read -r back
            case $back in *"nobody waits for the call any more"*) answer $id "was told";; *) answer $id "was answered otherwise";; esac;;
        *) id_of "$line"; printf '{"method":"progress","params":{"call":%s,"message":"begun"}}\n' $id;; esac; done"#;
    let worker = worker(script, limits());
    let said = Arc::new(Said::default());
    let given = invocation(json!({}), 10_000, said.clone());
    let cancellation = given.context.cancellation.clone();
    let handler = handler(&worker);
    let running = tokio::spawn(async move { shown(run(&handler, given).await) });
    while said.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    cancellation.cancel();
    assert_eq!(running.await.unwrap(), "was told");
    assert_eq!(said.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_asks_for_its_capabilities_and_says_things_on_its_way() {
    let script = r#"
        ask() { printf '{"id":"%s","method":"%s","params":{"call":%s%s}}\n' "$1" "$1" $id "$2"; read -r back; case $back in
            *"$3"*) ;; *) answer $id "asked $1, was answered ${back#*,}"; exit;; esac; }
        read -r line; id_of "$line"
        printf '{"method":"progress","params":{"call":%s,"message":"half","fraction":0.5}}\n' $id
        printf '{"method":"audit.log","params":{"call":%s,"event":"seen","data":{"n":1}}}\n' $id
        printf '{"method":"events.emit","params":{"call":%s,"name":"mine","payload":2}}\n' $id
        printf '{"method":"messaging.send","params":{"call":99,"message":{"type":"lost"}}}\n'
        ask messaging.send ',"message":{"type":"hello"}' '"result":null'
        ask kb.search ',"query":"tea"' '"code":"TIMEOUT"'
        ask kb.get ',"id":"tea"' '"result":null'
        ask kb.get '' '"code":-32602'
        ask blocks.add ',"until":1' '"result":null'
        ask calendar.getEvents '' '"code":-32601'
        call=$id; id=99; ask kb.get ',"id":"x"' 'names no open call'; id=$call
        answer $id fine"#;
    let worker = worker(script, limits());
    let said = Arc::new(Said::default());
    let given = invocation(json!({}), 10_000, said.clone());
    assert_eq!(shown(run(&handler(&worker), given).await), "fine");
    assert_eq!(
        *said.0.lock().unwrap(),
        [
            HandlerMessage::Progress {
                message: "half".to_owned(),
                fraction: Some(0.5)
            },
            HandlerMessage::Audit {
                event: "seen".to_owned(),
                data: json!({"n": 1})
            },
            HandlerMessage::Emit {
                name: "mine".to_owned(),
                payload: json!(2)
            },
            HandlerMessage::Client(json!({"type": "hello"})),
        ]
    );
}

#[tokio::test]
async fn calls_beyond_the_room_wait_and_beyond_the_queue_are_refused() {
    let script = r#"n=0; while read -r line; do id_of "$line"; n=$((n + 1)); ids="$ids $id"
        if [ $n = 2 ]; then for id in $ids; do answer $id done; done; n=0; ids=; fi; done"#;
    let limits = WorkerLimits {
        concurrency: 2,
        waiting_max: 2,
        ..limits()
    };
    let worker = worker(script, limits);
    let handler = handler(&worker);
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let given = invocation(json!({}), 10_000, Arc::default());
            match handler.execute(given) {
                Execution::Pending(future) => future,
                Execution::Ready(_) => panic!("it waits"),
            }
        })
        .collect();
    let results = futures_util::future::join_all(calls).await;
    let mut shown: Vec<String> = results.into_iter().map(shown).collect();
    shown.sort();
    // All are submitted before the process is there.
    assert_eq!(
        shown,
        [
            "Transient (partial: Some(false)): too many calls of this tool wait already",
            "Transient (partial: Some(false)): too many calls of this tool wait already",
            "Transient (partial: Some(false)): too many calls of this tool wait already",
            "done",
            "done",
        ]
    );
}

#[tokio::test]
async fn a_call_that_never_began_is_known_not_to_have_done_anything() {
    let limits = WorkerLimits {
        concurrency: 1,
        ..limits()
    };
    let worker = worker("cat > /dev/null", limits);
    // The first has all the room there is, and does not end.
    tokio::select! {
        biased;
        busy = call_within(&worker, 60_000) => panic!("{busy}"),
        waiting = call_within(&worker, 400) => assert_eq!(
            waiting,
            "Transient (partial: Some(false)): the call's time was over before it began"
        ),
    }
    // A worker may say so as well.
    let refuses = r#"while read -r line; do id_of "$line"; printf '{"id":%s,"error":{"code":-32002,"message":"full"}}\n' $id; done"#;
    let refused = call(&self::worker(refuses, limits)).await;
    assert!(
        refused.starts_with("Transient (partial: Some(false))"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_process_gets_calls_once_it_has_answered_what_comes_first() {
    let load = |tool: &str| WorkerRequest {
        method: "load".to_owned(),
        params: serde_json::value::RawValue::from_string(json!({ "tool": tool }).to_string())
            .unwrap()
            .into(),
    };
    let script = r#"while read -r line; do id_of "$line"; case $line in
        *load*wrong*) printf '{"id":%s,"error":{"code":1,"message":"line 3: no"}}\n' $id;;
        *load*) loaded="$loaded+"; answer $id ok;; *) answer $id "$loaded";; esac; done"#;
    let both = vec![load("a"), load("b")];
    let worker = worker_of(program("sh", script), limits(), both);
    assert_eq!(call(&worker).await, "++");
    let limits = WorkerLimits {
        pause_min: Duration::from_secs(2),
        ..limits()
    };
    let worker = worker_of(program("sh", script), limits, vec![load("wrong")]);
    let answer = call(&worker).await;
    assert!(answer.contains("does not run at the moment"), "{answer}");
}
