//! A list of bounded size: it keeps its first and its last items, and counts the others.

/// The first and the last items of a sequence.
///
/// Items have a weight, their size in memory. The first items are kept up to the limit, and of the others the last ones, up to the limit
/// again. The number of omitted items is exact.
#[derive(Debug, Clone)]
pub struct HeadTail<T> {
    limit: usize,
    /// The head, then the tail, each with its weight.
    items: Vec<T>,
    weights: Vec<usize>,
    /// The number of items in the head, once it is full.
    head: Option<usize>,
    head_weight: usize,
    tail_weight: usize,
    omitted: u64,
}

impl<T> HeadTail<T> {
    /// Creates a list that keeps items of this weight at each end.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            items: Vec::new(),
            weights: Vec::new(),
            head: None,
            head_weight: 0,
            tail_weight: 0,
            omitted: 0,
        }
    }

    /// Creates a list that keeps items of this weight at its end.
    #[must_use]
    pub fn tail_of(limit: usize) -> Self {
        Self { head: Some(0), ..Self::new(limit) }
    }

    /// Appends an item. Passes the items that are omitted to the function, in order. Returns the position of the item in the sequence.
    pub fn push(&mut self, item: T, weight: usize, on_omitted: &mut dyn FnMut(T)) -> u64 {
        let position = self.len();
        if self.head.is_none() && self.head_weight.saturating_add(weight) > self.limit {
            self.head = Some(self.items.len());
        }
        self.items.push(item);
        self.weights.push(weight);
        let Some(head) = self.head else {
            self.head_weight += weight;
            return position;
        };
        self.tail_weight += weight;
        if self.tail_weight > self.limit {
            // Half of it, so that the cost of removing is spread over many items.
            let mut surplus = 0;
            while self.tail_weight > self.limit / 2 && head + surplus + 1 < self.items.len() {
                self.tail_weight -= self.weights[head + surplus];
                surplus += 1;
            }
            self.weights.drain(head..head + surplus);
            self.items.drain(head..head + surplus).for_each(on_omitted);
            self.omitted += surplus as u64;
        }
        position
    }

    /// Adds to the weight of the last item.
    pub fn grow_last(&mut self, weight: usize) {
        let Some(last) = self.weights.last_mut() else { return };
        *last = last.saturating_add(weight);
        let is_tail = self.head.is_some_and(|head| self.items.len() > head);
        let sum = if is_tail { &mut self.tail_weight } else { &mut self.head_weight };
        *sum = sum.saturating_add(weight);
    }

    /// Returns the kept items: those of the head, then those of the tail.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the last item.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.items.last_mut()
    }

    /// Returns the weight of the last item.
    #[must_use]
    pub fn last_weight(&self) -> usize {
        self.weights.last().copied().unwrap_or_default()
    }

    /// Returns the kept item at a position of the sequence.
    pub fn get_mut(&mut self, position: u64) -> Option<&mut T> {
        let index = self.index(position)?;
        self.items.get_mut(index)
    }

    /// Returns the kept item at a position of the sequence.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<&T> {
        self.items.get(self.index(position)?)
    }

    fn index(&self, position: u64) -> Option<usize> {
        let position = usize::try_from(position).ok()?;
        match self.head {
            Some(head) if position >= head => {
                position.checked_sub(usize::try_from(self.omitted).ok()?).filter(|index| *index >= head)
            }
            _ => Some(position),
        }
    }

    /// Returns the length of the sequence, omitted items included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.items.len() as u64 + self.omitted
    }

    /// Returns whether the sequence is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the number of omitted items.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Returns the number of kept items before the omitted ones.
    #[must_use]
    pub fn head_len(&self) -> usize {
        self.head.unwrap_or(self.items.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_items_are_kept_and_the_others_counted() {
        let mut list = HeadTail::new(100);
        let mut dropped = Vec::new();
        for number in 0_u64..1000 {
            assert_eq!(list.push(number, 10, &mut |item| dropped.push(item)), number);
            assert!(list.items().len() <= 20 && list.get(number) == Some(&number));
        }
        assert_eq!((list.head_len(), list.len()), (10, 1000));
        assert_eq!(list.items()[..10], (0..10).collect::<Vec<_>>());
        let tail = &list.items()[10..];
        assert!(tail.len() >= 5 && tail.last() == Some(&999));
        assert_eq!(dropped, (10..tail[0]).collect::<Vec<_>>());
        assert_eq!(list.omitted(), dropped.len() as u64);
        assert_eq!((list.get(9), list.get(10), list.get(tail[0])), (Some(&9), None, Some(&tail[0])));
    }

    #[test]
    fn large_item_is_kept_as_the_last_one() {
        let mut list = HeadTail::new(10);
        for number in 0..3 {
            list.push(number, 50, &mut drop);
        }
        assert_eq!((list.items(), list.omitted()), (&[2][..], 2));
        list.grow_last(5);
        assert_eq!(list.last_weight(), 55);
    }
}
