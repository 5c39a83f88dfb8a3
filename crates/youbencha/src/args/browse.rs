//! Arguments of `yb open`, `yb view`, `yb diff` and `yb trend`.

use std::net::IpAddr;

#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// Run, or a trial of the newest run [default: latest]
    #[arg(value_name = "RUN|TRIAL")]
    pub(crate) run: Option<String>,

    /// Trial of the run
    pub(crate) trial: Option<String>,

    /// Write the end state of the trial to this directory, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<std::path::PathBuf>,

    /// Print the path instead of opening it
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Run to open first [default: the list of all runs]
    pub(crate) run: Option<String>,

    /// Port; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,

    /// Address to listen on instead of 127.0.0.1; anyone with the URL can see the runs
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<IpAddr>,

    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// First trial: a trial of the newest run, or `RUN/TRIAL`
    #[arg(value_name = "TRIAL")]
    pub(crate) one: String,

    /// Second trial
    #[arg(value_name = "TRIAL")]
    pub(crate) two: String,

    /// Print only the changed files with the number of lines
    #[arg(long)]
    pub(crate) stat: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrendArgs {
    /// Suite or case: its name or file
    pub(crate) suite: String,

    /// Only trials of this variant
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,

    /// Show the newest N runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
