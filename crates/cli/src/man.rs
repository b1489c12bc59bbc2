//! `anywire man`: manual pages, made of the same texts as `--help`.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::cli::Cli;
use crate::failure::{Code, Failure};
use crate::output;

/// Print a manual page, or write them all
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// The command whose page is printed; without it, that of anywire itself
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Option<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints the page, or writes all.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut root = Cli::command();
        root.build();
        if let Some(dir) = self.dir {
            return write_all(&root, &dir);
        }
        let Some(name) = self.command else { return output::print(&render(root)?) };
        let named = format!("anywire-{name}");
        // An old name has no page of its own in a list, and still its page.
        let found =
            pages(&root).find(|page| page_name(page) == named).or_else(|| root.find_subcommand(&name));
        match found {
            Some(command) => output::print(&render(command.clone())?),
            None => Err(Failure::new(
                Code::Usage,
                format_args!("looking for the page of {name:?}: there is no such command"),
            )
            .help("'anywire --help' lists them; those of the lab are such as lab-ladder")),
        }
    }
}

fn write_all(root: &Command, dir: &Path) -> Result<(), Failure> {
    for command in std::iter::once(root).chain(pages(root)) {
        let path = dir.join(format!("{}.1", page_name(command)));
        let page = render(command.clone())?;
        std::fs::write(&path, page)
            .map_err(|cause| output::unwritten(&path.display().to_string(), &cause))?;
    }
    Ok(())
}

/// The commands that have a page: all that help names, and those of the lab.
fn pages(root: &Command) -> impl Iterator<Item = &Command> {
    let named = |command: &&Command| !command.is_hide_set();
    let lab = root.find_subcommand("lab").into_iter().flat_map(Command::get_subcommands);
    let lab = lab.filter(|command| command.get_name() != "help");
    root.get_subcommands().filter(named).chain(lab)
}

fn render(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = Page::new(command).render(&mut page);
    rendered.map(|()| page).map_err(|cause| output::unwritten("the manual page", &cause))
}

/// `anywire-serve` for `anywire serve`, as git and others name theirs.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-")
}

const EXAMPLES: &str = "\
Examples:
  anywire man | man -l -
  anywire man serve | man -l -
  anywire man lab-ladder | man -l -
  anywire man --dir /usr/local/share/man/man1";
