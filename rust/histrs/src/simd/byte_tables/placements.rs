//! How values of columns become codes.

/// How values of a column become codes: `1 + scale * x` in single precision, whose bits less
/// those of one, rounded to a multiple of `2^shift`, are the code; at most `last`.
///
/// The bits of a floating-point number are linear in it from one power of two to the next. So
/// cells are equally wide, or twice as wide after each power of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) scale: f32,
    pub(crate) shift: u32,
    pub(crate) last: u32,
}

impl Placement {
    /// The bits of one, less what rounds.
    fn base(self) -> u32 {
        1.0_f32.to_bits() - (1 << (self.shift - 1))
    }

    /// The code of a value that is not negative.
    #[inline(always)]
    pub(crate) fn code(self, x: f32) -> u32 {
        let bits = (x * self.scale + 1.0).to_bits();
        (bits.wrapping_sub(self.base()) >> self.shift).min(self.last)
    }
}

/// The placements of some columns, side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placements {
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<u32>,
    pub(super) base: Vec<u32>,
    pub(super) last: Vec<u32>,
    /// Where the codes of every column go.
    pub(super) slot: Vec<u32>,
    pub(super) n_columns: usize,
    pub(super) n_slots: usize,
}

/// Columns that are read together.
pub(super) const LANES: usize = 16;

impl Placements {
    /// Of columns whose codes go to the given slots, of `n_slots`.
    #[allow(clippy::cast_possible_truncation)] // at most a few hundred columns
    pub(crate) fn new(columns: &[(Placement, usize)], n_slots: usize) -> Self {
        assert!(columns.iter().all(|column| column.1 < n_slots));
        let idle = Placement { scale: 0.0, shift: 1, last: 0 };
        let padding = columns.len().next_multiple_of(LANES) - columns.len();
        let all = || columns.iter().map(|c| c.0).chain(std::iter::repeat_n(idle, padding));
        Self {
            scale: all().map(|p| p.scale).collect(),
            shift: all().map(|p| p.shift).collect(),
            base: all().map(Placement::base).collect(),
            last: all().map(|p| p.last).collect(),
            slot: columns.iter().map(|c| c.1 as u32).collect(),
            n_columns: columns.len(),
            n_slots,
        }
    }
}

/// Placements of bytes: cells of one or of two values each, from 0 on.
#[derive(Debug, Clone, Default)]
pub(crate) struct BytePlacements {
    /// For every column the largest value told apart, whether cells are of two values, the slot.
    pub(super) columns: Vec<(u8, bool, u32)>,
    pub(super) n_slots: usize,
}

impl BytePlacements {
    /// Of the columns of some placements, where all are of that kind.
    #[allow(clippy::cast_possible_truncation)] // at most 255
    pub(crate) fn new(placements: &Placements) -> Option<Self> {
        let columns = (0..placements.n_columns).map(|d| {
            let (scale, last) = (placements.scale[d], placements.last[d]);
            let steps = (scale * 16384.0) as u32;
            let whole = last == 0 || (placements.shift[d] == 9 && (steps == 64 || steps == 128));
            let exact = last == 0 || steps as f32 == scale * 16384.0;
            let largest = if last == 0 { 0 } else { last / steps.max(1) };
            (whole && exact && largest <= 255).then_some((
                largest as u8,
                steps == 64,
                placements.slot[d],
            ))
        });
        Some(Self { columns: columns.collect::<Option<_>>()?, n_slots: placements.n_slots })
    }
}
