//! Which crate may depend on which, and which may reach the asynchronous runtime. Reads cargo's own view of the graph;
//! knows nothing of the code inside a crate.

use crate::report::Problem;
use crate::shipped;
use crate::workspace::{Workspace, output_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One crate's place in the architecture.
struct Place {
    package: &'static str,
    may_use: &'static [&'static str],
    world: World,
}

/// Whether a crate may touch the machine: sockets, clocks, threads, the environment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    Reached,
    Fenced,
}

const PLACES: &[Place] = &[
    Place {
        package: "windlass-tool",
        may_use: &[],
        world: World::Fenced,
    },
    Place {
        package: "windlass-session",
        may_use: &["windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-provider",
        may_use: &["windlass-session", "windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-handlers",
        may_use: &["windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-knowledge",
        may_use: &["windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-store",
        may_use: &["windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-sim",
        may_use: &["windlass-provider", "windlass-session", "windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-world",
        may_use: &["windlass-session", "windlass-store", "windlass-tool"],
        world: World::Fenced,
    },
    Place {
        package: "windlass-runtime",
        may_use: &[
            "windlass-provider",
            "windlass-session",
            "windlass-store",
            "windlass-tool",
        ],
        world: World::Reached,
    },
    Place {
        package: "windlass-app",
        may_use: &[
            "windlass-handlers",
            "windlass-knowledge",
            "windlass-provider",
            "windlass-runtime",
            "windlass-session",
            "windlass-sim",
            "windlass-store",
            "windlass-tool",
        ],
        world: World::Reached,
    },
    Place {
        package: "windlass-benches",
        may_use: &[
            "windlass-app",
            "windlass-provider",
            "windlass-runtime",
            "windlass-session",
            "windlass-store",
            "windlass-tool",
        ],
        world: World::Reached,
    },
    Place {
        package: "xtask",
        may_use: &[],
        world: World::Fenced,
    },
];

const ASYNC_RUNTIME: &str = "tokio";

/// What an engine that is built on demand brings into a crate that is fenced otherwise. A database client without the
/// asynchronous runtime would be one of our own.
const OPT_IN_ENGINES: &[(&str, &[&str])] = &[(
    "windlass-knowledge",
    &["tokio", "tokio-postgres", "tokio-rustls"],
)];

/// What a fenced crate's own `clippy.toml` has to forbid. Clippy reads the nearest file only, so the root's does not
/// reach it.
const FORBIDDEN_METHODS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::env::var",
];

/// Every edge of the workspace that the architecture does not have, every crate that escapes the shared lints, and every
/// fenced crate that may ask for the time.
pub(crate) fn check(workspace: &Workspace) -> Vec<Problem> {
    let tree = workspace.cargo(&[
        "tree",
        "--workspace",
        "--all-features",
        "--edges=normal",
        "--target=all",
        "--prefix=depth",
    ]);
    let mut problems = match output_of(tree, "cargo tree") {
        Ok(text) => check_graph(&Graph::parse(&text).without_opt_in_engines()),
        Err(problem) => vec![problem],
    };
    problems.extend(check_lints(workspace));
    problems.extend(shipped::check(workspace));
    problems
}

/// The packages, and what each needs when it is built for use (not for its tests).
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

    /// The graph of what everybody builds.
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
        if place.world == World::Fenced
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
mod tests {
    use super::*;

    /// The architecture as it should be, one line for each edge's user and what it needs.
    fn sound() -> Vec<(&'static str, &'static str)> {
        let mut edges: Vec<(&str, &str)> = PLACES
            .iter()
            .flat_map(|place| place.may_use.iter().map(|need| (place.package, *need)))
            .collect();
        edges.extend([
            ("windlass-runtime", "tokio"),
            ("windlass-app", "axum"),
            ("axum", "tokio"),
            ("windlass-knowledge", "tantivy"),
        ]);
        edges
    }

    /// Writes edges as cargo does.
    fn tree(edges: &[(&str, &str)], members: &[&str]) -> String {
        let mut text = String::new();
        for member in members {
            text.push_str(&format!("0{member} v0.1.0 (/somewhere/{member})\n"));
            for (_, need) in edges.iter().filter(|(user, _)| user == member) {
                text.push_str(&format!("1{need} v0.1.0\n"));
                for (_, further) in edges.iter().filter(|(user, _)| user == need) {
                    text.push_str(&format!("2{further} v0.1.0 (*)\n"));
                }
            }
            text.push('\n');
        }
        text
    }

    fn members() -> Vec<&'static str> {
        PLACES.iter().map(|place| place.package).collect()
    }

    #[track_caller]
    fn check(added: &[(&'static str, &'static str)], expected: &[&str]) {
        let mut edges = sound();
        edges.extend(added);
        let found: Vec<String> = check_graph(&Graph::parse(&tree(&edges, &members())))
            .iter()
            .map(Problem::to_string)
            .collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for part in expected {
            assert!(found.iter().any(|text| text.contains(part)), "{found:#?}");
        }
    }

    #[test]
    fn the_workspace_keeps_its_edges() {
        let problems: Vec<String> = super::check(&Workspace::of_this_program())
            .iter()
            .map(Problem::to_string)
            .collect();
        assert!(problems.is_empty(), "{problems:#?}");
    }

    #[test]
    fn the_architecture_itself_is_accepted() {
        check(&[], &[]);
    }

    #[test]
    fn an_edge_against_the_arrows_is_refused() {
        check(
            &[("windlass-tool", "windlass-session")],
            &["`windlass-tool` may not depend on `windlass-session`"],
        );
        check(
            &[("windlass-handlers", "windlass-store")],
            &["`windlass-handlers` may not depend on `windlass-store`"],
        );
        check(
            &[("xtask", "windlass-tool")],
            &["`xtask` may not depend on `windlass-tool`"],
        );
    }

    #[test]
    fn a_pure_crate_may_not_reach_the_async_runtime_by_any_way() {
        check(
            &[("windlass-handlers", "tokio")],
            &["windlass-handlers v0.1.0 → tokio v0.1.0"],
        );
        check(
            &[("tantivy", "tokio")],
            &["windlass-knowledge v0.1.0 → tantivy v0.1.0 → tokio v0.1.0"],
        );
        // What carries the runtime's users upwards is refused in every crate on the way.
        check(
            &[("windlass-tool", "tokio-util"), ("windlass-tool", "tokio")],
            &[
                "`windlass-tool` may not reach tokio",
                "`windlass-session` may not reach tokio",
                "`windlass-provider` may not reach tokio",
                "`windlass-handlers` may not reach tokio",
                "`windlass-knowledge` may not reach tokio",
                "`windlass-store` may not reach tokio",
                "`windlass-world` may not reach tokio",
                "`windlass-sim` may not reach tokio",
            ],
        );
    }

    #[test]
    fn an_engine_on_demand_may_bring_its_client_and_nothing_else() {
        let mut edges = sound();
        edges.extend([
            ("windlass-knowledge", "tokio-postgres"),
            ("tokio-postgres", "tokio"),
        ]);
        let graph = |edges: &[_]| Graph::parse(&tree(edges, &members())).without_opt_in_engines();
        assert_eq!(check_graph(&graph(&edges)).len(), 0);
        edges.extend([("windlass-knowledge", "other"), ("other", "tokio")]);
        assert_eq!(check_graph(&graph(&edges)).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_refused() {
        let mut members = members();
        members.push("windlass-extra");
        let found = check_graph(&Graph::parse(&tree(&sound(), &members)));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].to_string().contains("windlass-extra"));
        let found = check_graph(&Graph::parse(&tree(
            &sound(),
            &members[1..members.len() - 1],
        )));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].to_string().contains("windlass-tool"));
    }

    #[test]
    fn a_package_that_escapes_the_lints_is_refused() {
        let bad = "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\nworkspace = true\n";
        let good = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        assert_eq!(check_manifest("crates/a/Cargo.toml", bad).len(), 1);
        assert_eq!(check_manifest("crates/a/Cargo.toml", good).len(), 0);
        let allowed = "[workspace.lints.rust]\nunsafe_code = \"deny\"\n";
        assert_eq!(check_manifest("Cargo.toml", allowed).len(), 1);
        let forbidden = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
        assert_eq!(check_manifest("Cargo.toml", forbidden).len(), 0);
    }

    #[test]
    fn a_fence_without_a_board_is_found() {
        let text = "disallowed-methods = [{ path = \"std::time::Instant::now\" }]";
        assert_eq!(check_fence("clippy.toml", text).len(), 2);
    }
}
