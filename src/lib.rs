//! jobwright
