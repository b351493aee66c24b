//! The allowed dependencies between crates, and the crates that may reach the asynchronous runtime. Reads cargo's own view of the
//! graph; knows nothing of the code inside a crate.

use crate::report::Problem;
use crate::workspace::{Workspace, output_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One crate's place in the architecture.
struct CrateRule {
    package: &'static str,
    may_use: &'static [&'static str],
    world: World,
}

/// Whether a crate may touch the machine: sockets, clocks, threads, the environment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    Reached,
    Fenced,
    /// A process of its own: it has a clock and threads, and never the asynchronous runtime.
    Apart,
}

const PLACES: &[CrateRule] = &[
    CrateRule {
        package: "windlass-contract",
        may_use: &[],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-compile",
        may_use: &["windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-import",
        may_use: &["windlass-compile", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-calendar",
        may_use: &[],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-services",
        may_use: &["windlass-calendar", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-session",
        may_use: &["windlass-store", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-driver",
        may_use: &["windlass-session", "windlass-store", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-provider",
        may_use: &["windlass-session", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-handlers",
        may_use: &["windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-knowledge",
        may_use: &["windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-store",
        may_use: &["windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-sim",
        may_use: &["windlass-provider", "windlass-session", "windlass-contract"],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-world",
        may_use: &[
            "windlass-driver",
            "windlass-session",
            "windlass-store",
            "windlass-contract",
        ],
        world: World::Fenced,
    },
    CrateRule {
        package: "windlass-runtime",
        may_use: &[
            "windlass-compile",
            "windlass-driver",
            "windlass-provider",
            "windlass-session",
            "windlass-store",
            "windlass-contract",
        ],
        world: World::Reached,
    },
    CrateRule {
        package: "windlass-config",
        may_use: &[
            "windlass-calendar",
            "windlass-compile",
            "windlass-provider",
            "windlass-runtime",
            "windlass-session",
            "windlass-store",
            "windlass-contract",
        ],
        world: World::Reached,
    },
    CrateRule {
        package: "windlass-script",
        may_use: &[],
        world: World::Apart,
    },
    CrateRule {
        package: "windlass-app",
        may_use: &[
            "windlass-calendar",
            "windlass-compile",
            "windlass-config",
            "windlass-driver",
            "windlass-handlers",
            "windlass-import",
            "windlass-knowledge",
            "windlass-provider",
            "windlass-runtime",
            "windlass-script",
            "windlass-services",
            "windlass-session",
            "windlass-sim",
            "windlass-store",
            "windlass-contract",
        ],
        world: World::Reached,
    },
    CrateRule {
        package: "windlass-benches",
        may_use: &[
            "windlass-app",
            "windlass-calendar",
            "windlass-compile",
            "windlass-driver",
            "windlass-handlers",
            "windlass-provider",
            "windlass-runtime",
            "windlass-session",
            "windlass-store",
            "windlass-contract",
        ],
        world: World::Reached,
    },
    CrateRule {
        package: "windlass-fuzz",
        may_use: &[
            "windlass-app",
            "windlass-compile",
            "windlass-config",
            "windlass-knowledge",
            "windlass-provider",
            "windlass-runtime",
            "windlass-session",
            "windlass-contract",
        ],
        world: World::Reached,
    },
    CrateRule {
        package: "xtask",
        may_use: &[],
        world: World::Fenced,
    },
];

const ASYNC_RUNTIME: &str = "tokio";

/// The crates that an opt-in engine brings into a crate that is otherwise fenced. A database client without the asynchronous runtime
/// would have to be our own.
const OPT_IN_ENGINES: &[(&str, &[&str])] = &[(
    "windlass-knowledge",
    &["tokio", "tokio-postgres", "tokio-rustls"],
)];

/// The methods that a fenced crate's own `clippy.toml` has to forbid. Clippy reads the nearest file only, so the root's does not reach
/// the crate.
const FORBIDDEN_METHODS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::env::var",
];

/// Every edge of the workspace that the architecture does not have, every crate that escapes the shared lints, and every
/// fenced crate that may ask for the time.
pub(crate) fn check(workspace: &Workspace) -> Vec<Problem> {
    let mut problems = Vec::new();
    // The default build may not contain the crates of an opt-in engine, so it has no exceptions.
    match graph(workspace, &[]) {
        Ok(graph) => problems.extend(check_graph(&graph)),
        Err(problem) => problems.push(problem),
    }
    match graph(workspace, &["--all-features"]) {
        Ok(graph) => {
            let found = check_graph(&graph.without_opt_in_engines());
            let known: BTreeSet<String> = problems.iter().map(Problem::to_string).collect();
            let is_new = |problem: &Problem| !known.contains(&problem.to_string());
            problems.extend(found.into_iter().filter(is_new));
        }
        Err(problem) => problems.push(problem),
    }
    problems.extend(check_lints(workspace));
    problems
}

fn graph(workspace: &Workspace, features: &[&str]) -> Result<Graph, Problem> {
    let mut arguments = vec![
        "tree",
        "--workspace",
        "--edges=normal",
        "--target=all",
        "--prefix=depth",
    ];
    arguments.extend(features);
    let tree = workspace.cargo(&arguments);
    output_of(tree, "cargo tree").map(|text| Graph::parse(&text))
}

/// The packages, and the needs of each when it is built for use (not for its tests).
struct Graph {
    members: BTreeSet<String>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads `cargo tree --prefix=depth`: each line is a depth, a name, a version, and for a member its folder. A
    /// package is spelt out once, and its other places are marked and have nothing under them.
    fn parse(tree: &str) -> Self {
        let mut graph = Self {
            members: BTreeSet::new(),
            needs: BTreeMap::new(),
        };
        let mut above: Vec<String> = Vec::new();
        for line in tree.lines() {
            let name_start = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            let (depth, rest) = line.split_at(name_start);
            let (Ok(depth), Some(package)) = (depth.parse::<usize>(), package_of(rest)) else {
                continue;
            };
            above.truncate(depth);
            match above.last() {
                None => {
                    graph.members.insert(package.clone());
                }
                Some(user) => {
                    let needs = graph.needs.entry(user.clone()).or_default();
                    needs.insert(package.clone());
                }
            }
            above.push(package);
        }
        graph
    }

    /// The graph of the default build.
    fn without_opt_in_engines(mut self) -> Self {
        for (package, needs) in &mut self.needs {
            for (fenced, brought) in OPT_IN_ENGINES {
                if name_of(package) == *fenced {
                    needs.retain(|need| !brought.contains(&name_of(need)));
                }
            }
        }
        self
    }

    fn needs(&self, package: &str) -> impl Iterator<Item = &str> {
        self.needs
            .get(package)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// The shortest way from one package to another, both ends included.
    fn path<'graph>(&'graph self, from: &'graph str, to: &str) -> Option<Vec<&'graph str>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(package) = waiting.pop_front() {
            if name_of(package) == to {
                let mut path = vec![package];
                while let Some(previous) = path.last().and_then(|last| came_from.get(last)) {
                    path.push(previous);
                }
                path.reverse();
                return Some(path);
            }
            for need in self.needs(package) {
                if need != from && !came_from.contains_key(need) {
                    came_from.insert(need, package);
                    waiting.push_back(need);
                }
            }
        }
        None
    }
}

/// Name and version, which tell two versions of one package apart.
fn package_of(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    Some(format!("{} {}", words.next()?, words.next()?))
}

fn name_of(package: &str) -> &str {
    package.split(' ').next().unwrap_or(package)
}

fn check_graph(graph: &Graph) -> Vec<Problem> {
    let names: BTreeSet<&str> = graph.members.iter().map(|member| name_of(member)).collect();
    let mut problems = Vec::new();
    for place in PLACES {
        if !names.contains(place.package) {
            problems.push(Problem::general(format!(
                "the architecture names `{}`, which is no member: take it out of xtask's table",
                place.package
            )));
        }
    }
    for member in &graph.members {
        let name = name_of(member);
        let Some(place) = PLACES.iter().find(|place| place.package == name) else {
            problems.push(Problem::general(format!(
                "`{name}` has no place in the architecture: give it one in xtask's table and in ARCHITECTURE.md"
            )));
            continue;
        };
        for need in graph.needs(member).map(name_of) {
            if names.contains(need) && !place.may_use.contains(&need) {
                problems.push(Problem::general(format!(
                    "`{name}` may not depend on `{need}`: move the code, or change the architecture first"
                )));
            }
        }
        if place.world != World::Reached
            && let Some(path) = graph.path(member, ASYNC_RUNTIME)
        {
            problems.push(Problem::general(format!(
                "`{name}` may not reach {ASYNC_RUNTIME}, and does: {}",
                path.join(" → ")
            )));
        }
    }
    problems
}

fn check_lints(workspace: &Workspace) -> Vec<Problem> {
    let files = match workspace.files() {
        Ok(files) => files,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        let manifest = match workspace.read(file) {
            Ok(manifest) => manifest,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        problems.extend(check_manifest(file, &manifest));
        let fenced = PLACES.iter().any(|place| {
            place.world == World::Fenced
                && place.package != "xtask"
                && manifest.contains(&format!("name = \"{}\"", place.package))
        });
        if fenced {
            let clippy_file = file.replace("Cargo.toml", "clippy.toml");
            match workspace.read(&clippy_file) {
                Ok(text) => problems.extend(check_fence(&clippy_file, &text)),
                Err(problem) => problems.push(problem),
            }
        }
    }
    problems
}

/// The root has to forbid unsafe code, and every package to take its lints from there.
fn check_manifest(file: &str, manifest: &str) -> Vec<Problem> {
    let mut section = "";
    let mut unsafe_forbidden = false;
    let mut lints_inherited = false;
    let mut is_package = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        is_package |= section == "[package]";
        unsafe_forbidden |=
            section == "[workspace.lints.rust]" && line == "unsafe_code = \"forbid\"";
        lints_inherited |= (section == "[lints]" && line == "workspace = true")
            || line == "lints.workspace = true";
    }
    let mut problems = Vec::new();
    if file == "Cargo.toml" && !unsafe_forbidden {
        problems.push(Problem::of_file(
            file,
            "does not forbid unsafe code: add `unsafe_code = \"forbid\"` to [workspace.lints.rust]",
        ));
    }
    if is_package && !lints_inherited {
        problems.push(Problem::of_file(
            file,
            "escapes the shared lints: add `workspace = true` under [lints]",
        ));
    }
    problems
}

fn check_fence(file: &str, text: &str) -> Vec<Problem> {
    FORBIDDEN_METHODS
        .iter()
        .filter(|method| !text.contains(&format!("\"{method}\"")))
        .map(|method| Problem::of_file(file, format!("does not forbid `{method}`: add it")))
        .collect()
}

#[cfg(test)]
mod tests;
