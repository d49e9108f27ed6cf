//! A table from growing numbers to small records.
//!
//! ```text
//!   number ──► group of 64 pages ──► page of 32 KiB ──► record
//!              in a sorted list      Dense: by index
//!                                    Sparse: in a sorted list
//! ```
//!
//! Numbers come in order and mostly leave in order, so records sit side by side in pages and a
//! page goes when its last record does. A page that has become sparse is packed, so that one
//! forgotten record never holds the memory of a full page. For the same reason a sorted list
//! mostly has no gaps, and where a number stands in it is computed, not searched (`find`).

/// A page is as many records as fit in here. Allocators keep what they hand out in rows of like
/// sizes: a little less than a power of two wastes nothing in them, 44 KiB would waste a seventh.
const PAGE_BYTES: usize = 32 * 1024;

/// Pages that lie side by side, so that the list of groups stays short.
const GROUP: usize = 64;

/// See the module.
#[derive(Clone, Debug)]
pub struct Table<T> {
    groups: Vec<(u64, Group<T>)>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Group<T> {
    pages: Box<[Option<Page<T>>]>,
    live: usize,
}

#[derive(Clone, Debug)]
enum Page<T> {
    Dense { slots: Box<[Option<T>]>, live: usize },
    Sparse(Vec<(u64, T)>),
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { groups: Vec::new(), len: 0 }
    }
}

/// Where a number stands in a sorted list, or belongs.
fn find<V>(list: &[(u64, V)], number: u64) -> Result<usize, usize> {
    let Some((last, _)) = list.last() else { return Err(0) };
    // Were there no gaps behind it, it would stand as far from the end as its number says.
    let after = last.wrapping_sub(number) as usize;
    let guess = (list.len() - 1).wrapping_sub(after);
    match list.get(guess) {
        Some((found, _)) if *found == number => Ok(guess),
        // Numbers come in order: the end is where a new one nearly always belongs.
        _ if *last < number => Err(list.len()),
        _ => list.binary_search_by_key(&number, |(number, _)| *number),
    }
}

/// So many empty places.
fn vacant<T>(count: usize) -> Box<[Option<T>]> {
    (0..count).map(|_| None).collect()
}

impl<T> Table<T> {
    /// Group of a key, and page in it.
    fn split(key: u64) -> (u64, usize) {
        let page = key / Page::<T>::LEN as u64;
        (page / GROUP as u64, page as usize % GROUP)
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The record under `key`.
    pub fn get(&self, key: u64) -> Option<&T> {
        let (group, page) = Self::split(key);
        let group = find(&self.groups, group).ok()?;
        self.groups[group].1.pages[page].as_ref()?.get(key)
    }

    /// The record under `key`, to change it.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (group, page) = Self::split(key);
        let group = find(&self.groups, group).ok()?;
        self.groups[group].1.pages[page].as_mut()?.get_mut(key)
    }

    /// Puts a record under `key`; returns the one that was there.
    pub fn insert(&mut self, key: u64, value: T) -> Option<T> {
        let (number, page) = Self::split(key);
        let at = find(&self.groups, number).unwrap_or_else(|at| {
            self.groups.insert(at, (number, Group { pages: vacant(GROUP), live: 0 }));
            at
        });
        let group = &mut self.groups[at].1;
        let page = &mut group.pages[page];
        group.live += usize::from(page.is_none());
        let old = page.get_or_insert_with(|| Page::Sparse(Vec::new())).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes the record under `key` away.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        self.remove_if(key, |_| true)
    }

    /// Takes the record under `key` away if it is to go, which may change it.
    pub fn remove_if(&mut self, key: u64, goes: impl FnOnce(&mut T) -> bool) -> Option<T> {
        let (number, page) = Self::split(key);
        let at = find(&self.groups, number).ok()?;
        let group = &mut self.groups[at].1;
        let page = &mut group.pages[page];
        let old = page.as_mut()?.remove_if(key, goes)?;
        self.len -= 1;
        if page.take_if(|page| page.is_empty()).is_some() {
            group.live -= 1;
            if group.live == 0 {
                self.groups.remove(at);
            }
        }
        Some(old)
    }

    /// The records from `key` on, by number.
    pub fn range(&self, key: u64) -> impl Iterator<Item = (u64, &T)> {
        let (first_group, first_page) = Self::split(key);
        let (Ok(from) | Err(from)) = find(&self.groups, first_group);
        self.groups[from..]
            .iter()
            .flat_map(move |(number, group)| {
                let skipped = if *number == first_group { first_page } else { 0 };
                let base = number * GROUP as u64;
                let pages = group.pages.iter().enumerate().skip(skipped);
                pages.filter_map(move |(i, page)| Some((base + i as u64, page.as_ref()?)))
            })
            .flat_map(move |(number, page)| page.range(number * Page::<T>::LEN as u64, key))
    }
}

