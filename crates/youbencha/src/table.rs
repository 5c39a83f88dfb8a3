//! Plain tables: columns as wide as they must be, two spaces between, readable without colour.

use std::fmt;

/// Rows under a header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        // A column without anything in it is left out.
        let kept: Vec<usize> = (0..columns)
            .filter(|column| {
                self.rows.len() == 1
                    || self.rows[1..].iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()))
            })
            .collect();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        for row in &self.rows {
            let mut line = String::new();
            for column in &kept {
                let cell = row.get(*column).map_or("", String::as_str);
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width(*column) + 2 - cell.chars().count()));
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
    fn columns_are_as_wide_as_they_must_be_and_empty_ones_are_left_out() {
        let mut table = Table::new(&["case", "left out", "cost"]);
        table.row(vec!["a-long-name".to_owned(), String::new(), "$1".to_owned()]);
        table.row(vec!["ü".to_owned(), String::new(), String::new()]);
        assert_eq!(table.to_string(), "case         cost\na-long-name  $1\nü\n");
    }
}
