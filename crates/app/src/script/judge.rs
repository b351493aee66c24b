//! Asks the engine whether handlers can run, in a process that can be killed: a handler may be anything.

use super::program;
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use windlass_compile::{ScriptFlaw, ScriptJudge, ScriptSources, ScriptVerdict};
use windlass_config::Config;
use windlass_script::Verdict;

/// How long the engine may take for one handler, on a machine that has more to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// The engine, in a process that starts with the first question.
pub(crate) struct EngineJudge {
    config: Arc<Config>,
    process: Mutex<Option<JudgeProcess>>,
}

impl fmt::Debug for EngineJudge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EngineJudge")
    }
}

impl EngineJudge {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            process: Mutex::new(None),
        }
    }

    fn ask(&self, script: &ScriptSources<'_>) -> Result<Verdict, String> {
        let mut slot = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let process = match &mut *slot {
            Some(process) => process,
            None => slot.insert(JudgeProcess::start(&self.config).map_err(|error| {
                format!("the process that reads scripts cannot be run: {error}")
            })?),
        };
        let answered = process.ask(script);
        if answered.is_err() {
            // A process that hangs would hold up the next question, too.
            *slot = None;
        }
        answered
    }
}

impl ScriptJudge for EngineJudge {
    fn judge(&self, script: &ScriptSources<'_>) -> ScriptVerdict {
        match self.ask(script) {
            Ok(verdict) => ScriptVerdict {
                used: verdict.used.into_iter().collect(),
                flaws: verdict.flaws.into_iter().map(flaw).collect(),
                response_version: verdict.response_version,
            },
            Err(message) => ScriptVerdict {
                used: Vec::new(),
                response_version: None,
                flaws: vec![ScriptFlaw {
                    file: script.entry.to_owned(),
                    line: None,
                    column: None,
                    message,
                    cure: "do the work in `execute`, where a call's limits hold".to_owned(),
                }],
            },
        }
    }
}

fn flaw(flaw: windlass_script::Flaw) -> ScriptFlaw {
    ScriptFlaw {
        file: flaw.file,
        line: flaw.line,
        column: flaw.column,
        message: flaw.message,
        cure: flaw.cure,
    }
}

struct JudgeProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

#[derive(Deserialize)]
struct Line {
    result: Option<Verdict>,
}

impl JudgeProcess {
    fn start(config: &Config) -> std::io::Result<Self> {
        let (program, arguments) = program(&config.scripts)?;
        let mut child = Command::new(program)
            .args(arguments)
            // Nothing that is secret here is known there.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("it has no pipes"));
        };
        let (sender, lines) = channel();
        // Ends with the process.
        std::thread::Builder::new().spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            child,
            input,
            lines,
        })
    }

    fn ask(&mut self, script: &ScriptSources<'_>) -> Result<Verdict, String> {
        let question = json!({
            "jsonrpc": "2.0", "id": 1, "method": "judge",
            "params": {"tool": script.entry, "entry": script.entry, "modules": script.modules},
        });
        let broke_off = || {
            format!(
                "reading it broke off: what stands at the top of the file ends the engine, or takes more than {} seconds",
                PATIENCE.as_secs()
            )
        };
        writeln!(self.input, "{question}").map_err(|_| broke_off())?;
        let line = self.lines.recv_timeout(PATIENCE).map_err(|_| broke_off())?;
        let line: Line = serde_json::from_str(&line).map_err(|_| broke_off())?;
        line.result.ok_or_else(broke_off)
    }
}

impl Drop for JudgeProcess {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
