//! What is free on every node, in pages: a decision that changes a few nodes under an assumption copies the pages of these nodes only.

use crate::model::NodeIndex;
use std::sync::Arc;

/// Nodes to a page.
const PAGE: usize = 32;

/// Free amounts, by node and resource number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Free {
    width: usize,
    pages: Vec<Arc<Vec<i128>>>,
}

impl Free {
    /// Returns the free amounts of a node, by resource number; empty if the node has no row.
    pub(crate) fn row(&self, node: NodeIndex) -> &[i128] {
        let (page, at) = (node as usize / PAGE, node as usize % PAGE * self.width);
        self.pages.get(page).map_or(&[], |rows| &rows[at..at + self.width])
    }

    /// Returns the free amounts of a node for changes; creates the row if there is none.
    pub(super) fn row_mut(&mut self, node: NodeIndex) -> &mut [i128] {
        let (page, at) = (node as usize / PAGE, node as usize % PAGE * self.width);
        while self.pages.len() <= page {
            self.pages.push(Arc::new(vec![0; PAGE * self.width]));
        }
        &mut Arc::make_mut(&mut self.pages[page])[at..at + self.width]
    }

    /// Extends every row to `width` resources.
    pub(super) fn widen(&mut self, width: usize) {
        if width <= self.width {
            return;
        }
        let wider = |rows: &Arc<Vec<i128>>| {
            let mut page = vec![0; PAGE * width];
            for (new, old) in page.chunks_exact_mut(width).zip(rows.chunks_exact(self.width.max(1))) {
                new[..old.len()].copy_from_slice(old);
            }
            Arc::new(page)
        };
        self.pages = self.pages.iter().map(wider).collect();
        self.width = width;
    }
}

/// Free amounts under an assumption: the pages that were changed, and those of the model for all other nodes. The latter are not counted as
/// shared, so that a copy takes time for its changes only.
#[derive(Clone, Debug)]
pub(crate) struct AssumedFree<'a> {
    model: &'a Free,
    /// By number: the changed pages. Empty before the first change.
    changed: Vec<Option<Arc<Vec<i128>>>>,
}

impl<'a> AssumedFree<'a> {
    /// Returns the free amounts of the model.
    pub(crate) fn new(model: &'a Free) -> Self {
        Self { model, changed: Vec::new() }
    }

    /// Returns the free amounts of a node, by resource number; empty if the node has no row.
    pub(crate) fn row(&self, node: NodeIndex) -> &[i128] {
        let width = self.model.width;
        let (page, at) = (node as usize / PAGE, node as usize % PAGE * width);
        match self.changed.get(page) {
            Some(Some(rows)) => &rows[at..at + width],
            _ => self.model.row(node),
        }
    }

    /// Returns the free amounts of a node for changes; creates the row if there is none.
    pub(crate) fn row_mut(&mut self, node: NodeIndex) -> &mut [i128] {
        let model = self.model;
        let (page, at) = (node as usize / PAGE, node as usize % PAGE * model.width);
        if self.changed.len() <= page {
            self.changed.resize(model.pages.len().max(page + 1), None);
        }
        let copy = || model.pages.get(page).map_or_else(|| Arc::new(vec![0; PAGE * model.width]), Arc::clone);
        let rows = self.changed[page].get_or_insert_with(copy);
        &mut Arc::make_mut(rows)[at..at + model.width]
    }
}
