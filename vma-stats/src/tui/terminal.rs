//! The terminal, which is as it was when the program has ended, however it ends.

use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::sync::Once;

use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::tui::app::App;
use crate::tui::draw;

/// The terminal while the screens are shown.
pub(super) struct Screen {
    /// Its destructor would write that it cannot write, and panic where standard error has gone,
    /// too. [`restore`] does what it does.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        restore_at_panic();
        enable_raw_mode()?;
        let opened = execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self {
                terminal: ManuallyDrop::new(terminal),
            }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        self.terminal.draw(|frame| draw::draw(frame, app)).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Where the terminal is gone there is nothing to restore.
    let _ = execute!(
        io::stdout(),
        DisableMouseCapture,
        LeaveAlternateScreen,
        crossterm::cursor::Show
    );
    let _ = disable_raw_mode();
}

/// So that the message is read on the screen that stays.
fn restore_at_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            usual(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal_for_tests::Terminal;

    const WORDS: &str = "what went wrong is to be read";

    /// Not a test: what the other one starts.
    #[test]
    #[ignore = "panics on a terminal"]
    fn panics() {
        if std::env::var_os("VMA_STATS_TEST_PANICS").is_none() {
            return;
        }
        let _screen = Screen::open().unwrap();
        panic!("{WORDS}");
    }

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let program = std::env::current_exe().unwrap();
        let name = concat!(module_path!(), "::panics");
        let (_, name) = name.split_once("::").unwrap();
        let variables = ["VMA_STATS_TEST_PANICS=1", "RUST_BACKTRACE=0"];
        let arguments = [&variables[..], &[program.to_str().unwrap()]].concat();
        let options = ["--ignored", "--exact", name, "--nocapture"];
        let arguments = [&arguments[..], &options].concat();
        let mut terminal = Terminal::start("/usr/bin/env".as_ref(), &arguments, 80, 24);
        assert!(!terminal.ended(), "the test fails");
        assert!(terminal.text().contains(WORDS), "{}", terminal.text());
    }
}
