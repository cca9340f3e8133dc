//! The program `p3o`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(p3o_cli::main_with(std::env::args_os()))
}
