//! Roots, parts and the springs between them.

use super::distance::check_deformation;
use super::filter::Filter;
use crate::error::{Error, Result};

/// A part of a component.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Part {
    /// What it looks like, an octave below the root.
    pub filter: Filter,
    /// Its location without deformation, down and right of the root's, in cells of its level.
    pub anchor: [i64; 2],
    /// `[b_y, a_y, b_x, a_x]`: what a displacement costs.
    pub deformation: [f64; 4],
}

impl Part {
    /// A part that looks like `filter`.
    #[must_use]
    pub const fn new(filter: Filter, anchor: [i64; 2], deformation: [f64; 4]) -> Self {
        Self { filter, anchor, deformation }
    }
}

/// One aspect of an object.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub(super) root: Filter,
    pub(super) bias: f64,
    pub(super) parts: Vec<Part>,
}

/// A mixture of components, each a root and the same number of parts.
#[derive(Debug, Clone, Default)]
pub struct PartModel {
    pub(super) components: Vec<Component>,
}

/// No anchor is further away, so that locations are whole numbers of 32 bits.
const FARTHEST: u64 = 1 << 20;

impl PartModel {
    /// A model without components, which scores nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a component.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a bias, a deformation or an anchor that is out of range,
    /// [`Error::Shape`] where the number of parts differs from that of the first component.
    pub fn push(&mut self, root: Filter, bias: f64, parts: Vec<Part>) -> Result<()> {
        if !bias.is_finite() {
            let expected = "a bias is finite";
            return Err(Error::parameter("bias", bias, expected));
        }
        let cure = "give every component as many";
        let n_parts = self.components.first().map_or(parts.len(), |first| first.parts.len());
        crate::error::check_length("the number of parts", parts.len(), n_parts, cure)?;
        for part in &parts {
            check_deformation(part.deformation)?;
            if let Some(&far) =
                part.anchor.iter().find(|location| location.unsigned_abs() > FARTHEST)
            {
                let expected = "a part is near its root";
                return Err(Error::parameter("anchor", far, expected));
            }
        }
        self.components.push(Component { root, bias, parts });
        Ok(())
    }

    /// Number of parts of a component.
    #[must_use]
    pub fn n_parts(&self) -> usize {
        self.components.first().map_or(0, |first| first.parts.len())
    }

    /// All filters.
    pub(super) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.components.iter().flat_map(|component| {
            std::iter::once(&component.root).chain(component.parts.iter().map(|part| &part.filter))
        })
    }
}
