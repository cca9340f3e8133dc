//! The functions between layers.

use crate::kernels::Epilogue;

/// The function between layers; the last layer is always linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// max(0, x)
    Relu,
    /// x
    Identity,
}

impl Activation {
    /// The kernels' name for applying it.
    pub(crate) fn forward(self) -> Epilogue {
        match self {
            Activation::Tanh => Epilogue::Tanh,
            Activation::Relu => Epilogue::Relu,
            Activation::Identity => Epilogue::None,
        }
    }

    /// The kernels' name for multiplying by its derivative.
    pub(crate) fn slope(self) -> Epilogue {
        match self {
            Activation::Tanh => Epilogue::TanhSlope,
            Activation::Relu => Epilogue::ReluSlope,
            Activation::Identity => Epilogue::None,
        }
    }
}
