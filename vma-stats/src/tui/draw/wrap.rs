//! Lines of a label and a text, which continue below the text where they are too long.

use ratatui::text::{Line, Span};

/// What labels take.
pub(super) const LABEL: usize = 10;

/// The lines, none of them longer than `width`. The first span of each is its label.
pub(super) fn wrap(lines: Vec<Line<'static>>, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width).max(2 * LABEL);
    lines
        .into_iter()
        .flat_map(|line| wrap_line(line, width))
        .collect()
}

fn wrap_line(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    if line.width() <= width {
        return vec![line];
    }
    let mut spans = line.spans.into_iter();
    let mut current = vec![spans.next().unwrap_or_default()];
    let mut used = LABEL;
    let mut wrapped = Vec::new();
    for span in spans {
        for word in span.content.split_inclusive(' ') {
            let word = Span::styled(word.to_owned(), span.style);
            if used + word.content.trim_end().chars().count() > width && used > LABEL {
                wrapped.push(Line::from(std::mem::take(&mut current)));
                current.push(Span::raw(" ".repeat(LABEL)));
                used = LABEL;
            }
            used += word.width();
            current.push(word);
        }
    }
    wrapped.push(Line::from(current));
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_continue_below_their_beginning() {
        let line =
            |text: &str| Line::from(vec![Span::raw("label     "), Span::raw(text.to_owned())]);
        let shown = |text, width| -> Vec<String> {
            let lines = wrap(vec![line(text)], width);
            lines.iter().map(Line::to_string).collect()
        };
        assert_eq!(shown("short", 30), ["label     short"]);
        assert_eq!(
            shown("one two three four", 22),
            ["label     one two ", "          three four"]
        );
        assert_eq!(
            shown("incomprehensibilities", 20),
            ["label     incomprehensibilities"]
        );
    }
}
