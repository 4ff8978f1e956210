//! Parses JSON that users wrote without copying it: only what a rule reads needs memory, whatever the size of the object.

pub mod fields;

pub use fields::{FieldPlace, Json, MOST, places};

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A string, borrowed from the JSON text unless it contains escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// Deserializes the first `most` items of a list; further items are skipped and use no memory.
///
/// # Errors
/// An item has the wrong type, or the list is invalid JSON.
pub fn first_items<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(mut list: A, most: usize) -> Result<Vec<T>, A::Error> {
    let mut items = Vec::new();
    while items.len() < most
        && let Some(item) = list.next_element()?
    {
        items.push(item);
    }
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(items)
}

/// The first [`MOST`] items of a list.
#[derive(Clone, Debug)]
pub struct First<T>(Vec<T>);

impl<T> Deref for First<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                first_items(list, MOST).map(First)
            }
        }

        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}
