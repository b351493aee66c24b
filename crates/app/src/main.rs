//! The `windlass` program: the library's main function and nothing else.

fn main() -> std::process::ExitCode {
    windlass_app::main(windlass_handlers::builtin())
}
