//! A list that is nearly always of one, which then takes no memory beside it.
//!
//! Who sends or settles a single message asks for just that: nothing is allocated for the list, and
//! nothing is freed by another thread. Read it as the slice that it is.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// See the module. How it is held makes no difference to what it equals.
#[derive(Clone)]
pub enum Few<T> {
    /// One.
    One(T),
    /// Any other number; one as well if it came so.
    List(Vec<T>),
}

impl<T> Few<T> {
    /// Makes something else of each.
    #[inline]
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> Few<U> {
        match self {
            Self::One(value) => Few::One(make(value)),
            Self::List(list) => Few::List(list.into_iter().map(make).collect()),
        }
    }

    /// Adds one at the end.
    pub fn push(&mut self, value: T) {
        match self {
            Self::List(list) if list.is_empty() => *self = Self::One(value),
            Self::List(list) => list.push(value),
            Self::One(_) => {
                let mut list = Vec::from(std::mem::take(self));
                list.push(value);
                *self = Self::List(list);
            }
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::List(list) => list,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(value) => std::slice::from_mut(value),
            Self::List(list) => list,
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(list: Vec<T>) -> Self {
        Self::List(list)
    }
}

impl<T> From<Few<T>> for Vec<T> {
    fn from(few: Few<T>) -> Self {
        match few {
            Few::One(value) => vec![value],
            Few::List(list) => list,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(only), None) => Self::One(only),
            (first, second) => Self::List(first.into_iter().chain(second).chain(values).collect()),
        }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        let (one, list) = match self {
            Self::One(value) => (Some(value), Vec::new()),
            Self::List(list) => (None, list),
        };
        one.into_iter().chain(list)
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn it_is_the_same_list_however_it_is_held() {
        for list in [vec![], vec![7], vec![7, 8], vec![7, 8, 9]] {
            let collected: Few<i32> = list.iter().copied().collect();
            assert_eq!(collected, Few::from(list.clone()));
            assert_eq!(*collected, *list);
            assert_eq!(collected.clone().into_iter().collect::<Vec<_>>(), list);
            assert_eq!(collected.clone().map(|value| value), collected);
            let mut pushed = collected;
            pushed.push(1);
            assert_eq!(Vec::from(pushed), [list, vec![1]].concat());
        }
        assert!(matches!(std::iter::once(7).collect(), Few::One(7)));
    }
}
