//! What is free on every node, in pages that are shared until they are written: a copy of all of it costs next to
//! nothing, and a decision that changes a few nodes copies the pages of these nodes only.

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
    pub(crate) fn row_mut(&mut self, node: NodeIndex) -> &mut [i128] {
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
