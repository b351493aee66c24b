//! Notes that are said once for several imported tools, with a list of them. Knows no printing.

use super::ToolDirectory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The source's name for the tool is no id here.
    CalledOtherwise,
    /// Its server says that it changes nothing.
    RunsWithoutAsking,
    /// Its server says of no tool what it does.
    AsksWithoutHints,
}

impl Remark {
    /// The remark on one tool.
    pub fn of(self, tool: &ToolDirectory) -> String {
        match self {
            Self::CalledOtherwise => format!("it is called {} here", tool.id),
            Self::RunsWithoutAsking => {
                "the server says that it changes nothing, and nobody has checked that; it runs without asking".to_owned()
            }
            Self::AsksWithoutHints => {
                "it asks before every call; the server gives no hints".to_owned()
            }
        }
    }

    /// The remark on all tools of these that have it; `None` if none has.
    fn of_all(self, tools: &[&ToolDirectory]) -> Option<String> {
        let with: Vec<&ToolDirectory> = tools
            .iter()
            .copied()
            .filter(|tool| tool.remarks.contains(&self))
            .collect();
        let listed = |shown: &dyn Fn(&ToolDirectory) -> String| {
            let shown: Vec<String> = with.iter().map(|tool| shown(tool)).collect();
            shown.join(", ")
        };
        match (self, with.len()) {
            (_, 0) => None,
            (Self::CalledOtherwise, _) => {
                let shown = listed(&|tool| format!("{} is {}", tool.origin, tool.id));
                Some(format!("other names here: {shown}"))
            }
            (Self::RunsWithoutAsking, _) => {
                let shown = listed(&|tool| tool.id.clone());
                Some(format!(
                    "tools that run without asking: {shown}; the server says that they change nothing, and nobody has checked that"
                ))
            }
            (Self::AsksWithoutHints, 1) => {
                Some("1 tool asks before every call; the server gives no hints".to_owned())
            }
            (Self::AsksWithoutHints, count) => Some(format!(
                "{count} tools ask before every call; the server gives no hints"
            )),
        }
    }
}

/// A line for each remark that some of these tools have.
pub fn lines(tools: &[&ToolDirectory]) -> Vec<String> {
    [
        Remark::CalledOtherwise,
        Remark::RunsWithoutAsking,
        Remark::AsksWithoutHints,
    ]
    .into_iter()
    .filter_map(|remark| remark.of_all(tools))
    .collect()
}
