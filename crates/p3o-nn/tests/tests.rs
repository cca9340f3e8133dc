//! What the engine promises, one module each.

mod promises {
    mod adam;
    mod gradients;
    mod gru;
    mod heads;
    mod init;
    mod nan;
    mod peak;
    mod precision;
    mod same_bits;
    mod support;
    mod tangents;
    mod tanh;
}
