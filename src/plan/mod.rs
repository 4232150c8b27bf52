//! Placements of sources in the whole, checks that they agree, coordinates.
