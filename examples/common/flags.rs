//! The command line of an example.

use pico_args::Arguments;

/// Fails if there is more than what was taken out of `arguments`.
pub fn nothing_else(arguments: Arguments) -> Result<(), String> {
    match &arguments.finish()[..] {
        [] => Ok(()),
        rest => Err(format!(
            "the example does not know {rest:?}; the first lines of its file say what it takes"
        )),
    }
}
