//! What is free on every node, in pages: a decision that changes a few nodes under an assumption copies the pages of these nodes only.

use crate::model::{NodeIndex, ResourceId, Resources};
use std::sync::Arc;

/// Nodes to a page.
const PAGE: usize = 32;

/// Free amounts of every node, by resource number, in pages: blocks of [`PAGE`] nodes with consecutive indexes. All rows have the same
/// length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Free {
    width: usize,
    pages: Vec<Arc<Vec<i128>>>,
}

impl Free {
    /// Returns the free amounts of a node, by resource number; empty if the node has no row.
    pub(crate) fn row(&self, node: NodeIndex) -> &[i128] {
        let (page, at) = self.position(node);
        self.pages.get(page).map_or(&[], |rows| &rows[at..at + self.width])
    }

    /// Returns the free amounts of a node for changes; creates the row if there is none.
    pub(super) fn row_mut(&mut self, node: NodeIndex) -> &mut [i128] {
        let (page, at) = self.position(node);
        while self.pages.len() <= page {
            self.pages.push(Arc::new(vec![0; PAGE * self.width]));
        }
        &mut Arc::make_mut(&mut self.pages[page])[at..at + self.width]
    }

    /// Returns where the free amounts of a node are: the number of the page, and the position of the node's first amount in it.
    fn position(&self, node: NodeIndex) -> (usize, usize) {
        (node as usize / PAGE, node as usize % PAGE * self.width)
    }

    /// Returns the largest amount of the resource with the number `id` that is free on one node of a page (block of nodes): of the page
    /// that contains `node`. 0 if there is no such page.
    fn most(&self, node: NodeIndex, id: usize) -> i128 {
        let page = self.pages.get(node as usize / PAGE);
        let amounts = page.into_iter().flat_map(|rows| rows.iter().skip(id).step_by(self.width.max(1)));
        amounts.copied().max().unwrap_or(0)
    }

    /// Extends the row of every node to `width` resources, with 0 for the new ones; does nothing if rows are that long already.
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
    /// Creates an assumption that starts with the free amounts of the model.
    pub(crate) fn new(model: &'a Free) -> Self {
        Self { model, changed: Vec::new() }
    }

    /// Returns the free amounts of a node, by resource number; empty if the node has no row.
    pub(crate) fn row(&self, node: NodeIndex) -> &[i128] {
        let (page, at) = self.model.position(node);
        match self.changed.get(page) {
            Some(Some(rows)) => &rows[at..at + self.model.width],
            _ => self.model.row(node),
        }
    }

    /// Returns the free amounts of a node for changes; creates the row if there is none.
    pub(crate) fn row_mut(&mut self, node: NodeIndex) -> &mut [i128] {
        let model = self.model;
        let (page, at) = model.position(node);
        if self.changed.len() <= page {
            self.changed.resize(model.pages.len().max(page + 1), None);
        }
        let copy = || model.pages.get(page).map_or_else(|| Arc::new(vec![0; PAGE * model.width]), Arc::clone);
        let rows = self.changed[page].get_or_insert_with(copy);
        &mut Arc::make_mut(rows)[at..at + model.width]
    }
}

/// For each page and resource the largest amount that is free on a node of the page: a search for a node skips whole pages with it.
#[derive(Clone, Debug, Default)]
pub(super) struct MostFree {
    /// By page, then by resource number; 0 for a resource that is not listed.
    pages: Vec<Vec<i128>>,
}

impl MostFree {
    /// Updates the largest free amount of the resource `id` on the page that contains `node`, after the amount that is free on this node
    /// changed from `before` to the one in `free`.
    pub(super) fn renew(&mut self, free: &Free, node: NodeIndex, id: ResourceId, before: i128) {
        let (id, now) = (usize::from(id), free.row(node).get(usize::from(id)).copied().unwrap_or(0));
        let most = self.entry(node, id);
        if now >= *most {
            *most = now;
        } else if before == *most {
            *most = free.most(node, id);
        }
    }

    /// Computes, for every resource, the largest free amount on the page that contains `node` again.
    pub(super) fn renew_all(&mut self, free: &Free, node: NodeIndex) {
        for id in 0..free.width {
            *self.entry(node, id) = free.most(node, id);
        }
    }

    /// Returns, to change it, the largest free amount of the resource with the number `id` on the page that contains `node`; creates it, as
    /// 0, if there is none.
    fn entry(&mut self, node: NodeIndex, id: usize) -> &mut i128 {
        let page = node as usize / PAGE;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, Vec::new());
        }
        let amounts = &mut self.pages[page];
        if amounts.len() <= id {
            amounts.resize(id + 1, 0);
        }
        &mut amounts[id]
    }

    /// Returns the pages (blocks of nodes) on which these requests may fit: for each requested resource a node of the page has enough of it
    /// free. On the nodes of all other pages they do not fit.
    pub(super) fn candidates(&self, requests: &Resources) -> CandidatePages {
        let enough = |most: &Vec<i128>| {
            requests.iter().all(|(id, amount)| most.get(usize::from(id)).copied().unwrap_or(0) >= amount)
        };
        let pages: Vec<bool> = self.pages.iter().map(enough).collect();
        CandidatePages { any: pages.contains(&true), pages }
    }
}

/// The pages (blocks of nodes) on which some requests may fit beside all bound pods.
#[derive(Debug)]
pub(crate) struct CandidatePages {
    pages: Vec<bool>,
    any: bool,
}

impl CandidatePages {
    /// Returns false if the requests fit on no node; true if they may fit on some node.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Returns false if the requests do not fit on this node; true if they may.
    pub(crate) fn contains(&self, node: NodeIndex) -> bool {
        self.pages.get(node as usize / PAGE).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_largest_amounts_of_a_page_are_those_of_its_nodes() {
        let (mut free, mut most) = (Free::default(), MostFree::default());
        free.widen(2);
        for step in 0..2_000_u32 {
            let node = step * 7 % 80;
            let id = ResourceId::try_from(step / 3 % 2).unwrap();
            let row = free.row_mut(node);
            let before = std::mem::replace(&mut row[usize::from(id)], i128::from(step * 13 % 17) - 4);
            most.renew(&free, node, id, before);
            for (page, amounts) in most.pages.iter().enumerate() {
                for (id, amount) in amounts.iter().enumerate() {
                    let nodes = (0..80).filter(|node| *node as usize / PAGE == page);
                    // The rows of the page that no node has are 0.
                    let whole = if page == 2 { Some(0) } else { None };
                    let largest = nodes.map(|node| free.row(node).get(id).copied().unwrap_or(0)).chain(whole).max();
                    assert_eq!(Some(*amount), largest, "{step}: page {page}, resource {id}");
                }
            }
        }
        let requests =
            |amount| Resources::default().with_counted(|_| true, BTreeMap::from([(0, amount)]), BTreeMap::new());
        let largest = most.pages.iter().map(|amounts| amounts[0]).max().unwrap();
        let candidates = most.candidates(&requests(largest));
        for node in (0..80).filter(|node| free.row(*node)[0] >= largest) {
            assert!(candidates.contains(node), "{node}");
        }
        assert!(candidates.any() && !most.candidates(&requests(largest + 1)).any());
    }
}
