// SPDX-License-Identifier: MIT
// Markers from Rust. rustc -O wickmark.rs -L DIR -l static=wickmark && wick record -o rs.firefox.json -- ./wickmark
use std::ffi::CString;
use std::os::raw::{c_char, c_void};
use std::ptr::null;

#[repr(C)]
struct Details {
    values: *const u64,
    value_count: u32,
    name: u32,
    flow: u64,
    flow_ends: u32,
}
extern "C" {
    fn wickmark_site_new(category: *const c_char, name: *const c_char, fields: *const c_char) -> *mut c_void;
    fn wickmark_is_on() -> i32;
    fn wickmark_time() -> u64;
    fn wickmark_intern(text: *const c_char) -> u32;
    fn wickmark_mark(site: *mut c_void, kind: u32, number: u64, details: *const Details);
}

/// A place that makes markers: Site::new("Engine", "step", "rows:integer,peer:string").
pub struct Site(*mut c_void);
unsafe impl Send for Site {}
unsafe impl Sync for Site {}

impl Site {
    pub fn new(category: &str, name: &str, fields: &str) -> Site {
        let text = |s: &str| CString::new(s).unwrap();
        let (category, name, text_of_fields) = (text(category), text(name), text(fields));
        let fields = if fields.is_empty() { null() } else { text_of_fields.as_ptr() };
        Site(unsafe { wickmark_site_new(category.as_ptr(), name.as_ptr(), fields) })
    }
    fn mark(&self, kind: u32, number: u64, values: &[u64]) {
        let details = Details { values: values.as_ptr(), value_count: values.len() as u32, name: 0, flow: 0, flow_ends: 0 };
        unsafe { wickmark_mark(self.0, kind, number, &details) }
    }
    pub fn instant(&self, values: &[u64]) {
        if unsafe { wickmark_is_on() } != 0 {
            self.mark(1, 0, values)
        }
    }
    /// The time that the closure takes.
    pub fn span<T>(&self, values: &[u64], body: impl FnOnce() -> T) -> T {
        let begun = unsafe { wickmark_time() };
        let result = body();
        if begun != 0 {
            self.mark(2, begun, values)
        }
        result
    }
}
pub fn text(s: &str) -> u64 {
    CString::new(s).map_or(0, |s| unsafe { wickmark_intern(s.as_ptr()) as u64 })
}

fn main() {
    let step = Site::new("Example", "step", "rows:integer,peer:string,share:percentage");
    for i in 0..10u64 {
        step.span(&[i, text("neighbour"), 0.5f64.to_bits()], || (0..1_000_000u64).fold(i, |sum, k| unsafe { std::ptr::read_volatile(&k) } ^ sum));
    }
    step.instant(&[-1i64 as u64, text("the end"), 1f64.to_bits()]);
}
