//! What keys and the mouse do to the screens.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};

use super::{Action, App, Sort, Tab};

impl App {
    pub(in crate::tui) fn handle(&mut self, event: &Event) -> Option<Action> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
                    return Some(Action::Quit);
                }
                if self.is_filtering {
                    self.edit_filter(key.code);
                    return None;
                }
                self.key(key.code)
            }
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => self.step(1),
                MouseEventKind::ScrollUp => self.step(-1),
                MouseEventKind::Down(MouseButton::Left) => self.click(mouse.column, mouse.row),
                _ => None,
            },
            _ => None,
        }
    }

    fn edit_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
        self.arrange();
    }

    fn key(&mut self, key: KeyCode) -> Option<Action> {
        if self.help {
            self.help = false;
            return (key == KeyCode::Char('q')).then_some(Action::Quit);
        }
        let zero_is_asked = std::mem::take(&mut self.zero_is_asked);
        match key {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('z') if zero_is_asked => return Some(Action::Zero),
            KeyCode::Char('z') => {
                self.zero_is_asked = true;
                self.say("z again: all counters of the process begin anew, for everybody");
            }
            KeyCode::Char('t') => self.totals = !self.totals,
            KeyCode::Char('s') if self.tab != Tab::Sockets => {
                self.list_sort = Some(self.list_sort.map_or(0, |column| column + 1));
            }
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|sort| *sort == self.sort);
                self.sort = Sort::ALL[(at.unwrap_or(0) + 1) % Sort::ALL.len()];
                self.arrange();
            }
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('a') => {
                self.show(Tab::Sockets);
                self.all = !self.all;
                self.arrange();
            }
            KeyCode::Char('/') => {
                self.detail = false;
                self.is_filtering = true;
            }
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='8') => {
                let index = digit.to_digit(10).unwrap_or(1) as usize - 1;
                self.show(Tab::ALL[index]);
            }
            KeyCode::Down | KeyCode::Char('j') => return self.step(1),
            KeyCode::Up | KeyCode::Char('k') => return self.step(-1),
            KeyCode::PageDown => return self.step(10),
            KeyCode::PageUp => return self.step(-10),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.selected = self.row_count().saturating_sub(1),
            KeyCode::Enter => return self.enter(),
            _ => {}
        }
        None
    }

    fn turn(&mut self, by: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab);
        self.show(Tab::ALL[(at.unwrap_or(0) + by) % Tab::ALL.len()]);
    }

    fn show(&mut self, tab: Tab) {
        if self.tab != tab {
            self.tab = tab;
            self.selected = 0;
            self.detail = false;
            self.list_sort = None;
            self.reversed = false;
            self.filter.clear();
            self.arrange();
        }
    }

    fn step(&mut self, by: isize) -> Option<Action> {
        let last = self.row_count().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
        None
    }

    fn enter(&mut self) -> Option<Action> {
        match self.tab {
            Tab::Sockets => self.detail = !self.detail,
            Tab::Processes => {
                let processes = self.processes();
                let chosen = self.listed.get(self.selected);
                let chosen = chosen.and_then(|index| processes.get(*index));
                return chosen.map(|followed| Action::Open(followed.process.pid));
            }
            _ => {}
        }
        None
    }

    fn click(&mut self, column: u16, row: u16) -> Option<Action> {
        if self.help {
            self.help = false;
            return None;
        }
        let at = ratatui::layout::Position { x: column, y: row };
        let tab = self.tab_areas.iter().find(|(_, area)| area.contains(at));
        if let Some((tab, _)) = tab {
            self.show(*tab);
        } else if self.rows_area.contains(at) {
            let index = self.first_row + usize::from(row - self.rows_area.y);
            if index < self.row_count() {
                let again = self.selected == index;
                self.selected = index;
                if again {
                    return self.enter();
                }
            }
        }
        None
    }
}

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
