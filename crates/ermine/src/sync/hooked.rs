//! Atomics with a hook in front of each access, for builds that look on or take over there.
//!
//! They are the standard library's, and a word stays a word: the layouts of nodes and versions and the zeroed memory of
//! indirection arrays are those of every build. The hooks are the functions `before_load`, `before_store` and
//! `before_update` of [`hooks`](super::hooks), which are given the address.

use std::sync::atomic::{AtomicPtr as StdPtr, AtomicU32 as StdU32, AtomicU64 as StdU64, AtomicUsize as StdUsize};

pub(crate) use std::sync::atomic::Ordering;

use super::hooks::{before_load, before_store, before_update};

macro_rules! atomic {
    ($name:ident $(<$of:ident>)?, $standard:ty, $value:ty) => {
        #[repr(transparent)]
        pub(crate) struct $name$(<$of>)?($standard);

        #[allow(dead_code, reason = "what one word needs, all have")]
        impl$(<$of>)? $name$(<$of>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(<$standard>::new(value))
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            #[inline]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                before_load((&raw const self.0).addr());
                self.0.load(order)
            }

            #[inline]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                before_store((&raw const self.0).addr(), order);
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                before_update((&raw const self.0).addr());
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                before_update((&raw const self.0).addr());
                self.0.compare_exchange(expected, new, success, failure)
            }

            /// Never fails spuriously.
            pub(crate) fn compare_exchange_weak(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(expected, new, success, failure)
            }
        }

        impl$(<$of>)? Default for $name$(<$of>)? {
            fn default() -> Self {
                Self(<$standard>::default())
            }
        }
    };
}

atomic!(AtomicPtr<T>, StdPtr<T>, *mut T);
atomic!(AtomicU32, StdU32, u32);
atomic!(AtomicU64, StdU64, u64);
atomic!(AtomicUsize, StdUsize, usize);

macro_rules! counting {
    ($name:ident, $value:ty, $($operation:ident)*) => {
        impl $name {
            $(pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                before_update((&raw const self.0).addr());
                self.0.$operation(value, order)
            })*
        }
    };
}

counting!(AtomicU32, u32, fetch_add fetch_sub fetch_max);
counting!(AtomicU64, u64, fetch_add fetch_sub fetch_max fetch_or fetch_and);
counting!(AtomicUsize, usize, fetch_add fetch_sub fetch_max);

impl AtomicU64 {
    pub(crate) fn fetch_update(
        &self,
        success: Ordering,
        failure: Ordering,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        before_update((&raw const self.0).addr());
        self.0.fetch_update(success, failure, update)
    }
}
