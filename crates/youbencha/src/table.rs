//! Plain tables: columns aligned by display width, two spaces apart.

use std::fmt;

use yb_figures::{pad_end, visible_line, width};

/// A header and rows. Cells are made visible, so that none breaks its row.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|cell| visible_line(cell).into_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| visible_line(&cell).into_owned()).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // Empty columns are omitted.
        let kept: Vec<usize> = (0..columns)
            .filter(|column| {
                self.rows.len() == 1
                    || self.rows[1..].iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()))
            })
            .collect();
        let columns = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        };
        for row in &self.rows {
            let mut line = String::new();
            for column in &kept {
                let cell = row.get(*column).map_or("", String::as_str);
                line.push_str(&pad_end(cell, columns(*column) + 2));
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_align_by_display_width_and_empty_ones_are_omitted() {
        let mut table = Table::new(&["case", "excluded", "cost"]);
        table.row(vec!["a-long-name".to_owned(), String::new(), "$1".to_owned()]);
        table.row(vec!["ü".to_owned(), String::new(), String::new()]);
        table.row(vec!["日本語".to_owned(), String::new(), "$2".to_owned()]);
        assert_eq!(table.to_string(), "case         cost\na-long-name  $1\nü\n日本語       $2\n");
    }
}
