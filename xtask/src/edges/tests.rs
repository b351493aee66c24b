//! The architecture as it should be, and refused changes of it.

use super::*;

/// The architecture as it should be, one line for each edge: its user and its target.
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
        &[("windlass-contract", "windlass-session")],
        &["`windlass-contract` may not depend on `windlass-session`"],
    );
    check(
        &[("windlass-handlers", "windlass-store")],
        &["`windlass-handlers` may not depend on `windlass-store`"],
    );
    check(
        &[("xtask", "windlass-contract")],
        &["`xtask` may not depend on `windlass-contract`"],
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
    // An edge to the runtime is refused in every crate that reaches it.
    check(
        &[
            ("windlass-contract", "tokio-util"),
            ("windlass-contract", "tokio"),
        ],
        &[
            "`windlass-contract` may not reach tokio",
            "`windlass-compile` may not reach tokio",
            "`windlass-import` may not reach tokio",
            "`windlass-driver` may not reach tokio",
            "`windlass-session` may not reach tokio",
            "`windlass-provider` may not reach tokio",
            "`windlass-handlers` may not reach tokio",
            "`windlass-knowledge` may not reach tokio",
            "`windlass-store` may not reach tokio",
            "`windlass-world` may not reach tokio",
            "`windlass-sim` may not reach tokio",
            "`windlass-services` may not reach tokio",
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
    // The default build is judged without the exception.
    let usual = Graph::parse(&tree(&edges, &members()));
    assert_eq!(check_graph(&usual).len(), 1);
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
    assert!(found[0].to_string().contains("windlass-contract"));
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
