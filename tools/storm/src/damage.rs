//! Files with flipped bits, cut off, or from elsewhere.
