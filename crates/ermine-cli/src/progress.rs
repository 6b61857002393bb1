//! Progress bars on the standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a progress bar, which shows nothing if the standard error is not a terminal.
pub fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {elapsed}");
    ProgressBar::new(0).with_style(style.expect("the template is constant and sound"))
}

/// Shows the progress of a step.
pub fn show(bar: &ProgressBar, step: &'static str, done: u64, total: u64) {
    bar.set_message(step);
    bar.set_length(total);
    bar.set_position(done);
}
