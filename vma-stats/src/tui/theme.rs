//! Colours: sixteen of them, which every terminal has and its user has chosen, or none.

use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    colours: bool,
    /// Nothing stands out or back: on a row that is all highlighted.
    flat: bool,
}

impl Theme {
    /// Without colours where the user does not want any (no-color.org), or the terminal has none.
    pub(super) fn of_environment() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_plain =
            std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.starts_with("vt"));
        Self {
            colours: !is_set("NO_COLOR") && !is_plain,
            flat: false,
        }
    }

    #[cfg(test)]
    pub(super) fn new(colours: bool) -> Self {
        Self {
            colours,
            flat: false,
        }
    }

    /// For the chosen row, where colours and faint letters would be hard to read.
    pub(super) fn flat(self) -> Self {
        Self {
            colours: false,
            flat: true,
        }
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(super) fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(super) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn quiet(self) -> Style {
        if self.flat {
            Style::new()
        } else if self.colours {
            Style::new().fg(Color::DarkGray)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        }
    }

    pub(super) fn received(self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) fn sent(self) -> Style {
        self.colour(Color::LightBlue)
    }

    pub(super) fn border(self) -> Style {
        self.quiet()
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn key(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}
