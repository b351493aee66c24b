//! What is asked wrongly and what cannot be done: exit codes and the one line that says so.
