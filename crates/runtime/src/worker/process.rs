//! One process: its pipes, its process group and its end. No process that it has forked within its group survives it. Knows no
//! message.

use super::{USUAL_VARIABLES, WorkerProgram};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use windlass_compile::program::changed_file;
use windlass_contract::sensitive::Sensitive;

/// A running process. It is killed, with its group, when this is dropped.
pub(crate) struct Process {
    pub(crate) input: Option<pipe::Sender>,
    pub(crate) output: Option<pipe::Receiver>,
    pub(crate) errors: Option<pipe::Receiver>,
    /// The description of the process's end.
    pub(crate) ended: oneshot::Receiver<String>,
    group: Arc<Group>,
}

/// The process and its forks. The group's id is valid until the process was waited for.
struct Group(Mutex<Option<Pid>>);

impl Group {
    fn kill(&self) {
        let leader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = *leader {
            // A group that is gone already is no error.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// A variable of a process, and its value.
pub(crate) type SecretVariable = (String, Sensitive<String>);

type Pipes = (OwnedFd, OwnedFd, OwnedFd, Arc<Group>);

impl Process {
    /// Starts a program on a thread of its own, which waits for its end. `secrets` are additional variables.
    pub(crate) async fn start(
        program: WorkerProgram,
        secrets: Vec<SecretVariable>,
    ) -> io::Result<Self> {
        let (started, start) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("worker".to_owned())
            .spawn(move || match spawn(&program, &secrets) {
                Err(error) => drop(started.send(Err(error))),
                Ok((child, pipes)) => {
                    let group = pipes.3.clone();
                    if started.send(Ok(pipes)).is_err() {
                        group.kill();
                    }
                    let _ = end.send(wait(child, &group));
                }
            })?;
        let lost = || io::Error::other("the thread that starts it has ended");
        let (input, output, errors, group) = start.await.map_err(|_| lost())??;
        // Made first, so that every later error ends the process.
        let mut process = Self {
            input: None,
            output: None,
            errors: None,
            ended,
            group,
        };
        process.input = Some(pipe::Sender::from_owned_fd(input)?);
        process.output = Some(pipe::Receiver::from_owned_fd(output)?);
        process.errors = Some(pipe::Receiver::from_owned_fd(errors)?);
        Ok(process)
    }
}

fn spawn(program: &WorkerProgram, secrets: &[SecretVariable]) -> io::Result<(Child, Pipes)> {
    let mut command = Command::new(&program.program);
    command
        .args(&program.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(folder) = &program.folder {
        if let Some(changed) = changed_file(folder, &program.files) {
            let problem = format!("its file {changed} has changed since the tools were read");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        command.current_dir(folder);
    }
    let usual = USUAL_VARIABLES.into_iter();
    let passed = usual.chain(program.variables.iter().map(String::as_str));
    let passed = passed.filter_map(|name| Some((name, std::env::var_os(name)?)));
    let secrets = secrets.iter().map(|(name, value)| (name, value.expose()));
    command.env_clear().envs(passed).envs(secrets);
    let mut child = command.spawn()?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = Arc::new(Group(Mutex::new(leader)));
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(input), Some(output), Some(errors)) => {
            Ok((child, (input.into(), output.into(), errors.into(), group)))
        }
        _ => {
            group.kill();
            Err(io::Error::other("it has no pipes"))
        }
    }
}

/// Waits for the process, and ends its group before another process can get its id.
fn wait(mut child: Child, group: &Group) -> String {
    let leader = *group.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(leader) = leader {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(
            waitid(WaitId::Pid(leader), options),
            Err(rustix::io::Errno::INTR)
        ) {}
    }
    group.kill();
    let mut leader = group.0.lock().unwrap_or_else(PoisonError::into_inner);
    *leader = None;
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => format!("it cannot be waited for: {error}"),
    }
}
