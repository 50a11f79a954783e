//! The command line of an example.

use pico_args::Arguments;

/// Prints the first lines of the example's file and ends, if the command line asks for help.
pub fn help(arguments: &mut Arguments, file: &str) {
    if arguments.contains(["-h", "--help"]) {
        let lines = file.lines().map_while(|line| line.strip_prefix("//!"));
        lines.for_each(|line| println!("{}", line.strip_prefix(' ').unwrap_or(line)));
        std::process::exit(0);
    }
}

/// Fails if there is more than what was taken out of `arguments`.
pub fn nothing_else(arguments: Arguments) -> Result<(), String> {
    match &arguments.finish()[..] {
        [] => Ok(()),
        rest => Err(format!("the example does not know {rest:?}; `--help` says what it takes")),
    }
}