impl<T> Page<T> {
    const LEN: usize = PAGE_BYTES / size_of::<Option<T>>();
    /// A packed page is spread out again above this fill; a spread page is packed below a quarter
    /// of it. The gap between the two keeps a page from flapping.
    const DENSE_MIN: usize = Self::LEN / 4;
    const SPARSE_MAX: usize = Self::DENSE_MIN / 4;

    /// The place of a key in its page.
    fn slot(key: u64) -> usize {
        key as usize % Self::LEN
    }

    fn get(&self, key: u64) -> Option<&T> {
        match self {
            Self::Dense { slots, .. } => slots[Self::slot(key)].as_ref(),
            Self::Sparse(list) => find(list, key).ok().map(|i| &list[i].1),
        }
    }

    fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        match self {
            Self::Dense { slots, .. } => slots[Self::slot(key)].as_mut(),
            Self::Sparse(list) => find(list, key).ok().map(|i| &mut list[i].1),
        }
    }

    fn insert(&mut self, key: u64, value: T) -> Option<T> {
        match self {
            Self::Dense { slots, live } => {
                let old = slots[Self::slot(key)].replace(value);
                *live += usize::from(old.is_none());
                old
            }
            Self::Sparse(list) => {
                match find(list, key) {
                    Ok(i) => return Some(std::mem::replace(&mut list[i].1, value)),
                    Err(i) => list.insert(i, (key, value)),
                }
                if list.len() > Self::DENSE_MIN {
                    let mut slots = vacant(Self::LEN);
                    for (k, v) in list.drain(..) {
                        slots[Self::slot(k)] = Some(v);
                    }
                    *self = Self::Dense { slots, live: Self::DENSE_MIN + 1 };
                }
                None
            }
        }
    }

    fn remove_if(&mut self, key: u64, goes: impl FnOnce(&mut T) -> bool) -> Option<T> {
        match self {
            Self::Dense { slots, live } => {
                let old = slots[Self::slot(key)].take_if(goes)?;
                *live -= 1;
                if *live <= Self::SPARSE_MAX {
                    let base = key - Self::slot(key) as u64;
                    let list = slots
                        .iter_mut()
                        .enumerate()
                        .filter_map(|(i, slot)| slot.take().map(|value| (base + i as u64, value)))
                        .collect();
                    *self = Self::Sparse(list);
                }
                Some(old)
            }
            Self::Sparse(list) => {
                let i = find(list, key).ok()?;
                if !goes(&mut list[i].1) {
                    return None;
                }
                let old = list.remove(i).1;
                // What a burst left behind must not keep a burst's memory.
                if list.capacity() > 4 * list.len().max(4) {
                    list.shrink_to(2 * list.len());
                }
                Some(old)
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Dense { live, .. } => *live == 0,
            Self::Sparse(list) => list.is_empty(),
        }
    }

    /// The records from `key` on; `base` is the page's first number. None before it is looked at:
    /// whoever goes through a table in small steps begins in the middle of a page each time.
    fn range(&self, base: u64, key: u64) -> Box<dyn Iterator<Item = (u64, &T)> + '_> {
        match self {
            Self::Dense { slots, .. } => {
                let skipped = key.saturating_sub(base) as usize;
                Box::new(slots.iter().enumerate().skip(skipped).filter_map(move |(i, slot)| {
                    slot.as_ref().map(|value| (base + i as u64, value))
                }))
            }
            Self::Sparse(list) => {
                let (Ok(from) | Err(from)) = find(list, key);
                Box::new(list[from..].iter().map(|(k, v)| (*k, v)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Against an ordered map, through filling, draining in order, and leaving stragglers.
    #[test]
    fn behaves_like_an_ordered_map() {
        let mut table = Table::default();
        let mut model = BTreeMap::new();
        let mut x = 1u64;
        let mut next = 0;
        for step in 0..200_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let filling = (step / 20_000) % 2 == 0;
            if filling == (x >> 60 != 0) {
                next += 1 + u64::from(x >> 63 != 0 && step % 97 == 0) * 2000;
                assert_eq!(table.insert(next, step), model.insert(next, step));
            } else if let Some(key) = model.range((x >> 20) % (next + 1)..).next().map(|e| *e.0) {
                assert_eq!(table.remove(key), model.remove(&key));
            }
            assert_eq!(table.len(), model.len());
        }
        for key in 0..=next {
            assert_eq!(table.get(key), model.get(&key));
        }
        let page = Page::<u64>::LEN as u64;
        for from in
            [0, 1, page - 1, page, next / 3, next / 2, next / 2 + 1, next - 1, next, next + 1]
        {
            let found = table.range(from).map(|(k, v)| (k, *v));
            assert!(found.eq(model.range(from..).map(|(k, v)| (*k, *v))), "from {from}");
        }
    }
}
