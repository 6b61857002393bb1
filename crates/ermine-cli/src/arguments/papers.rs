//! The papers' figures.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Papers {
    /// Write a document in Markdown, and its drawings into a folder beside it with the same name
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The figures, separated by commas, as ssn-6 or htm-14 [default: all]
    #[arg(long, value_name = "FIGURE,..", value_delimiter = ',')]
    pub only: Vec<String>,
}
